//! Destroying a sandbox: its instance first, then its directory. What is found of either is
//! removed, so it may be repeated.

use std::io;

use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::Backend;
use super::client::LxdError;
use crate::linux::{CrashPoint, Lock, remove_tree};

/// Something of a sandbox could not be removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoveError {
    #[error(transparent)]
    Instance(#[from] LxdError),
    #[error("remove its directory")]
    Directory(#[source] io::Error),
}

pub(super) fn destroy(backend: &Backend, id: &SandboxId) -> Result<(), IsolationError> {
    let failed = |kind, error: RemoveError| IsolationError::caused(kind, format!("destroy {id}"), error);
    // An id that nobody has is told apart here; a directory without an instance is a remainder.
    match backend.client.instance(id) {
        Err(error) if error.is_not_found() && !backend.data.sandbox(id).exists() => {
            return Err(super::not_found(id));
        }
        Err(error) if !error.is_not_found() => {
            return Err(failed(error.kind(IsolationErrorKind::Host), error.into()));
        }
        Ok(found) if !found.belongs_to(backend.data.instance()) => return Err(super::not_found(id)),
        _ => {}
    }
    let (mut hold, lock) = backend.seize_or_register(id)?;
    match remove(backend, id, &lock) {
        Ok(()) => Ok(()),
        Err(error) => {
            let kind = match &error {
                RemoveError::Instance(error) => error.kind(IsolationErrorKind::Host),
                RemoveError::Directory(_) => IsolationErrorKind::Host,
            };
            hold.lock = Some(lock);
            backend.hold(id, hold);
            Err(failed(kind, error))
        }
    }
}

/// Removes a sandbox whose directory's lock is held.
pub(super) fn remove(backend: &Backend, id: &SandboxId, _lock: &Lock) -> Result<(), RemoveError> {
    backend.client.stop(id).or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })?;
    backend.passed(CrashPoint::DestroyKill);
    backend.client.remove(id, backend.data.instance())?;
    backend.passed(CrashPoint::ReapFiles);
    if remove_tree(&backend.data.sandbox(id), || {}) {
        return Ok(());
    }
    Err(RemoveError::Directory(io::ErrorKind::DirectoryNotEmpty.into()))
}
