//! Answering for a sandbox: telling the end of its first process, and holding it to what the kernel does not.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::EventfdFlags;
use rustix::process::{Pid, PidfdFlags};
use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::record::Record;
use super::{Shared, not_found, warden};

pub(super) fn watch(shared: &Shared, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
    let record = Record::load(&shared.data.sandbox(id)).ok_or_else(|| not_found(id))?;
    let watched = match open(&record) {
        Some(process) => {
            warden::adopt(shared, &record);
            Ok(process)
        }
        None => over(),
    };
    watched.map_err(|error| IsolationError::caused(IsolationErrorKind::Host, format!("watch {id}"), error))
}

/// The recorded process; `None` if it has ended. The descriptor is opened first and the number compared after that, so it is
/// never another process that was given the same number.
fn open(record: &Record) -> Option<OwnedFd> {
    let number = i32::try_from(record.pid).ok().and_then(Pid::from_raw)?;
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty()).ok()?;
    record.is_alive().then_some(process)
}

/// A descriptor that is readable at once, and for good.
fn over() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(1, EventfdFlags::CLOEXEC)?)
}
