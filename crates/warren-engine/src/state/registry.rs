//! Which sandboxes have a driver.
//!
//! A sandbox that lives has a driver. One that ended has none: its record is read from the catalog,
//! and a driver is started when something is to be done with what it left. There is never more than
//! one for an id: the driver of a new sandbox is registered before the record is written, all
//! others are started under one lock that is held from reading the record to registering, and a
//! driver leaves only after its last write.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use warren_core::{Owner, SandboxId, SandboxRecord, Status, TemplateName};

use crate::cell::Cell;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    cells: Mutex<HashMap<SandboxId, Arc<Cell>>>,
    /// Ended sandboxes whose files are there, and what they were made from.
    kept: Mutex<HashMap<SandboxId, Option<TemplateName>>>,
    waking: tokio::sync::Mutex<()>,
}

impl Registry {
    /// The owner's sandbox, if it has a driver.
    pub(crate) fn find(&self, owner: &Owner, id: &SandboxId) -> Option<Arc<Cell>> {
        self.cells.lock().get(id).filter(|cell| cell.owner == *owner).cloned()
    }

    /// The sandbox of any owner. For reports of the machine, not for callers.
    pub(crate) fn get(&self, id: &SandboxId) -> Option<Arc<Cell>> {
        self.cells.lock().get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Cell>> {
        self.cells.lock().values().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cells.lock().is_empty()
    }

    pub(crate) fn holds(&self, id: &SandboxId) -> bool {
        self.cells.lock().contains_key(id)
    }

    /// Takes a sandbox in, unless it has a driver already.
    pub(crate) fn add(&self, cell: &Arc<Cell>) -> bool {
        match self.cells.lock().entry(cell.id.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Arc::clone(cell));
                true
            }
        }
    }

    /// Puts a cell in the place of another of the same sandbox, which its driver has given up.
    pub(crate) fn replace(&self, old: &Arc<Cell>, new: &Arc<Cell>) {
        let mut cells = self.cells.lock();
        if cells.get(&old.id).is_some_and(|found| Arc::ptr_eq(found, old)) {
            cells.insert(new.id.clone(), Arc::clone(new));
        }
    }

    /// Takes a driver's sandbox out, unless another driver has taken its place.
    pub(crate) fn remove(&self, cell: &Arc<Cell>) {
        let mut cells = self.cells.lock();
        if cells.get(&cell.id).is_some_and(|found| Arc::ptr_eq(found, cell)) {
            cells.remove(&cell.id);
        }
    }

    /// Remembers whether the files of an ended sandbox are there.
    pub(crate) fn note_files(&self, record: &SandboxRecord) {
        let mut kept = self.kept.lock();
        if record.status.is_terminal() && record.files_kept() {
            kept.insert(record.id.clone(), record.spec.used_template().cloned());
        } else {
            kept.remove(&record.id);
        }
    }

    pub(crate) fn kept_count(&self) -> usize {
        self.kept.lock().len()
    }

    /// Templates that sandboxes stand on.
    pub(crate) fn templates_in_use(&self) -> Vec<TemplateName> {
        let mut names: Vec<TemplateName> = self.kept.lock().values().flatten().cloned().collect();
        let used = |cell: &Arc<Cell>| cell.record().spec.used_template().cloned();
        names.extend(self.cells.lock().values().filter_map(used));
        names.sort();
        names.dedup();
        names
    }

    /// How many are in one of these states.
    pub(crate) fn count(&self, wanted: fn(Status) -> bool) -> usize {
        self.cells.lock().values().filter(|cell| wanted(cell.status())).count()
    }

    /// Held while a driver is started for a record.
    pub(crate) async fn waking(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.waking.lock().await
    }
}
