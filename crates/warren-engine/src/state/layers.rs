use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use warren_core::catalog::{Catalog, CatalogError, SnapshotFilter};
use warren_core::{LayerId, Owner, Page, PageRequest, SandboxId, SnapshotId, SnapshotRecord, Stack};

/// The engine's knowledge of snapshots and layers beside the catalog; all of it can be lost.
#[derive(Debug, Default)]
pub(crate) struct Keep {
    pins: Arc<Pins>,
    /// Held for reading from the look at a record to the pin of its layers, and for writing while
    /// layers that nothing names are removed.
    pub(crate) collecting: RwLock<()>,
    /// Held while a record of a snapshot is read, changed and written.
    pub(crate) rows: Mutex<()>,
    /// Snapshots that are not on disk yet.
    unsynced: Mutex<Vec<(Owner, SnapshotId)>>,
    pub(crate) to_sync: Notify,
    /// Snapshots that were taken of a sandbox since they were last thinned.
    taken: Mutex<HashMap<SandboxId, u32>>,
    /// Sandboxes whose layers are being squashed.
    pub(crate) squashing: Mutex<HashSet<SandboxId>>,
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

    pub(crate) fn pinned(&self) -> Vec<LayerId> {
        self.pins.lock().keys().cloned().collect()
    }

    /// A snapshot is to be put on disk soon.
    pub(crate) fn sync_soon(&self, owner: &Owner, id: &SnapshotId) {
        self.unsynced.lock().push((owner.clone(), id.clone()));
        self.to_sync.notify_one();
    }

    pub(crate) fn unsynced(&self) -> Vec<(Owner, SnapshotId)> {
        std::mem::take(&mut *self.unsynced.lock())
    }

    /// Counts a snapshot. Says how many there were since the last thinning.
    pub(crate) fn count_taken(&self, id: &SandboxId) -> u32 {
        let mut taken = self.taken.lock();
        let count = taken.entry(id.clone()).or_default();
        *count += 1;
        *count
    }

    /// The sandboxes of which snapshots were taken. Begins to count anew.
    pub(crate) fn taken(&self) -> Vec<SandboxId> {
        self.taken.lock().drain().map(|(id, _)| id).collect()
    }

    pub(crate) fn thinned(&self, id: &SandboxId) {
        self.taken.lock().remove(id);
    }
}

impl Pin {
    pub(crate) fn add(&mut self, layer: LayerId) {
        *self.pins.lock().entry(layer.clone()).or_default() += 1;
        self.layers.push(layer);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
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

/// Every snapshot of a sandbox, the newest first.
pub(crate) fn all_snapshots(
    catalog: &dyn Catalog,
    owner: &Owner,
    sandbox: &SandboxId,
) -> Result<Vec<SnapshotRecord>, CatalogError> {
    let filter = SnapshotFilter { sandbox: Some(sandbox.clone()), ..SnapshotFilter::default() };
    all_pages(|request| catalog.snapshots(owner, &filter, request))
}

/// The items of all pages.
pub(crate) fn all_pages<T>(
    mut read: impl FnMut(&PageRequest) -> Result<Page<T>, CatalogError>,
) -> Result<Vec<T>, CatalogError> {
    let mut request = PageRequest { limit: PageRequest::MOST, after: None };
    let mut items = Vec::new();
    loop {
        let page = read(&request)?;
        items.extend(page.items);
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(items),
        }
    }
}

/// True if a stack has exactly these layers at its bottom.
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
