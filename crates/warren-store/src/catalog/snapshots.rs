use std::collections::HashSet;

use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, SnapshotCatalog, SnapshotFilter};
use warren_core::{
    LayerId, Owner, Page, PageRequest, SandboxRecord, SnapshotId, SnapshotRecord, TemplateName,
};

use super::SqliteCatalog;

fn missing() -> CatalogError {
    CatalogError::new(CatalogErrorKind::Host, "snapshots are not kept yet")
}

impl SnapshotCatalog for SqliteCatalog {
    fn insert_snapshots(&self, _: &[SnapshotRecord], _: Durability) -> Result<(), CatalogError> {
        Err(missing())
    }

    fn record_snapshots(
        &self,
        _: &SandboxRecord,
        _: &[SnapshotRecord],
        _: Durability,
    ) -> Result<(), CatalogError> {
        Err(missing())
    }

    fn update_snapshot(&self, _: &SnapshotRecord, _: Durability) -> Result<(), CatalogError> {
        Err(missing())
    }

    fn snapshot(&self, _: &Owner, _: &SnapshotId) -> Result<Option<SnapshotRecord>, CatalogError> {
        Err(missing())
    }

    fn snapshots(
        &self,
        _: &Owner,
        _: &SnapshotFilter,
        _: &PageRequest,
    ) -> Result<Page<SnapshotRecord>, CatalogError> {
        Err(missing())
    }

    fn delete_snapshots(&self, _: &Owner, _: &[SnapshotId]) -> Result<u64, CatalogError> {
        Err(missing())
    }

    fn layers_of_snapshots(&self) -> Result<HashSet<LayerId>, CatalogError> {
        Err(missing())
    }

    fn templates_of_snapshots(&self) -> Result<HashSet<TemplateName>, CatalogError> {
        Ok(HashSet::new())
    }

    fn undurable_snapshots(&self) -> Result<Vec<SnapshotRecord>, CatalogError> {
        Ok(Vec::new())
    }

    fn snapshots_on(&self, _: &LayerId) -> Result<Vec<SnapshotRecord>, CatalogError> {
        Err(missing())
    }
}
