//! The engine as everything else in this crate sees it.

mod access;
mod records;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;
use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{Event, IsolationError, NodeId, Owner, SandboxId, SandboxRecord, SessionId};

use crate::EngineError;
use crate::bounds::Place;
use crate::ports::{Backend, promptly};
use crate::state::{Mode, State};
use crate::work_kind::WorkKind;

pub use self::access::{Access, Sandbox, Session};

/// The engine. A clone is the same engine; when the last one is dropped its tasks end, and
/// sandboxes run on.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) shared: Arc<State>,
    /// Absent in what the engine's own tasks hold.
    _handle: Option<Arc<Handle>>,
}

/// Ends the engine's tasks when the last engine handle is gone.
#[derive(Debug)]
struct Handle {
    closing: watch::Sender<bool>,
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
    /// The engine with this state, which ends when its last owner is gone.
    pub(crate) fn with(state: State) -> Self {
        let handle = Handle { closing: state.closing.clone() };
        Self { shared: Arc::new(state), _handle: Some(Arc::new(handle)) }
    }

    /// Says how many owners may come, so that none of them takes what the others need.
    pub fn expect_owners(&self, count: usize) {
        self.shared.seats.expect_owners(count);
    }

    pub fn mode(&self) -> Mode {
        self.shared.mode.lock().clone()
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        *self.shared.mode.lock() = mode;
    }

    /// Refuses changes while the engine only answers questions or shuts down.
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

    /// Refuses to touch what another node holds.
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
        found.cloned().ok_or_else(|| self.not_here(&record.backend))
    }

    /// Asks the catalog something.
    pub(crate) async fn catalog<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Catalog) -> R + Send + 'static,
    ) -> R {
        let catalog = self.shared.parts.catalog.clone();
        promptly(move || work(catalog.as_ref())).await
    }

    /// Tells the followers of an owner's events, and the log.
    pub(crate) fn emit(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        session: Option<&SessionId>,
        event: Event,
    ) {
        self.shared.events.emit(self.shared.parts.clock.unix_ms(), owner, (sandbox, session), event);
    }

    /// A place for heavy work of an owner. To be taken before anything is read or prepared.
    pub(crate) async fn place_for(&self, owner: &Owner, kind: WorkKind) -> Result<Place, EngineError> {
        self.shared.heavy_work.place_for(owner, kind).await
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
