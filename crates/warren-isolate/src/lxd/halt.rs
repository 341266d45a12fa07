//! Ending a sandbox's processes and keeping its files.

use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::Backend;
use super::create::end_life;
use crate::linux::CrashPoint;

pub(super) fn halt(backend: &Backend, id: &SandboxId) -> Result<(), IsolationError> {
    let (_, record) = backend.find(id)?;
    let (mut hold, lock) = backend.seize(id)?;
    let stopped = backend.client.stop(id).map_err(|error| {
        let kind = error.kind(IsolationErrorKind::Host);
        IsolationError::caused(kind, format!("end the processes of {id}"), error)
    });
    let halted = stopped.and_then(|()| {
        backend.passed(CrashPoint::HaltProcesses);
        hold.lifeline = None;
        let forgotten = end_life(backend, id, &lock);
        backend.passed(CrashPoint::HaltRecord);
        forgotten.map_err(|error| {
            IsolationError::caused(IsolationErrorKind::Host, format!("forget the last life of {id}"), error)
        })
    });
    backend.keep(id, record.owner, hold, lock);
    halted
}
