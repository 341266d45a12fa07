use std::collections::{HashMap, HashSet};

use super::{CatalogError, Durability};
use crate::id::{SandboxId, TemplateName};
use crate::node::NodeId;
use crate::owner::Owner;
use crate::page::{Page, PageRequest};
use crate::sandbox::SandboxRecord;
use crate::snapshot::SnapshotRecord;
use crate::unique::{LayerId, SessionId, SnapshotId};

/// Records of snapshots.
pub trait SnapshotCatalog: Send + Sync {
    /// Writes records down, all or none. A name that another snapshot of the same sandbox has is
    /// [`super::CatalogErrorKind::AlreadyExists`].
    fn insert_snapshots(
        &self,
        records: &[SnapshotRecord],
        durability: Durability,
    ) -> Result<(), CatalogError>;

    /// As [`SnapshotCatalog::insert_snapshots`], together with the next generation of the record of
    /// the sandbox that they were taken of, as [`super::SandboxCatalog::update_sandbox`] would
    /// write it: all or none.
    fn record_snapshots(
        &self,
        sandbox: &SandboxRecord,
        records: &[SnapshotRecord],
        durability: Durability,
    ) -> Result<(), CatalogError>;

    /// Replaces a record; id, owner, sandbox and creation time never change, and the parent is left
    /// as it is stored: it changes only by [`SnapshotCatalog::delete_snapshots`].
    fn update_snapshot(&self, record: &SnapshotRecord, durability: Durability) -> Result<(), CatalogError>;

    fn snapshot(&self, owner: &Owner, id: &SnapshotId) -> Result<Option<SnapshotRecord>, CatalogError>;

    fn snapshots(
        &self,
        owner: &Owner,
        filter: &SnapshotFilter,
        page: &PageRequest,
    ) -> Result<Page<SnapshotRecord>, CatalogError>;

    /// How many snapshots each of these sandboxes has; one that has none is left out.
    fn count_snapshots(
        &self,
        owner: &Owner,
        sandboxes: &[SandboxId],
    ) -> Result<HashMap<SandboxId, u64>, CatalogError>;

    /// Removes records, all or none. Children go on with the parent of what was removed. Says how
    /// many there were.
    fn delete_snapshots(&self, owner: &Owner, ids: &[SnapshotId]) -> Result<u64, CatalogError>;

    /// Every layer of a node that a snapshot of any owner stands on. For the collection of garbage.
    fn layers_of_snapshots(&self, node: &NodeId) -> Result<HashSet<LayerId>, CatalogError>;

    /// Templates of a node that snapshots of any owner stand on.
    fn templates_of_snapshots(&self, node: &NodeId) -> Result<HashSet<TemplateName>, CatalogError>;

    /// All owners' snapshots of a node that are not durable yet and not damaged. For the engine's
    /// start.
    fn undurable_snapshots(&self, node: &NodeId) -> Result<Vec<SnapshotRecord>, CatalogError>;

    /// All snapshots of a node, of any owner, that have this layer in their stack. For the squash.
    fn snapshots_on(&self, node: &NodeId, layer: &LayerId) -> Result<Vec<SnapshotRecord>, CatalogError>;
}

/// Which snapshots of an owner are wanted; the default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotFilter {
    pub sandbox: Option<SandboxId>,
    pub session: Option<SessionId>,
    /// Only the one of this name.
    pub name: Option<String>,
    /// Only those with a name.
    pub named: bool,
}
