use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warren_core::SandboxId;

/// How long a port may take to open after its sandbox woke: what listened may have to begin anew.
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// Sandboxes that woke a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Woken(Mutex<HashMap<SandboxId, Instant>>);

impl Woken {
    pub(crate) fn note(&self, sandbox: &SandboxId) {
        let mut woken = self.0.lock();
        woken.retain(|_, since| since.elapsed() < PORT_PATIENCE);
        woken.insert(sandbox.clone(), Instant::now());
    }

    /// Until when ports of the sandbox are waited for; `None` if it has been awake for long.
    pub(crate) fn patience(&self, sandbox: &SandboxId) -> Option<Instant> {
        let woken = self.0.lock();
        let until = *woken.get(sandbox)? + PORT_PATIENCE;
        (Instant::now() < until).then_some(until)
    }
}
