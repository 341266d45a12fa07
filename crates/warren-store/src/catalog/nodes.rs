use rusqlite::Connection;
use warren_core::catalog::{CatalogError, ChangeNode, Durability, NodeCatalog};
use warren_core::{NodeId, NodeRecord};

use super::failure::JobError;
use super::{SqliteCatalog, documents};

impl NodeCatalog for SqliteCatalog {
    fn node(&self) -> &NodeId {
        &self.node
    }

    fn node_record(&self) -> Result<NodeRecord, CatalogError> {
        self.readers.read("read the node's record", |connection| find(connection, &self.node))
    }

    fn update_node(&self, change: &mut ChangeNode<'_>) -> Result<(), CatalogError> {
        self.writer.write("update the node's record", Durability::Disk, |connection| {
            let mut record = find(connection, &self.node)?;
            change(&mut record);
            connection
                .prepare_cached("INSERT OR REPLACE INTO nodes (id, record) VALUES (?1, ?2)")?
                .execute([self.node.as_str(), &serde_json::to_string(&record)?])?;
            Ok(())
        })
    }
}

fn find(connection: &Connection, node: &NodeId) -> Result<NodeRecord, JobError> {
    let found = documents::one(connection, "SELECT record FROM nodes WHERE id = ?1", [node.as_str()])?;
    Ok(found.unwrap_or_default())
}
