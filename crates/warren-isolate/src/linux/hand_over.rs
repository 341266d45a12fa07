//! Giving a sandbox that runs to somebody else: its record tells another spec.

use warren_core::{IsolationError, IsolationErrorKind, SandboxId, SandboxSpec};

use super::record::Record;
use super::{Backend, destroy, halt, not_found};

pub(super) fn hand_over(backend: &Backend, id: &SandboxId, spec: &SandboxSpec) -> Result<(), IsolationError> {
    let (hold, lock) = destroy::seize(backend, id)?;
    let directory = backend.data.sandbox(id);
    let record = Record::load(&directory).ok_or_else(|| not_found(id));
    let stored = record.and_then(|record| {
        let stored = record.of(spec).store(&directory).map_err(|error| {
            let action = format!("write down whose {id} is");
            IsolationError::caused(IsolationErrorKind::Host, action, error)
        });
        stored.map(|()| record.owner)
    });
    match stored {
        Ok(owner) => {
            halt::keep(backend, id, owner, hold, lock);
            Ok(())
        }
        Err(error) => {
            backend.hold(id, hold);
            Err(error)
        }
    }
}
