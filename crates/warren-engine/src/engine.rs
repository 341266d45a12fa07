use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{
    BuildFiles, Clock, Deadline, DeathCause, Isolation, IsolationError, LayerStore, Networks, NodeId, Random,
    SandboxRecord, Templates,
};

use crate::backend::Backend;
use crate::blocking::blocking;
use crate::certificate::Ending;
use crate::driver::Task;
use crate::error::sentence;
use crate::events::Events;
use crate::health::Probes;
use crate::images::Builds;
use crate::in_flight::InFlight;
use crate::journal::Journal;
use crate::labour::Labour;
use crate::network::Sightings;
use crate::presence::Presence;
use crate::registry::Registry;
use crate::seats::Seats;
use crate::sessions::Leases;
use crate::settings::Settings;
use crate::snapshots::Keep;
use crate::stats::Figures;
use crate::step::EngineStep;
use crate::tools::Calls;
use crate::{EngineError, history, reconcile, sweep};

/// Sandboxes that are stopped at the same time when the engine ends.
const STOPS_AT_ONCE: usize = 16;
/// How long drivers may take to finish what they are doing when the engine ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// The engine. A clone is the same engine; when the last one is dropped its tasks end, and sandboxes run on.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// Absent in what the engine's own tasks hold.
    _handle: Option<Arc<Handle>>,
}

pub(crate) struct Shared {
    pub(crate) parts: Parts,
    /// Those of the parts, in the same order.
    pub(crate) backends: Vec<Arc<Backend>>,
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) seats: Seats,
    pub(crate) presence: Arc<Presence>,
    pub(crate) events: Events,
    pub(crate) figures: Figures,
    pub(crate) probes: Probes,
    pub(crate) leases: Leases,
    pub(crate) calls: Calls,
    pub(crate) in_flight: Arc<InFlight>,
    /// Those who bring traffic to ports.
    pub(crate) visits: Arc<InFlight>,
    pub(crate) journal: Journal,
    pub(crate) labour: Labour,
    /// Builds of images that go on in this process.
    pub(crate) builds: Builds,
    pub(crate) keep: Keep,
    pub(crate) sightings: Sightings,
    pub(crate) started_ms: u64,
    pub(crate) started_unix_ms: u64,
    /// See [`history::anchor`].
    pub(crate) anchor: Deadline,
    /// Tasks end when this says so.
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) reconciled: watch::Sender<bool>,
    mode: Mutex<Mode>,
    /// No new work is taken on.
    refusing: AtomicBool,
}

/// Ends the engine's tasks when nobody can ask for anything any more.
struct Handle {
    closing: watch::Sender<bool>,
}

/// What the engine stands on.
pub struct Parts {
    /// By preference; the first that can serve a request does. Never empty.
    pub backends: Vec<Arc<dyn Isolation>>,
    pub catalog: Arc<dyn Catalog>,
    pub templates: Arc<dyn Templates>,
    pub layers: Arc<dyn LayerStore>,
    /// Archives for builds of images.
    pub build_files: Arc<dyn BuildFiles>,
    /// Links sandboxes to the world.
    pub networks: Arc<dyn Networks>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Called after each step of a change that has several, so that tests can end the process there.
    pub passed: Arc<dyn Fn(EngineStep) + Send + Sync>,
}

/// Whether the engine changes anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Normal,
    /// Most records looked dead at the start, which is more likely a wrong mount or an old backup than the truth. Nothing is
    /// removed and nothing is made until somebody has looked.
    ReadOnly {
        reason: String,
    },
}

/// What becomes of sandboxes when the engine ends.
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

/// Why the engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("read the catalog")]
    Catalog(#[from] CatalogError),
    #[error("see which sandboxes exist")]
    Backend(#[source] IsolationError),
    #[error("an engine needs at least one backend")]
    NoBackend,
}

impl Engine {
    /// Starts the engine: joins the catalog with what really runs, then answers. Returns as soon as requests can be served;
    /// what takes longer (removing remains) goes on in the background, see [`Engine::reconciled`].
    pub async fn open(parts: Parts, settings: Settings) -> Result<Self, OpenError> {
        if parts.backends.is_empty() {
            return Err(OpenError::NoBackend);
        }
        let catalog = Arc::clone(&parts.catalog);
        let clock = Arc::clone(&parts.clock);
        let (anchor, last_event) = blocking(move || {
            let anchor = history::anchor(catalog.as_ref(), clock.as_ref())?;
            Ok::<_, CatalogError>((anchor, catalog.last_event()?))
        })
        .await?;
        let closing = watch::Sender::new(false);
        let (journal, journal_jobs) = Journal::new();
        let presence = Arc::new(Presence::default());
        let (count, limits) = (parts.backends.len(), settings.labour);
        let backends = parts.backends.iter().cloned();
        let backends = backends.map(|port| Backend::new(port, count, &limits, &presence)).collect();
        let shared = Shared {
            anchor,
            registry: Registry::default(),
            seats: Seats::new(settings.max_sandboxes, settings.max_sandboxes_per_owner),
            events: Events::after_log(last_event),
            figures: Figures::default(),
            probes: Probes::default(),
            leases: Leases::default(),
            keep: Keep::default(),
            builds: Builds::default(),
            sightings: Sightings::default(),
            calls: Calls::default(),
            in_flight: settings.calls_in_flight(),
            visits: settings.visits_in_flight(),
            journal,
            labour: Labour::new(&settings.labour),
            backends,
            presence,
            started_ms: parts.clock.boot_ms(),
            started_unix_ms: parts.clock.unix_ms(),
            reconciled: watch::Sender::new(false),
            mode: Mutex::new(Mode::Normal),
            refusing: AtomicBool::new(false),
            closing: closing.clone(),
            settings,
            parts,
        };
        let engine = Self { shared: Arc::new(shared), _handle: Some(Arc::new(Handle { closing })) };
        engine.observe_networks();
        reconcile::at_start(&engine).await?;
        tokio::spawn(engine.inner().keep_writing_events());
        tokio::spawn(engine.inner().keep_writing_journal());
        tokio::spawn(engine.inner().keep_vigil(journal_jobs));
        for cell in engine.shared.registry.all() {
            engine.take_up_entries(&cell).await;
        }
        tokio::spawn(engine.inner().keep_syncing());
        tokio::spawn(sweep::keep_time(engine.inner()));
        tokio::spawn(sweep::keep_balance(engine.inner()));
        Ok(engine)
    }

    /// Says how many owners may come, so that none of them takes what the others need.
    pub fn expect_owners(&self, count: usize) {
        self.shared.seats.expect_owners(count);
    }

    pub fn mode(&self) -> Mode {
        self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Whether anything may be changed now: not while only answering questions, not while shutting down.
    pub(crate) fn may_change(&self) -> Result<(), EngineError> {
        if self.shared.refusing.load(Ordering::Acquire) || self.is_closed() {
            return Err(EngineError::ShuttingDown);
        }
        match self.mode() {
            Mode::Normal => Ok(()),
            Mode::ReadOnly { reason } => Err(EngineError::ReadOnly(reason)),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.shared.closing.borrow()
    }

    /// The engine as its own tasks hold it: they do not keep it going.
    pub(crate) fn inner(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), _handle: None }
    }

    /// Counts something that went wrong here and not with a caller.
    pub(crate) fn fault(&self) {
        self.shared.figures.fault();
    }

    /// The node that this engine runs on, which holds all that it makes.
    pub fn node(&self) -> &NodeId {
        self.shared.parts.catalog.node()
    }

    /// What another node holds is shown and not touched.
    pub(crate) fn check_node(&self, id: impl ToString, node: &NodeId) -> Result<(), EngineError> {
        if node == self.node() {
            Ok(())
        } else {
            Err(EngineError::OtherNode { id: id.to_string(), node: node.clone() })
        }
    }

    /// The backend that made a sandbox of this node.
    pub(crate) fn backend_of(&self, record: &SandboxRecord) -> Result<Arc<Backend>, EngineError> {
        self.check_node(&record.id, &record.node)?;
        let backends = &self.shared.backends;
        let found = backends.iter().find(|backend| backend.name() == record.backend);
        found.cloned().ok_or_else(|| {
            let why = "the sandbox was made by it, and it is not configured".to_owned();
            EngineError::NothingFits(vec![(record.backend.clone(), why)])
        })
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

/// Returns when the engine ends.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error says the same: there is no engine any more.
    drop(closing.wait_for(|closed| *closed).await);
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.closing.send_replace(true);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("node", self.parts.catalog.node())
            .field("sandboxes", &self.seats.count())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backends: Vec<_> = self.backends.iter().map(|backend| backend.name()).collect();
        f.debug_struct("Parts").field("backends", &backends).finish_non_exhaustive()
    }
}
