use std::collections::{HashMap, HashSet};

use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, SnapshotCatalog, SnapshotFilter};
use warren_core::{
    LayerId, NodeId, Owner, Page, PageRequest, SandboxId, SandboxRecord, SnapshotId, SnapshotRecord,
    TemplateName,
};

use super::{MemoryCatalog, Records, failure, part, place};

impl SnapshotCatalog for MemoryCatalog {
    fn insert_snapshots(&self, new: &[SnapshotRecord], _: Durability) -> Result<(), CatalogError> {
        let mut records = self.enter("insert_snapshots")?;
        records.insert_snapshots(new)
    }

    fn record_snapshots(
        &self,
        sandbox: &SandboxRecord,
        new: &[SnapshotRecord],
        _: Durability,
    ) -> Result<(), CatalogError> {
        let mut records = self.enter("record_snapshots")?;
        let stored = records.sandboxes.get(&sandbox.id).cloned();
        records.update_sandbox(sandbox)?;
        let inserted = records.insert_snapshots(new);
        if let (Err(_), Some(stored)) = (&inserted, stored) {
            records.sandboxes.insert(stored.id.clone(), stored);
        }
        inserted
    }

    fn update_snapshot(&self, record: &SnapshotRecord, _: Durability) -> Result<(), CatalogError> {
        let mut records = self.enter("update_snapshot")?;
        check_stack(record);
        let stored = records.snapshots.get(&record.id).filter(|stored| stored.owner == record.owner);
        let stored = stored.ok_or_else(|| failure(CatalogErrorKind::NotFound, &record.id))?;
        assert_eq!(
            (&stored.sandbox, stored.created_unix_ms),
            (&record.sandbox, record.created_unix_ms),
            "sandbox and creation time never change"
        );
        let (parent, before) = (stored.parent.clone(), stored.before.clone());
        let taken = |known: &SnapshotRecord| known.id != record.id && has_the_name_of(known, record);
        if records.snapshots.values().any(taken) {
            return Err(failure(CatalogErrorKind::AlreadyExists, &record.id));
        }
        records.snapshots.insert(record.id.clone(), SnapshotRecord { parent, before, ..record.clone() });
        Ok(())
    }

    fn snapshot(&self, owner: &Owner, id: &SnapshotId) -> Result<Option<SnapshotRecord>, CatalogError> {
        let records = self.enter("snapshot")?;
        Ok(records.snapshots.get(id).filter(|record| record.owner == *owner).cloned())
    }

    fn snapshots(
        &self,
        owner: &Owner,
        filter: &SnapshotFilter,
        page: &PageRequest,
    ) -> Result<Page<SnapshotRecord>, CatalogError> {
        let records = self.enter("snapshots")?;
        let found = records.snapshots.values().filter(|record| {
            record.owner == *owner
                && filter.sandbox.as_ref().is_none_or(|sandbox| record.sandbox == *sandbox)
                && filter.session.as_ref().is_none_or(|session| record.session.as_ref() == Some(session))
                && filter.name.as_ref().is_none_or(|name| record.name.as_ref() == Some(name))
                && (!filter.named || record.name.is_some())
        });
        Ok(part(found, page, |record| place(record.created_unix_ms, &record.id)))
    }

    fn count_snapshots(
        &self,
        owner: &Owner,
        sandboxes: &[SandboxId],
    ) -> Result<HashMap<SandboxId, u64>, CatalogError> {
        let records = self.enter("count_snapshots")?;
        let mut counts = HashMap::new();
        let wanted = |record: &&SnapshotRecord| record.owner == *owner && sandboxes.contains(&record.sandbox);
        for record in records.snapshots.values().filter(wanted) {
            *counts.entry(record.sandbox.clone()).or_default() += 1;
        }
        Ok(counts)
    }

    fn delete_snapshots(&self, owner: &Owner, ids: &[SnapshotId]) -> Result<u64, CatalogError> {
        let mut records = self.enter("delete_snapshots")?;
        Ok(ids.iter().map(|id| u64::from(records.delete_snapshot(owner, id))).sum())
    }

    fn layers_of_snapshots(&self, node: &NodeId) -> Result<HashSet<LayerId>, CatalogError> {
        let records = self.enter("layers_of_snapshots")?;
        Ok(records.snapshots_of(node).flat_map(SnapshotRecord::layers).cloned().collect())
    }

    fn templates_of_snapshots(&self, node: &NodeId) -> Result<HashSet<TemplateName>, CatalogError> {
        let records = self.enter("templates_of_snapshots")?;
        Ok(records.snapshots_of(node).map(|record| record.spec.template.clone()).collect())
    }

    fn undurable_snapshots(&self, node: &NodeId) -> Result<Vec<SnapshotRecord>, CatalogError> {
        let records = self.enter("undurable_snapshots")?;
        Ok(records.snapshots_of(node).filter(|record| !record.durable && !record.damaged).cloned().collect())
    }

    fn snapshots_on(&self, node: &NodeId, layer: &LayerId) -> Result<Vec<SnapshotRecord>, CatalogError> {
        let records = self.enter("snapshots_on")?;
        let stands = |record: &&SnapshotRecord| record.layers().any(|known| known == layer);
        Ok(records.snapshots_of(node).filter(stands).cloned().collect())
    }
}

impl Records {
    fn snapshots_of(&self, node: &NodeId) -> impl Iterator<Item = &SnapshotRecord> {
        self.snapshots.values().filter(move |record| record.node == *node)
    }

    fn insert_snapshots(&mut self, new: &[SnapshotRecord]) -> Result<(), CatalogError> {
        for (index, record) in new.iter().enumerate() {
            check_stack(record);
            let earlier = new.iter().take(index);
            let same = |known: &SnapshotRecord| known.id == record.id || has_the_name_of(known, record);
            if self.snapshots.values().chain(earlier).any(same) {
                return Err(failure(CatalogErrorKind::AlreadyExists, &record.id));
            }
        }
        self.snapshots.extend(new.iter().map(|record| (record.id.clone(), record.clone())));
        Ok(())
    }

    fn delete_snapshot(&mut self, owner: &Owner, id: &SnapshotId) -> bool {
        if self.snapshots.get(id).is_none_or(|record| record.owner != *owner) {
            return false;
        }
        let Some(removed) = self.snapshots.remove(id) else { return false };
        for child in self.snapshots.values_mut().filter(|record| record.parent.as_ref() == Some(id)) {
            child.parent.clone_from(&removed.parent);
        }
        let before = removed.before.or(removed.parent);
        for later in self.snapshots.values_mut().filter(|record| record.before.as_ref() == Some(id)) {
            later.before.clone_from(&before);
        }
        true
    }
}

fn has_the_name_of(known: &SnapshotRecord, record: &SnapshotRecord) -> bool {
    known.sandbox == record.sandbox && known.name.is_some() && known.name == record.name
}

/// A layer may be in a stack only once.
fn check_stack(record: &SnapshotRecord) {
    let layers: HashSet<&LayerId> = record.stack.0.iter().collect();
    assert_eq!(layers.len(), record.stack.depth(), "{} stands on a layer twice", record.id);
}
