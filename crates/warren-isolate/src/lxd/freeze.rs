//! Stopping every process where it stands, and letting it go on.

use warren_core::{IsolationError, IsolationErrorKind, SandboxId};

use super::Backend;

pub(super) fn set_frozen(backend: &Backend, id: &SandboxId, frozen: bool) -> Result<(), IsolationError> {
    let (found, _) = backend.find(id)?;
    if found.is_frozen() == frozen && !found.is_stopped() {
        return Ok(());
    }
    let verb = if frozen { "freeze" } else { "thaw" };
    if backend.life(id).is_none() {
        return Err(IsolationError::new(IsolationErrorKind::Ended, format!("{verb} {id}, which has ended")));
    }
    backend.client.set_frozen(id, frozen).map_err(|error| {
        IsolationError::caused(error.kind(IsolationErrorKind::Host), format!("{verb} {id}"), error)
    })
}
