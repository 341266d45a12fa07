use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use warren_core::SandboxId;

/// How long a port may take to open after its sandbox woke: the application may have to begin anew.
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// Sandboxes that traffic woke a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Woken(Mutex<HashMap<SandboxId, Instant>>);

impl Woken {
    pub(crate) fn note(&self, sandbox: &SandboxId) {
        let mut woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        woken.retain(|_, since| since.elapsed() < PORT_PATIENCE);
        woken.insert(sandbox.clone(), Instant::now());
    }

    /// Whether ports of the sandbox are still waited for.
    pub(crate) fn is_fresh(&self, sandbox: &SandboxId) -> bool {
        let woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        woken.get(sandbox).is_some_and(|since| since.elapsed() < PORT_PATIENCE)
    }
}
