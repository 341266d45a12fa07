use std::collections::BTreeMap;

use super::{CatalogError, Durability};
use crate::id::SandboxId;
use crate::lifecycle::Status;
use crate::node::NodeId;
use crate::owner::Owner;
use crate::page::{Page, PageRequest};
use crate::sandbox::SandboxRecord;
use crate::sandbox_word::SandboxName;
use crate::session::SessionRecord;

/// Records of sandboxes.
pub trait SandboxCatalog: Send + Sync {
    /// Writes down what is about to be made: the sandbox, its first session and the caller's
    /// idempotency key, all or none. A name that another sandbox of the owner has is
    /// [`super::CatalogErrorKind::NameTaken`]. Acknowledged with [`Durability::Process`].
    fn insert(&self, new: NewRecords) -> Result<(), InsertError>;

    /// Replaces a record. The stored generation must be one less than the record's, else
    /// [`super::CatalogErrorKind::Stale`]; owner, id and creation time never change. The name is
    /// checked as by [`SandboxCatalog::insert`].
    fn update_sandbox(&self, record: &SandboxRecord, durability: Durability) -> Result<(), CatalogError>;

    fn sandbox(&self, owner: &Owner, id: &SandboxId) -> Result<Option<SandboxRecord>, CatalogError>;

    fn sandboxes(
        &self,
        owner: &Owner,
        filter: &SandboxFilter,
        page: &PageRequest,
    ) -> Result<Page<SandboxRecord>, CatalogError>;

    /// The owner's sandbox of that name that is not over.
    fn sandbox_named(&self, owner: &Owner, name: &SandboxName) -> Result<Option<SandboxId>, CatalogError>;

    /// The owner's sandboxes whose ids begin so, at most this many: those that are not over, else
    /// those that are.
    fn sandboxes_beginning(
        &self,
        owner: &Owner,
        beginning: &str,
        most: usize,
    ) -> Result<Vec<SandboxId>, CatalogError>;

    /// The owner's sandbox that was made last, of those that are not over and not for a build.
    fn last_sandbox(&self, owner: &Owner) -> Result<Option<SandboxId>, CatalogError>;

    /// All owners' sandboxes of a node that are not over: live ones, and ended ones whose files are
    /// kept.
    fn unfinished_sandboxes(&self, node: &NodeId) -> Result<Vec<SandboxRecord>, CatalogError>;

    /// Forgets a node's sandboxes that ended for good before this time, with all that belongs to
    /// them: sessions, runs, the journal, settings of ports, what they reached. Says how many.
    fn forget_sandboxes(&self, node: &NodeId, ended_before_unix_ms: u64) -> Result<u64, CatalogError>;

    /// The result of an earlier request with this key. Keys older than a day are forgotten.
    fn remembered(&self, owner: &Owner, key: &str) -> Result<Option<Idempotency>, CatalogError>;

    /// The sandbox that the owner uses when none is named. `None` also once its record is
    /// forgotten.
    fn default_sandbox(&self, owner: &Owner) -> Result<Option<SandboxId>, CatalogError>;

    /// Sets the owner's default sandbox, whose record must be there, or with `None` forgets it.
    /// Acknowledged with [`Durability::Disk`].
    fn set_default_sandbox(&self, owner: &Owner, id: Option<&SandboxId>) -> Result<(), CatalogError>;
}

/// The records that one create writes.
#[derive(Debug, Clone)]
pub struct NewRecords {
    pub sandbox: SandboxRecord,
    pub session: SessionRecord,
    pub idempotency: Option<Idempotency>,
}

/// A create that may be asked for again, and what it made the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub owner: Owner,
    /// The caller's own word for the request, 1 to 255 visible ASCII characters.
    pub key: String,
    /// Tells whether a repeated request is the same one.
    pub fingerprint: String,
    pub session: crate::unique::SessionId,
    pub at_unix_ms: u64,
}

/// Why records could not be inserted.
#[derive(Debug, thiserror::Error)]
pub enum InsertError {
    /// The key was used before; this is what it made.
    #[error("the idempotency key was used before")]
    Repeated(Idempotency),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Which sandboxes of an owner are wanted. The default is those that live or can be resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxFilter {
    /// Empty: every status.
    pub statuses: Vec<Status>,
    /// Only the one of this name; of those that are over, any that had it.
    pub name: Option<SandboxName>,
    /// Every one of these labels, in the spec.
    pub labels: BTreeMap<String, String>,
    /// Every one of these entries of the metadata.
    pub metadata: BTreeMap<String, String>,
    /// Also those that ended for good.
    pub ended: bool,
}
