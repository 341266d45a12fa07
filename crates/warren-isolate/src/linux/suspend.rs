//! Putting a sandbox's processes on disk, and with that ending them.

use std::path::Path;

use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::record::{Record, Stage};
use super::{Backend, Hold, destroy, halt, not_found};

pub(super) fn suspend(backend: &Backend, id: &SandboxId, into: &Path) -> Result<(), IsolationError> {
    let (mut hold, lock) = destroy::seize(backend, id)?;
    let record = Record::load(&backend.data.sandbox(id)).ok_or_else(|| not_found(id))?;
    let done = if record.is_alive() {
        attempt(backend, &record, &mut hold, into)
    } else {
        Err(IsolationError::new(IsolationErrorKind::Ended, format!("{id} does not run")))
    };
    halt::keep(backend, id, record.owner, hold, lock);
    done
}

/// If this process ends half way, nobody can tell how far it came: the next one halts it.
fn attempt(backend: &Backend, record: &Record, hold: &mut Hold, into: &Path) -> Result<(), IsolationError> {
    let directory = backend.data.sandbox(&record.id);
    let noted = |stage| {
        record.enter(stage, &directory).map_err(|error| {
            let action = format!("write down that {} is put on disk", record.id);
            IsolationError::caused(IsolationErrorKind::Host, action, error)
        })
    };
    noted(Stage::Suspending)?;
    match backend.starter.suspend(backend, &record.id, (record.pid, record.id_base), into) {
        Err(error) if error.kind != IsolationErrorKind::Ended => noted(Stage::Started).and(Err(error)),
        suspended => halt::end(backend, record, hold).and(suspended),
    }
}
