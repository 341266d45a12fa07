//! Removes what is no longer needed: snapshots beyond the number that is kept, those of removed
//! sandboxes, and layers that nothing names.

use std::collections::HashSet;

use warren_core::catalog::{Catalog, CatalogError};
use warren_core::{LayerId, Owner, SandboxId, SandboxRecord, SnapshotId, SnapshotReason, SnapshotRecord};

use super::thin::{Moment, surplus};
use crate::error::sentence;
use crate::ports::blocking;
use crate::state::all_snapshots;
use crate::{Engine, EngineError};

/// After this many snapshots a sandbox's are thinned without waiting for the sweep.
const THIN_AFTER: u32 = 50;

impl Engine {
    /// A snapshot was taken: what that makes necessary is done in the background.
    pub(crate) fn after_snapshot(&self, record: &SandboxRecord, snapshot: &SnapshotRecord) {
        self.squash_if_deep(record);
        if self.shared.keep.count_taken(&snapshot.sandbox) >= THIN_AFTER {
            self.shared.keep.thinned(&snapshot.sandbox);
            let (engine, owner, id) = (self.inner(), record.owner.clone(), record.id.clone());
            tokio::spawn(async move { engine.thin(owner, id).await });
        }
    }

    /// Thins snapshots where some were taken, and removes layers that nobody names. Part of every
    /// sweep.
    pub(crate) async fn sweep_snapshots(&self) {
        for id in self.shared.keep.taken() {
            let owner = self.shared.registry.all().into_iter().find(|cell| cell.id == id);
            if let Some(cell) = owner {
                self.thin(cell.owner.clone(), id).await;
            }
        }
        self.collect_layers().await;
    }

    async fn thin(&self, owner: Owner, id: SandboxId) {
        let engine = self.inner();
        let most = self.shared.settings.automatic_snapshots_kept;
        let which = id.clone();
        let thinned = blocking(move || {
            let catalog = engine.shared.parts.catalog.as_ref();
            let rows = all_snapshots(catalog, &owner, &which)?;
            if rows.len() <= most {
                return Ok(0);
            }
            let anchors = anchors(catalog, &which)?;
            let stays = |row: &SnapshotRecord| is_lasting(row) || anchors.contains(&row.id);
            let mut gone: Vec<SnapshotId> = Vec::new();
            // One that somebody asked for does not go because of those that nobody did.
            for asked in [false, true] {
                let moments: Vec<Moment> = rows
                    .iter()
                    .map(|row| Moment {
                        at_ms: row.created_unix_ms,
                        stays: stays(row) || asked != (row.reason == SnapshotReason::Request),
                    })
                    .collect();
                let surplus = surplus(&moments, most).into_iter();
                gone.extend(surplus.filter_map(|index| Some(rows.get(index)?.id.clone())));
            }
            if gone.is_empty() { Ok(0) } else { catalog.delete_snapshots(&owner, &gone) }
        })
        .await;
        match thinned {
            Ok(0) => {}
            Ok(count) => tracing::debug!(sandbox.id = %id, count, "snapshots were thinned"),
            Err(error) => {
                self.fault();
                tracing::warn!(sandbox.id = %id, error = sentence(&error), "snapshots could not be thinned");
            }
        }
    }

    /// Removes layers that nobody names.
    pub(crate) async fn collect_layers(&self) {
        let engine = self.inner();
        match blocking(move || engine.collect_now()).await {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "layers that nobody needs were removed"),
            Err(error) => {
                self.fault();
                tracing::warn!(error = sentence(&error), "layers that nobody needs could not be removed");
            }
        }
    }

    fn collect_now(&self) -> Result<usize, EngineError> {
        let parts = &self.shared.parts;
        let mut unused: HashSet<LayerId> = parts.layers.layers()?.into_iter().map(|layer| layer.id).collect();
        if unused.is_empty() {
            return Ok(0);
        }
        let _alone = self.shared.keep.collecting.write();
        let mut keep = |layers: &[LayerId]| {
            for layer in layers {
                unused.remove(layer);
            }
        };
        keep(&self.shared.keep.pinned());
        parts
            .catalog
            .layers_of_snapshots(self.node())?
            .iter()
            .for_each(|layer| keep(std::slice::from_ref(layer)));
        for record in parts.catalog.unfinished_sandboxes(self.node())? {
            // What is there may stand on layers that no record names, and cannot be asked.
            let there = [Some(&record.backend), record.left.as_ref()];
            if there.into_iter().flatten().any(|name| !self.is_open(name)) {
                return Ok(0);
            }
            keep(&record.history.stack.0);
            keep(record.history.memory.as_slice());
        }
        for backend in &parts.backends {
            for found in backend.list().map_err(EngineError::Backend)? {
                keep(&parts.layers.stack_of(found.root.trees()).0);
            }
        }
        for layer in &unused {
            parts.layers.remove(layer)?;
        }
        Ok(unused.len())
    }

    /// A sandbox goes for good: so do its snapshots that have no name and that no other sandbox
    /// comes from. Blocks.
    pub(crate) fn forget_unnamed(&self, record: &SandboxRecord) -> Result<(), EngineError> {
        let catalog = self.shared.parts.catalog.as_ref();
        forget_unnamed(catalog, &record.owner, &record.id, &record.id)?;
        // Those of the original that were kept for the sake of this one.
        if let Some(original) = &record.history.forked_from {
            let known = catalog.sandbox(&record.owner, original)?;
            if !known.is_some_and(|original| original.is_live() || original.files_kept()) {
                forget_unnamed(catalog, &record.owner, original, &record.id)?;
            }
        }
        Ok(())
    }
}

fn forget_unnamed(
    catalog: &dyn Catalog,
    owner: &Owner,
    sandbox: &SandboxId,
    going: &SandboxId,
) -> Result<(), CatalogError> {
    let mut rows = all_snapshots(catalog, owner, sandbox)?;
    rows.retain(|row| !is_lasting(row));
    if rows.is_empty() {
        return Ok(());
    }
    let anchors = anchors_but_of(catalog, sandbox, Some(going))?;
    let gone: Vec<SnapshotId> =
        rows.into_iter().map(|row| row.id).filter(|id| !anchors.contains(id)).collect();
    if gone.is_empty() { Ok(()) } else { catalog.delete_snapshots(owner, &gone).map(drop) }
}

/// True if it stays until somebody deletes it.
fn is_lasting(row: &SnapshotRecord) -> bool {
    row.name.is_some() || matches!(row.reason, SnapshotReason::End | SnapshotReason::Import)
}

/// Snapshots of a sandbox that it, or another that exists, comes from or may go back to by a redo.
fn anchors(catalog: &dyn Catalog, sandbox: &SandboxId) -> Result<HashSet<SnapshotId>, CatalogError> {
    anchors_but_of(catalog, sandbox, None)
}

fn anchors_but_of(
    catalog: &dyn Catalog,
    sandbox: &SandboxId,
    going: Option<&SandboxId>,
) -> Result<HashSet<SnapshotId>, CatalogError> {
    let mut anchors = HashSet::new();
    for record in catalog.unfinished_sandboxes(catalog.node())? {
        if Some(&record.id) == going {
            continue;
        }
        if record.history.forked_from.as_ref() == Some(sandbox) {
            let rows = all_snapshots(catalog, &record.owner, &record.id)?;
            anchors.extend(rows.into_iter().filter_map(|row| row.parent));
        }
        anchors.extend(record.history.head);
        anchors.extend(record.history.redo);
    }
    Ok(anchors)
}
