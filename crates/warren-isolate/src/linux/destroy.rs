//! Destroying a sandbox. The caller waits only until all processes are killed and the id is free;
//! the reaper does the rest.

use std::fs;
use std::io;

use rustix::fs::FlockOperation;
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::data::{Lock, try_lock};
use super::reaper::{Reaper, Remains};
use super::step::CrashPoint;
use super::{Backend, Hold, not_found};

pub(super) fn destroy(backend: &Backend, reaper: &Reaper, id: &SandboxId) -> Result<(), IsolationError> {
    let (hold, lock) = seize(backend, id)?;
    discard(backend, reaper, id, hold, lock)
}

/// Takes this process's [`Hold`] on a sandbox, and the lock on its directory. Without the lock the
/// hold stays as it was.
pub(super) fn seize(backend: &Backend, id: &SandboxId) -> Result<(Hold, Lock), IsolationError> {
    let mut hold = backend.release(id);
    match hold.lock.take().map_or_else(|| lock_unless_owned(backend, id), Ok) {
        Ok(lock) => Ok((hold, lock)),
        Err(error) => {
            // Its first process is still to be reaped when it is destroyed.
            backend.hold(id, hold);
            Err(error)
        }
    }
}

/// A search for orphans briefly holds the lock of every sandbox, and the gate all along. So a lock
/// that is held while the gate is free has an owner.
fn lock_unless_owned(backend: &Backend, id: &SandboxId) -> Result<Lock, IsolationError> {
    let lock = || {
        let gate = backend.data.gate(FlockOperation::LockShared)?;
        let lock = try_lock(&backend.data.sandbox(id));
        drop(gate);
        lock
    };
    match lock() {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(IsolationError::new(
            IsolationErrorKind::Host,
            format!("{id} belongs to another process, which destroys it itself"),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found(id)),
        Err(error) => Err(IsolationError::caused(IsolationErrorKind::Host, format!("lock {id}"), error)),
    }
}

/// Ends a sandbox whose directory's lock is held, and puts it away. What is away is removed for
/// certain: the reaper, and the next process that opens the data directory, try again. What cannot
/// be put away stays where it is, ended.
pub(super) fn discard(
    backend: &Backend,
    reaper: &Reaper,
    id: &SandboxId,
    mut hold: Hold,
    lock: Lock,
) -> Result<(), IsolationError> {
    backend.forget_life(id);
    drop(backend.cgroups.kill(id.as_str()));
    backend.passed(CrashPoint::DestroyKill);
    match fs::rename(backend.data.sandbox(id), backend.data.trash(id)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            hold.watched = None;
            backend.hold(id, hold);
            return Err(IsolationError::caused(IsolationErrorKind::Host, format!("put {id} away"), error));
        }
        _ => {}
    }
    backend.passed(CrashPoint::DestroyTrash);
    reaper.take(Remains::new(id.clone(), lock, hold.child));
    Ok(())
}
