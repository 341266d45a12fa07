//! Changes that happen because time passes. The clock port decides about all of them; the runtime's
//! clock only says how often to look.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use warren_core::{IsolationError, Networks, Owner, Pulse, SandboxId, Status};

use crate::cell::Cell;
use crate::cell::Task;
use crate::engine::closed;
use crate::error::sentence;
use crate::{Engine, Mode};

/// How often it is seen whether something is due.
const TICK: Duration = Duration::from_secs(1);
/// How often the processors are shared anew: often enough that an owner who takes them all is
/// noticed before others wait for long.
const BALANCE_TICK: Duration = Duration::from_millis(250);
/// How many sandboxes are looked at at the same time.
const LOOKS_AT_ONCE: usize = 16;
/// How long a backend may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks every second whether something is due, and sweeps every so often, until the engine ends.
pub(crate) async fn keep_time(engine: Engine) {
    let mut closing = engine.shared.closing.subscribe();
    let clock = engine.shared.parts.clock.clone();
    let sweep_ms = engine.shared.settings.sweep_s.saturating_mul(1000);
    let mut swept_ms = clock.boot_ms();
    loop {
        tokio::select! {
            () = closed(&mut closing) => return,
            () = tokio::time::sleep(TICK) => {}
        }
        if clock.boot_ms().saturating_sub(swept_ms) >= sweep_ms {
            swept_ms = clock.boot_ms();
            engine.sweep().await;
        } else {
            engine.look_at_due().await;
            engine.see_to_sightings().await;
        }
    }
}

/// Sees to it that no owner has more of the processors than another, until the engine ends. It
/// waits for nothing else that is due.
pub(crate) async fn keep_balance(engine: Engine) {
    let mut closing = engine.shared.closing.subscribe();
    let mut are_several = false;
    loop {
        tokio::select! {
            () = closed(&mut closing) => return,
            () = tokio::time::sleep(BALANCE_TICK) => {}
        }
        are_several = engine.balance(are_several).await;
    }
}

/// A connection through the proxy is one, wherever it is counted.
fn feel(cell: &Cell, networks: &dyn Networks) -> Result<Pulse, IsolationError> {
    let proxied = networks.usage(&cell.id).map_or(0, |usage| usage.proxied);
    let pulse = cell.backend.port.pulse(&cell.id)?;
    Ok(Pulse { connections: pulse.connections.max(proxied), ..pulse })
}

impl Engine {
    /// Does at once what the sweep does every so often: expiries, idleness, thinning, forgetting.
    pub async fn sweep(&self) {
        if self.may_change().is_err() {
            return;
        }
        self.look_at(self.shared.registry.all()).await;
        self.see_to_sightings().await;
        self.sweep_sessions().await;
        self.sweep_snapshots().await;
        self.sweep_nameless_secrets().await;
        self.forget().await;
    }

    /// Gives each owner as much of the processors as another, as soon as there are several. Returns
    /// true if there are or were several: the sandboxes of the last owner left still have a lower
    /// weight.
    async fn balance(&self, were_several: bool) -> bool {
        let cells = self.shared.registry.all();
        // Mostly there is one owner, and nothing to do.
        if !were_several && cells.windows(2).all(|pair| pair[0].owner == pair[1].owner) {
            return false;
        }
        for backend in &self.shared.backends {
            let mut groups: HashMap<&Owner, Vec<SandboxId>> = HashMap::new();
            for cell in &cells {
                if cell.status() == Status::Ready && Arc::ptr_eq(&cell.backend, backend) {
                    groups.entry(&cell.owner).or_default().push(cell.id.clone());
                }
            }
            let (port, groups) = (Arc::clone(&backend.port), groups.into_values().collect::<Vec<_>>());
            // One that takes longer goes on by itself.
            backend.answer(PATIENCE, move || port.balance(&groups)).await;
        }
        true
    }

    /// Tells and writes down what sandboxes were seen to do.
    async fn see_to_sightings(&self) {
        self.tell_of_networks(false);
        if self.mode() == Mode::Normal {
            self.write_reached().await;
        }
    }

    /// Looks at those for which something is due.
    async fn look_at_due(&self) {
        let now_ms = self.shared.parts.clock.boot_ms();
        let mut due = self.shared.registry.all();
        due.retain(|cell| cell.due_ms.load(Ordering::Relaxed) <= now_ms);
        if !due.is_empty() && self.mode() == Mode::Normal {
            self.look_at(due).await;
        }
    }

    async fn look_at(&self, cells: Vec<Arc<Cell>>) {
        stream::iter(cells).for_each_concurrent(LOOKS_AT_ONCE, |cell| self.look(cell)).await;
    }

    /// Feels the pulse of a sandbox that may be idle, then lets its driver judge.
    async fn look(&self, cell: Arc<Cell>) {
        let quiet =
            cell.status() == Status::Ready && cell.life().inside() == 0 && !self.is_thinking(&cell.id);
        let pulse = if quiet {
            let looked_at = Arc::clone(&cell);
            let networks = Arc::clone(&self.shared.parts.networks);
            let felt = cell.backend.answer(PATIENCE, move || feel(&looked_at, networks.as_ref())).await;
            felt.and_then(Result::ok)
        } else {
            None
        };
        if let Some(Err(error)) = cell.ask(Task::Look(pulse)).await {
            tracing::warn!(sandbox.id = %cell.id, error = sentence(&error), "what is due for a sandbox did not get done");
        }
    }
}
