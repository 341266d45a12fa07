use super::CatalogError;
use crate::node::{NodeId, NodeRecord};

/// A change of a node's record, made inside the catalog's transaction. It may be called more than
/// once.
pub type ChangeNode<'a> = dyn FnMut(&mut NodeRecord) + Send + 'a;

/// The record of the node that opened the catalog.
pub trait NodeCatalog: Send + Sync {
    /// The node that opened the catalog. It never changes.
    fn node(&self) -> &NodeId;

    /// The default for a node of which nothing was written yet.
    fn node_record(&self) -> Result<NodeRecord, CatalogError>;

    /// Changes happen one after the other. Acknowledged with [`super::Durability::Disk`].
    fn update_node(&self, change: &mut ChangeNode<'_>) -> Result<(), CatalogError>;
}
