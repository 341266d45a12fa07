//! Watching a sandbox: its first process's end, and its disk limit where the kernel has none.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::EventfdFlags;
use rustix::process::{Pid, PidfdFlags};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::record::Record;
use super::{Backend, deferred, not_found, warden};

pub(super) fn watch(backend: &Arc<Backend>, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
    let record = Record::load(&backend.data.sandbox(id)).ok_or_else(|| not_found(id))?;
    let watched = match open(&record) {
        Some(process) => {
            warden::adopt(backend, &record);
            if backend.starter.defers() {
                deferred::adopt(backend, &record);
            }
            Ok(process)
        }
        None => over(),
    };
    watched.map_err(|error| IsolationError::caused(IsolationErrorKind::Host, format!("watch {id}"), error))
}

/// The recorded process; `None` if it has ended. The descriptor is opened before the process is
/// compared with the record, so it is never another process with the same number.
fn open(record: &Record) -> Option<OwnedFd> {
    let number = i32::try_from(record.pid).ok().and_then(Pid::from_raw)?;
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty()).ok()?;
    record.is_alive().then_some(process)
}

/// A descriptor that is always readable.
fn over() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(1, EventfdFlags::CLOEXEC)?)
}
