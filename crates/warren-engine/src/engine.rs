use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{
    Clock, DiskGauge, Event, Isolation, IsolationError, Owner, Random, SandboxId, SessionId, Templates,
};

use crate::settings::Settings;
use crate::step::EngineStep;

/// The engine. A clone is the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) settings: Settings,
    /// `Leases::default()`, filled by the first sweep.
    pub(crate) leases: crate::sessions::Leases,
}

/// What the engine stands on.
pub struct Parts {
    /// By preference; the first that can serve a request does. Never empty.
    pub backends: Vec<Arc<dyn Isolation>>,
    pub catalog: Arc<dyn Catalog>,
    pub templates: Arc<dyn Templates>,
    pub disk: Arc<dyn DiskGauge>,
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
        unimplemented!()
    }

    pub fn mode(&self) -> Mode {
        unimplemented!()
    }

    /// Whether anything may be changed now: not while only answering questions, not while shutting down.
    pub(crate) fn may_change(&self) -> Result<(), crate::EngineError> {
        unimplemented!()
    }

    /// Tells the followers of an owner's events, and the log.
    pub(crate) fn emit(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        session: Option<&SessionId>,
        event: Event,
    ) {
        unimplemented!()
    }

    /// Where a host directory really is, if it may be mounted. Blocks.
    pub(crate) fn allowed_mount(&self, field: &str, source: &Path) -> Result<PathBuf, crate::EngineError> {
        unimplemented!()
    }

    /// Somebody has looked: whatever looked dead is dead. Leaves read-only mode.
    pub async fn accept_losses(&self) -> Result<(), crate::EngineError> {
        unimplemented!()
    }

    /// Waits until start-up reconciliation is done.
    pub async fn reconciled(&self) {
        unimplemented!()
    }

    /// Does at once what the sweep does every so often: expiries, idleness, forgetting.
    pub async fn sweep(&self) {
        unimplemented!()
    }

    /// Refuses new work, waits for records to be written, and ends. Idempotent.
    pub async fn shutdown(&self, policy: ShutdownPolicy) {
        unimplemented!()
    }
}
