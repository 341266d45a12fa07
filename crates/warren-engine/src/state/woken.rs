use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warren_core::SandboxId;

/// How long a port may take to open after its sandbox woke: the application may have to begin anew.
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// Sandboxes that traffic woke a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Woken(Mutex<HashMap<SandboxId, Instant>>);

impl Woken {
    pub(crate) fn note(&self, sandbox: &SandboxId) {
        let mut woken = self.0.lock();
        woken.retain(|_, since| since.elapsed() < PORT_PATIENCE);
        woken.insert(sandbox.clone(), Instant::now());
    }

    /// Says whether ports of the sandbox are still waited for.
    pub(crate) fn is_fresh(&self, sandbox: &SandboxId) -> bool {
        self.0.lock().get(sandbox).is_some_and(|since| since.elapsed() < PORT_PATIENCE)
    }
}
