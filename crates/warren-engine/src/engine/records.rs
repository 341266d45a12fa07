//! Looking for what there are records of.

use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability};
use warren_core::{LayerId, Owner, SandboxId, SandboxRecord, SnapshotId, SnapshotRecord};

use super::Engine;
use crate::EngineError;
use crate::state::Pin;

impl Engine {
    /// The owner's sandbox as its driver has it, else as the catalog does.
    pub(crate) async fn record_of(
        &self,
        owner: &Owner,
        id: &SandboxId,
    ) -> Result<SandboxRecord, EngineError> {
        let mut record = match self.shared.registry.find(owner, id) {
            Some(cell) => cell.record().as_ref().clone(),
            None => self.recorded(owner, id).await?,
        };
        self.mark_unreachable(&mut record);
        Ok(record)
    }

    /// The owner's sandbox as the catalog has it.
    pub(crate) async fn recorded(&self, owner: &Owner, id: &SandboxId) -> Result<SandboxRecord, EngineError> {
        let (whose, which) = (owner.clone(), id.clone());
        let found = self.catalog(move |catalog| catalog.sandbox(&whose, &which)).await?;
        found.ok_or_else(|| EngineError::sandbox_not_found(id))
    }

    /// The catalog's refusal to write a record; where its name is taken, with the holder. Blocks.
    pub(crate) fn refused(&self, record: &SandboxRecord, error: CatalogError) -> EngineError {
        match &record.name {
            Some(name) if error.kind == CatalogErrorKind::NameTaken => {
                let holder = self.shared.parts.catalog.sandbox_named(&record.owner, name).ok().flatten();
                EngineError::SandboxNameTaken { name: name.clone(), holder }
            }
            _ => error.into(),
        }
    }

    pub(crate) fn draw_layer(&self) -> LayerId {
        LayerId::from_random(self.shared.parts.random.bits())
    }

    pub(crate) fn draw_snapshot(&self) -> SnapshotId {
        SnapshotId::from_random(self.shared.parts.random.bits())
    }

    /// A snapshot that can be used, with its layers held. Blocks.
    pub(crate) fn usable_snapshot(
        &self,
        owner: &Owner,
        id: &SnapshotId,
    ) -> Result<(SnapshotRecord, Pin), EngineError> {
        let _learning = self.shared.keep.collecting.read();
        let found = self.shared.parts.catalog.snapshot(owner, id)?;
        let snapshot = found.ok_or_else(|| EngineError::snapshot_not_found(id))?;
        self.check_node(id, &snapshot.node)?;
        if snapshot.damaged {
            return Err(EngineError::SnapshotDamaged { id: id.clone() });
        }
        let layers: Vec<_> = snapshot.layers().cloned().collect();
        let pin = self.shared.keep.pin(&layers);
        Ok((snapshot, pin))
    }

    /// Changes the record of a snapshot as it is now; the change says whether there is anything to
    /// be written. `None` if it is gone. Blocks.
    pub(crate) fn change_snapshot(
        &self,
        owner: &Owner,
        id: &SnapshotId,
        durability: Durability,
        change: impl FnOnce(&mut SnapshotRecord) -> bool,
    ) -> Result<Option<SnapshotRecord>, CatalogError> {
        let _alone = self.shared.keep.rows.lock();
        let catalog = &self.shared.parts.catalog;
        let Some(mut snapshot) = catalog.snapshot(owner, id)? else { return Ok(None) };
        if change(&mut snapshot) {
            match catalog.update_snapshot(&snapshot, durability) {
                Err(error) if error.kind == CatalogErrorKind::NotFound => return Ok(None),
                written => written?,
            }
        }
        Ok(Some(snapshot))
    }
}
