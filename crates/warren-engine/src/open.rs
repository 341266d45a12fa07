//! The beginning and the end of an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;
use warren_core::DeathCause;
use warren_core::catalog::CatalogError;

use crate::bounds::heavy::HeavyWork;
use crate::bounds::{Presence, Seats};
use crate::cell::Task;
use crate::certificate::Ending;
use crate::engine::OpenError;
use crate::error::sentence;
use crate::ports::Backend;
use crate::ports::blocking;
use crate::state::{
    Builds, Events, Figures, Journal, Keep, Keyed, Leases, Pools, Registry, Sightings, State, Woken,
};
use crate::{Engine, EngineError, Mode, Parts, Settings, forget, reconcile, sweep};

/// Sandboxes that are stopped at the same time when the engine ends.
const STOPS_AT_ONCE: usize = 16;
/// How long drivers may take to finish what they are doing when the engine ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// How sandboxes are left when the engine ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownPolicy {
    /// They run on, and the next start adopts them.
    Leave,
    /// They are stopped; their files stay.
    Stop,
    /// As [`ShutdownPolicy::Stop`], because the machine goes down.
    MachineGoesDown,
}

impl ShutdownPolicy {
    /// How sandboxes end, if they do.
    fn ending(self) -> Option<Ending> {
        let (cause, detail) = match self {
            Self::Leave => return None,
            Self::Stop => {
                (DeathCause::Killed { by: "the server's shutdown".to_owned() }, "the server was shut down")
            }
            Self::MachineGoesDown => (DeathCause::HostRestart, "the machine was shut down"),
        };
        Some(Ending { cause, detail: detail.to_owned(), files_kept: true })
    }
}

impl Engine {
    /// Starts the engine: joins the catalog with what really runs, then answers. Returns as soon as
    /// requests can be served; what takes longer (removing remains) goes on in the background, see
    /// [`Engine::reconciled`].
    pub async fn open(parts: Parts, settings: Settings) -> Result<Self, OpenError> {
        if parts.backends.is_empty() {
            return Err(OpenError::NoBackend);
        }
        let catalog = Arc::clone(&parts.catalog);
        let clock = Arc::clone(&parts.clock);
        let (anchor, last_event) = blocking(move || {
            let anchor = forget::anchor(catalog.as_ref(), clock.as_ref())?;
            Ok::<_, CatalogError>((anchor, catalog.last_event()?))
        })
        .await?;
        let (journal, journal_jobs) = Journal::new();
        let (pools, unused_spares) = Pools::new();
        let presence = Arc::new(Presence::default());
        let (count, limits) = (parts.backends.len(), settings.heavy_work);
        let backends = parts.backends.iter().cloned();
        let backends = backends.map(|port| Backend::new(port, count, &limits, &presence)).collect();
        let state = State {
            anchor,
            registry: Registry::default(),
            seats: Seats::new(settings.max_sandboxes, settings.max_sandboxes_per_owner),
            events: Events::after(last_event),
            figures: Figures::default(),
            probes: Mutex::default(),
            leases: Leases::default(),
            pools,
            builds: Builds::default(),
            woken: Woken::default(),
            keep: Keep::default(),
            sightings: Sightings::default(),
            calls: Keyed::default(),
            in_flight: settings.calls_in_flight(),
            visits: settings.visits_in_flight(),
            journal,
            heavy_work: HeavyWork::new(&settings.heavy_work),
            backends,
            presence,
            started_ms: parts.clock.boot_ms(),
            started_unix_ms: parts.clock.unix_ms(),
            reconciled: watch::Sender::new(false),
            mode: Mutex::new(Mode::Normal),
            refusing: AtomicBool::new(false),
            closing: watch::Sender::new(false),
            settings,
            parts,
        };
        let engine = Self::with(state);
        engine.observe_networks();
        reconcile::at_start(&engine).await?;
        tokio::spawn(engine.inner().keep_writing_events());
        tokio::spawn(engine.inner().keep_writing_journal());
        tokio::spawn(engine.inner().keep_watching_ends(journal_jobs));
        for cell in engine.shared.registry.all() {
            engine.take_up_entries(&cell).await;
        }
        tokio::spawn(engine.inner().keep_syncing());
        tokio::spawn(sweep::keep_time(engine.inner()));
        tokio::spawn(sweep::keep_balance(engine.inner()));
        tokio::spawn(reconcile::keep_asking(engine.inner()));
        tokio::spawn(engine.inner().keep_pools(unused_spares));
        Ok(engine)
    }

    /// Somebody has looked: whatever looked dead is dead. Leaves read-only mode.
    pub async fn accept_losses(&self) -> Result<(), EngineError> {
        if self.shared.refusing.load(Ordering::Acquire) {
            return Err(EngineError::ShuttingDown);
        }
        if self.mode() == Mode::Normal {
            return Ok(());
        }
        reconcile::accepting_losses(self).await
    }

    /// Waits until start-up reconciliation is done.
    pub async fn reconciled(&self) {
        let mut reconciled = self.shared.reconciled.subscribe();
        // The sender lives as long as this engine does.
        drop(reconciled.wait_for(|done| *done).await);
    }

    /// Refuses new work, waits for records to be written, and ends. Idempotent.
    pub async fn shutdown(&self, policy: ShutdownPolicy) {
        self.shared.refusing.store(true, Ordering::Release);
        self.empty_pools().await;
        if let Some(ending) = policy.ending().filter(|_| !self.is_closed() && self.mode() == Mode::Normal) {
            self.stop_all(ending).await;
        }
        self.tell_of_networks(true);
        self.shared.closing.send_replace(true);
        let drivers_left = async {
            while !self.shared.registry.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, drivers_left).await.is_err() {
            tracing::warn!(
                "the engine ends while sandboxes are still being changed; its next start finishes that"
            );
        }
        self.sync_snapshots().await;
        self.write_reached().await;
        if !self.write_journal().await {
            tracing::warn!("the journal does not know what happened last");
        }
        if !self.write_events().await {
            tracing::warn!("the last events are not in the log");
        }
    }

    async fn stop_all(&self, ending: Ending) {
        stream::iter(self.shared.registry.all())
            .for_each_concurrent(STOPS_AT_ONCE, |cell| {
                let ending = ending.clone();
                async move {
                    if let Some(Err(error)) = cell.ask(Task::Stop(ending)).await {
                        let error = sentence(&error);
                        tracing::error!(sandbox.id = %cell.id, error, "cannot stop a sandbox");
                    }
                }
            })
            .await;
    }
}
