use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use warren_core::{Clock, Deadline, SandboxId, SessionId, SessionRecord};

type Leases = HashMap<SandboxId, BTreeMap<SessionId, Deadline>>;

/// The sessions whose models work at this moment. The catalog has the same; this answers without
/// asking it.
#[derive(Debug, Default)]
pub(crate) struct Thinking {
    leases: Mutex<Leases>,
}

impl Thinking {
    /// Takes over what the session's record says.
    pub(crate) fn note(&self, session: &SessionRecord) {
        let mut leases = self.leases.lock();
        match session.thinking_until.clone().filter(|_| session.state.is_open()) {
            Some(until) => {
                leases.entry(session.sandbox.clone()).or_default().insert(session.id.clone(), until);
            }
            None => {
                if let Some(sandbox) = leases.get_mut(&session.sandbox) {
                    sandbox.remove(&session.id);
                    if sandbox.is_empty() {
                        leases.remove(&session.sandbox);
                    }
                }
            }
        }
    }

    pub(crate) fn about(&self, sandbox: &SandboxId, clock: &dyn Clock) -> bool {
        let leases = self.leases.lock();
        leases.get(sandbox).is_some_and(|leases| leases.values().any(|until| !until.is_due(clock)))
    }

    pub(crate) fn forget(&self, sandbox: &SandboxId) {
        self.leases.lock().remove(sandbox);
    }
}
