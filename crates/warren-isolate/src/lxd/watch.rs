//! Watching a sandbox: its first process's end.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::EventfdFlags;
use rustix::process::{Pid, PidfdFlags};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::Backend;
use super::record::Life;

/// The kernel tells of the end by itself: the daemon may be away meanwhile.
pub(super) fn watch(backend: &Backend, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
    let directory = backend.directory(id)?;
    let process = Life::load(&directory).and_then(|life| open(&life));
    process
        .map_or_else(over, Ok)
        .map_err(|error| IsolationError::caused(IsolationErrorKind::Host, format!("watch {id}"), error))
}

/// The descriptor is opened before the process is compared with what was written down, so it is
/// never another process with the same number.
fn open(life: &Life) -> Option<OwnedFd> {
    let number = i32::try_from(life.pid).ok().and_then(Pid::from_raw)?;
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty()).ok()?;
    (!life.is_over()).then_some(process)
}

/// A descriptor that is always readable.
fn over() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(1, EventfdFlags::CLOEXEC)?)
}
