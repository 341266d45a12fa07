use warren_core::catalog::{CatalogErrorKind, Durability, SnapshotFilter};
use warren_core::{Event, Page, PageRequest, SnapshotId, SnapshotRecord};

use super::Snapshots;
use crate::admit::check_visible;
use crate::cell::Task;
use crate::error::Field;
use crate::ports::{blocking, finished};
use crate::{Engine, EngineError, EngineStep};

impl Snapshots {
    pub async fn list(
        &self,
        filter: &SnapshotFilter,
        page: &PageRequest,
    ) -> Result<Page<SnapshotRecord>, EngineError> {
        let (owner, filter, page) = (self.access.owner().clone(), filter.clone(), page.clone());
        Ok(self.access.engine.catalog(move |catalog| catalog.snapshots(&owner, &filter, &page)).await?)
    }

    pub async fn get(&self, id: &SnapshotId) -> Result<SnapshotRecord, EngineError> {
        let (whose, which) = (self.access.owner().clone(), id.clone());
        let found = self.access.engine.catalog(move |catalog| catalog.snapshot(&whose, &which)).await?;
        found.ok_or_else(|| EngineError::snapshot_not_found(id))
    }

    /// Gives a snapshot a name, or takes it away.
    pub async fn rename(&self, id: &SnapshotId, name: Option<String>) -> Result<SnapshotRecord, EngineError> {
        self.access.engine.may_change()?;
        name.as_deref().map_or(Ok(()), check_name)?;
        let snapshot = self.get(id).await?;
        self.access.engine.check_node(id, &snapshot.node)?;
        let (engine, owner, which, wanted) =
            (self.access.engine.inner(), self.access.owner().clone(), id.clone(), name.clone());
        let changed = blocking(move || {
            engine.change_snapshot(&owner, &which, Durability::Disk, |row| {
                let differs = row.name != wanted;
                row.name = wanted;
                differs
            })
        })
        .await;
        match (changed, name) {
            (Ok(changed), _) => changed.ok_or_else(|| EngineError::snapshot_not_found(id)),
            (Err(error), Some(name)) if error.kind == CatalogErrorKind::AlreadyExists => {
                Err(EngineError::SnapshotNameTaken { sandbox: snapshot.sandbox, name })
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Deletes a snapshot. Sandboxes keep what they have; those that come after it in the tree go
    /// on with what came before it.
    pub async fn delete(&self, id: &SnapshotId) -> Result<(), EngineError> {
        self.access.engine.may_change()?;
        let snapshot = self.get(id).await?;
        self.access.engine.check_node(id, &snapshot.node)?;
        finished(self.access.engine.clone().delete_now(snapshot)).await
    }
}

impl Engine {
    async fn delete_now(self, snapshot: SnapshotRecord) -> Result<(), EngineError> {
        let SnapshotRecord { id, owner, parent, sandbox, .. } = snapshot;
        let named_by = id.clone();
        let holders = self
            .catalog(move |catalog| {
                let mut records = catalog.unfinished_sandboxes(catalog.node())?;
                records.retain(|record| {
                    record.history.head.as_ref() == Some(&named_by) || record.history.redo.contains(&named_by)
                });
                Ok::<_, EngineError>(records)
            })
            .await?;
        for holder in holders {
            let task = Task::Forget { snapshot: id.clone(), parent: parent.clone() };
            self.ask(&holder.owner, &holder.id, task).await?;
        }
        (self.shared.parts.passed)(EngineStep::SnapshotForgotten);
        let (whose, which) = (owner.clone(), id.clone());
        let gone = self.catalog(move |catalog| catalog.delete_snapshots(&whose, &[which])).await?;
        (self.shared.parts.passed)(EngineStep::SnapshotGone);
        if gone > 0 {
            self.emit(&owner, Some(&sandbox), None, Event::SnapshotDeleted { snapshot: id });
        }
        Ok(())
    }
}

pub(super) fn check_name(name: &str) -> Result<(), EngineError> {
    check_visible(Field::SnapshotName, name, 128, "printable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printable_and_not_long() {
        for name in ["a", "before the upgrade", "größer", &"x".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "  ", "a\nb", "\u{7f}", &"x".repeat(129)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
