use super::{CatalogError, Durability, Idempotency, InsertError};
use crate::id::SandboxId;
use crate::node::NodeId;
use crate::owner::Owner;
use crate::page::{Page, PageRequest};
use crate::run::{RunDenied, RunRecord};
use crate::session::SessionRecord;
use crate::unique::SessionId;

/// A change of one session, made inside the catalog's transaction: what it returns as a run is
/// appended with it, and an error leaves everything as it was. It may be called more than once if
/// the transaction has to be repeated.
pub type ChangeSession<'a> =
    dyn FnMut(&mut SessionRecord) -> Result<Option<RunRecord>, RunDenied> + Send + 'a;

/// Records of sessions and their runs.
pub trait SessionCatalog: Send + Sync {
    /// Another session on a sandbox that exists, with the caller's idempotency key, both or none.
    /// Acknowledged with [`Durability::Process`].
    fn insert_session(
        &self,
        record: &SessionRecord,
        idempotency: Option<&Idempotency>,
    ) -> Result<(), InsertError>;

    /// Changes a session, and appends a run if the change made one. Changes of one session happen
    /// one after the other, so sums are exact. Owner, id and creation time must not be changed.
    fn update_session(
        &self,
        owner: &Owner,
        id: &SessionId,
        durability: Durability,
        change: &mut ChangeSession<'_>,
    ) -> Result<SessionRecord, UpdateSessionError>;

    fn session(&self, owner: &Owner, id: &SessionId) -> Result<Option<SessionRecord>, CatalogError>;

    fn sessions(
        &self,
        owner: &Owner,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionRecord>, CatalogError>;

    /// All owners' sessions that are open, on sandboxes of a node.
    fn open_sessions(&self, node: &NodeId) -> Result<Vec<SessionRecord>, CatalogError>;

    /// A session's runs, the first one first.
    fn runs(&self, owner: &Owner, id: &SessionId) -> Result<Vec<RunRecord>, CatalogError>;
}

/// Why a session could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateSessionError {
    #[error(transparent)]
    Denied(RunDenied),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Which sessions of an owner are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub sandbox: Option<SandboxId>,
    pub client: Option<String>,
    /// Also those that no longer hold their sandbox.
    pub ended: bool,
}
