use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, JournalCatalog};
use warren_core::{JournalEntry, Owner, SandboxId, ToolAnswer};

use super::SqliteCatalog;

fn missing() -> CatalogError {
    CatalogError::new(CatalogErrorKind::Host, "the journal is not kept yet")
}

impl JournalCatalog for SqliteCatalog {
    fn append_entry(&self, _: &JournalEntry, _: Durability) -> Result<u64, CatalogError> {
        Err(missing())
    }

    fn update_entries(&self, _: &[JournalEntry], _: Durability) -> Result<(), CatalogError> {
        Err(missing())
    }

    fn entries(
        &self,
        _: &Owner,
        _: &SandboxId,
        _: Option<u64>,
        _: u32,
    ) -> Result<Vec<JournalEntry>, CatalogError> {
        Err(missing())
    }

    fn entry(&self, _: &Owner, _: &SandboxId, _: u64) -> Result<Option<JournalEntry>, CatalogError> {
        Err(missing())
    }

    fn open_entries(&self, _: &SandboxId) -> Result<Vec<JournalEntry>, CatalogError> {
        Ok(Vec::new())
    }

    fn begin_call(&self, _: &ToolAnswer) -> Result<Option<ToolAnswer>, CatalogError> {
        Err(missing())
    }

    fn finish_call(&self, _: &SandboxId, _: &str, _: Option<&str>) -> Result<(), CatalogError> {
        Err(missing())
    }
}
