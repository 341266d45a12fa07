use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;
use warren_core::catalog::{Catalog, CatalogError, CatalogErrorKind, Durability, SnapshotFilter};
use warren_core::{LayerId, Owner, PageRequest, SandboxId, SnapshotId, SnapshotRecord, Stack};

use crate::{Engine, EngineError};

/// What the engine remembers of snapshots and layers beside the catalog; all of it can be lost.
#[derive(Debug, Default)]
pub(crate) struct Keep {
    pins: Arc<Pins>,
    /// Held by one who learns from a record which layers it needs until they are pinned, and, for writing, while layers
    /// that nobody names are removed.
    collecting: RwLock<()>,
    /// Held while a record of a snapshot is read, changed and written.
    rows: Mutex<()>,
    /// Snapshots that are not on disk yet.
    unsynced: Mutex<Vec<(Owner, SnapshotId)>>,
    pub(super) to_sync: Notify,
    /// Snapshots that were taken of a sandbox since they were last thinned.
    taken: Mutex<HashMap<SandboxId, u32>>,
    /// Sandboxes whose layers are being squashed.
    pub(super) squashing: Mutex<HashSet<SandboxId>>,
}

type Pins = Mutex<HashMap<LayerId, u32>>;

/// Keeps layers from being removed while it exists.
#[derive(Debug)]
pub(crate) struct Pin {
    pins: Arc<Pins>,
    layers: Vec<LayerId>,
}

impl Keep {
    pub(crate) fn pin(&self, layers: &[LayerId]) -> Pin {
        let mut pin = Pin { pins: Arc::clone(&self.pins), layers: Vec::new() };
        layers.iter().for_each(|layer| pin.add(layer.clone()));
        pin
    }

    pub(super) fn pinned(&self) -> Vec<LayerId> {
        locked(&self.pins).keys().cloned().collect()
    }

    pub(super) fn learn(&self) -> RwLockReadGuard<'_, ()> {
        self.collecting.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn collect(&self) -> RwLockWriteGuard<'_, ()> {
        self.collecting.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot is to be put on disk soon.
    pub(crate) fn sync_soon(&self, owner: &Owner, id: &SnapshotId) {
        locked(&self.unsynced).push((owner.clone(), id.clone()));
        self.to_sync.notify_one();
    }

    pub(super) fn unsynced(&self) -> Vec<(Owner, SnapshotId)> {
        std::mem::take(&mut *locked(&self.unsynced))
    }

    /// Counts a snapshot. Says how many there were since the last thinning.
    pub(crate) fn count_taken(&self, id: &SandboxId) -> u32 {
        let mut taken = locked(&self.taken);
        let count = taken.entry(id.clone()).or_default();
        *count += 1;
        *count
    }

    /// Those of which snapshots were taken, and begins to count anew.
    pub(super) fn taken(&self) -> Vec<SandboxId> {
        locked(&self.taken).drain().map(|(id, _)| id).collect()
    }

    pub(super) fn thinned(&self, id: &SandboxId) {
        locked(&self.taken).remove(id);
    }
}

impl Pin {
    pub(crate) fn add(&mut self, layer: LayerId) {
        *locked(&self.pins).entry(layer.clone()).or_default() += 1;
        self.layers.push(layer);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = locked(&self.pins);
        for layer in &self.layers {
            if let Some(count) = pins.get_mut(layer) {
                *count -= 1;
                if *count == 0 {
                    pins.remove(layer);
                }
            }
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
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
        let _learning = self.shared.keep.learn();
        let found = self.shared.parts.catalog.snapshot(owner, id)?;
        let snapshot = found.ok_or_else(|| EngineError::snapshot_not_found(id))?;
        self.check_node(id, &snapshot.node)?;
        if snapshot.damaged {
            return Err(EngineError::SnapshotDamaged { id: id.clone() });
        }
        let pin = self.shared.keep.pin(&snapshot.stack.0);
        Ok((snapshot, pin))
    }

    /// Changes the record of a snapshot as it is now; the change says whether there is anything to be written. `None` if it is
    /// gone. Blocks.
    pub(crate) fn change_snapshot(
        &self,
        owner: &Owner,
        id: &SnapshotId,
        durability: Durability,
        change: impl FnOnce(&mut SnapshotRecord) -> bool,
    ) -> Result<Option<SnapshotRecord>, CatalogError> {
        let _alone = locked(&self.shared.keep.rows);
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

/// Every snapshot of a sandbox, the newest first.
pub(crate) fn all_snapshots(
    catalog: &dyn Catalog,
    owner: &Owner,
    sandbox: &SandboxId,
) -> Result<Vec<SnapshotRecord>, CatalogError> {
    let filter = SnapshotFilter { sandbox: Some(sandbox.clone()), ..SnapshotFilter::default() };
    let mut request = PageRequest { limit: PageRequest::MOST, after: None };
    let mut snapshots = Vec::new();
    loop {
        let page = catalog.snapshots(owner, &filter, &request)?;
        snapshots.extend(page.items);
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(snapshots),
        }
    }
}

/// Whether a stack has exactly these layers at its bottom.
pub(crate) fn stands_on(stack: &Stack, run: &[LayerId]) -> bool {
    !run.is_empty() && stack.0.ends_with(run)
}

/// The stack with one layer in place of those at its bottom.
pub(crate) fn restacked(stack: &Stack, run: &[LayerId], into: &LayerId) -> Stack {
    let above = stack.depth().saturating_sub(run.len());
    let mut layers: Vec<LayerId> = stack.0.iter().take(above).cloned().collect();
    layers.push(into.clone());
    Stack(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(number: u8) -> LayerId {
        LayerId::from_random([number; 16])
    }

    #[test]
    fn a_layer_is_held_until_the_last_who_needs_it_is_gone() {
        let keep = Keep::default();
        let first = keep.pin(&[layer(1), layer(2)]);
        let mut second = keep.pin(&[]);
        second.add(layer(1));
        drop(first);
        assert_eq!(keep.pinned(), [layer(1)]);
        drop(second);
        assert!(keep.pinned().is_empty());
    }

    #[test]
    fn layers_at_the_bottom_are_exchanged_for_one() {
        let stack = Stack(vec![layer(4), layer(3), layer(2)]);
        let run = [layer(3), layer(2)];
        assert!(stands_on(&stack, &run) && !stands_on(&stack, &[layer(4), layer(3)]));
        assert!(!stands_on(&stack, &[]));
        assert_eq!(restacked(&stack, &run, &layer(9)), Stack(vec![layer(4), layer(9)]));
    }
}
