//! Giving a sandbox that runs to somebody else: its record tells another spec.

use serde_json::json;
use warren_core::{IsolationError, IsolationErrorKind, SandboxId, SandboxSpec};

use super::Backend;
use super::record::RECORD;

pub(super) fn hand_over(backend: &Backend, id: &SandboxId, spec: &SandboxSpec) -> Result<(), IsolationError> {
    let (_, record) = backend.find(id)?;
    let (hold, lock) = backend.seize(id)?;
    let owner = record.owner;
    let text = record.of(spec, owner).to_text();
    // One change of the daemon's database: it is done or not.
    let stored = backend.client.configure(id, &json!({ RECORD: text })).map_err(|error| {
        let kind = error.kind(IsolationErrorKind::Host);
        IsolationError::caused(kind, format!("write down whose {id} is"), error)
    });
    backend.keep(id, owner, hold, lock);
    stored
}
