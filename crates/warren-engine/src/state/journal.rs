use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use warren_core::catalog::{Catalog, CatalogError, Durability};
use warren_core::{JournalEntry, SandboxId, SnapshotId};

use super::counts::Counts;
use crate::cell::{Cell, Door};

/// An entry's name: its sandbox and its number there.
type Key = (SandboxId, u64);

/// An entry whose process somebody should see end.
#[derive(Debug)]
pub(crate) struct Unwatched {
    pub(crate) door: Door,
    pub(crate) entry: JournalEntry,
    pub(crate) process: u64,
}

/// Background work for entries.
#[derive(Debug)]
pub(crate) enum Job {
    Watch(Box<Unwatched>),
    /// A command ended: the state that it left is to be captured.
    Capture(Arc<Cell>),
}

/// So many ended entries of a sandbox are remembered; where there are more, the catalog is asked.
const MOST_REMEMBERED: usize = 32;

/// Entries of a sandbox that ended and whose state is not captured.
#[derive(Debug)]
enum Uncaptured {
    All(Vec<JournalEntry>),
    /// The catalog knows them.
    AskCatalog,
}

/// The journal's state beside the catalog. If it is lost, the next start closes what was open.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Entries that are not in the catalog as they are.
    pending: Mutex<HashMap<Key, JournalEntry>>,
    /// Held while entries are written, and while they are read to be changed.
    writing: Mutex<()>,
    pub(crate) to_write: Notify,
    /// Entries that somebody here will close.
    going_on: Mutex<HashSet<Key>>,
    /// Sandboxes in which something ended whose state is not captured.
    uncaptured: Mutex<HashMap<SandboxId, Uncaptured>>,
    jobs: mpsc::UnboundedSender<Job>,
    pub(crate) counts: Counts,
}

impl Journal {
    /// The journal, and what the journal's task is to do.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Job>) {
        let (jobs, to_do) = mpsc::unbounded_channel();
        let journal = Self {
            pending: Mutex::default(),
            writing: Mutex::default(),
            to_write: Notify::new(),
            going_on: Mutex::default(),
            uncaptured: Mutex::default(),
            jobs,
            counts: Counts::default(),
        };
        (journal, to_do)
    }

    pub(crate) fn begin(&self, entry: &JournalEntry) {
        self.going_on.lock().insert(key(entry));
    }

    pub(crate) fn goes_on(&self, entry: &JournalEntry) -> bool {
        self.going_on.lock().contains(&key(entry))
    }

    /// An entry has changed; the catalog learns of it soon.
    pub(crate) fn change(&self, entry: JournalEntry) {
        let key = key(&entry);
        if entry.ended_unix_ms.is_some() {
            self.going_on.lock().remove(&key);
        }
        self.pending.lock().insert(key, entry);
        self.to_write.notify_one();
    }

    /// An entry ended, and the state that it left is still to be captured.
    pub(crate) fn expect_capture(&self, ended: JournalEntry) {
        let mut uncaptured = self.uncaptured.lock();
        let known = uncaptured.entry(ended.sandbox.clone()).or_insert_with(|| Uncaptured::All(Vec::new()));
        match known {
            Uncaptured::All(entries) if entries.len() < MOST_REMEMBERED => entries.push(ended),
            Uncaptured::All(_) | Uncaptured::AskCatalog => *known = Uncaptured::AskCatalog,
        }
    }

    /// Notes that everything that ended in a sandbox up to a moment has left the state it began
    /// with. Says no, and does nothing, if something began with another state or is not remembered.
    pub(crate) fn left_as_it_was(&self, sandbox: &SandboxId, state: &SnapshotId, at_unix_ms: u64) -> bool {
        let mut uncaptured = self.uncaptured.lock();
        let ended = match uncaptured.get(sandbox) {
            None => return true,
            Some(Uncaptured::AskCatalog) => return false,
            Some(Uncaptured::All(ended)) => ended,
        };
        if !ended.iter().all(|entry| entry.before.as_ref() == Some(state) && is_uncaptured(entry, at_unix_ms))
        {
            return false;
        }
        if let Some(Uncaptured::All(ended)) = uncaptured.remove(sandbox) {
            for entry in ended {
                self.change(JournalEntry { after: Some(state.clone()), ..entry });
            }
        }
        true
    }

    /// True if something has ended whose state is still to be captured.
    pub(crate) fn expects_capture(&self, sandbox: &SandboxId) -> bool {
        self.uncaptured.lock().contains_key(sandbox)
    }

    /// Something is to be done in the background.
    pub(crate) fn later(&self, job: Job) {
        // An engine that has ended leaves it to the next one.
        self.jobs.send(job).ok();
    }

    /// Writes down what is not in the catalog yet. Blocks.
    pub(crate) fn write(&self, catalog: &dyn Catalog) -> Result<(), CatalogError> {
        let _alone = self.writing.lock();
        self.write_alone(catalog)
    }

    /// Entries that ended up to a moment and whose state was not captured since, the last to end at
    /// the end. Blocks.
    pub(crate) fn ended(
        &self,
        catalog: &dyn Catalog,
        sandbox: &SandboxId,
        at_unix_ms: u64,
    ) -> Result<Vec<JournalEntry>, CatalogError> {
        let _alone = self.writing.lock();
        let mut entries = self.open_entries(catalog, sandbox, |_| true)?;
        entries.retain(|entry| is_uncaptured(entry, at_unix_ms));
        entries.sort_by_key(order_of_ends);
        Ok(entries)
    }

    /// Notes the state that everything left that ended up to a moment. The last to end has left
    /// just this one, even if it was marked as not kept before. Blocks.
    pub(crate) fn captured(
        &self,
        catalog: &dyn Catalog,
        sandbox: &SandboxId,
        after: &SnapshotId,
        at_unix_ms: u64,
    ) -> Result<(), CatalogError> {
        let _alone = self.writing.lock();
        let mut entries = self.open_entries(catalog, sandbox, |entry| !is_uncaptured(entry, at_unix_ms))?;
        entries.retain(|entry| is_uncaptured(entry, at_unix_ms));
        if let Some(last) = entries.iter_mut().max_by_key(|entry| order_of_ends(entry)) {
            last.not_kept = None;
        }
        for entry in &mut entries {
            entry.after = Some(after.clone());
        }
        if entries.is_empty() { Ok(()) } else { catalog.update_entries(&entries, Durability::Process) }
    }

    /// Marks entries that ended up to a moment as leaving a state that was not kept. Returns those
    /// that were not marked before. Blocks.
    pub(crate) fn not_kept(
        &self,
        catalog: &dyn Catalog,
        sandbox: &SandboxId,
        reason: &str,
        at_unix_ms: u64,
    ) -> Result<Vec<u64>, CatalogError> {
        let mut marked = Vec::new();
        self.edit(catalog, sandbox, |entry| {
            let new = entry.not_kept.is_none() && is_uncaptured(entry, at_unix_ms);
            if new {
                entry.not_kept = Some(reason.to_owned());
                marked.push(entry.number);
            }
            new
        })?;
        Ok(marked)
    }

    /// Changes entries of a sandbox that are open; the change says which. Blocks.
    pub(crate) fn edit(
        &self,
        catalog: &dyn Catalog,
        sandbox: &SandboxId,
        change: impl FnMut(&mut JournalEntry) -> bool,
    ) -> Result<(), CatalogError> {
        let _alone = self.writing.lock();
        if let Some(known) = self.uncaptured.lock().get_mut(sandbox) {
            *known = Uncaptured::AskCatalog;
        }
        self.write_alone(catalog)?;
        let mut entries = catalog.open_entries(sandbox)?;
        entries.retain_mut(change);
        if entries.is_empty() { Ok(()) } else { catalog.update_entries(&entries, Durability::Process) }
    }

    /// The open entries of a sandbox, for the one writer. A capture is expected for those that have
    /// ended and stay open.
    fn open_entries(
        &self,
        catalog: &dyn Catalog,
        sandbox: &SandboxId,
        stays: impl Fn(&JournalEntry) -> bool,
    ) -> Result<Vec<JournalEntry>, CatalogError> {
        // Before they are read: whatever ends meanwhile says so again.
        let expected = self.uncaptured.lock().remove(sandbox).is_some();
        let read = self.write_alone(catalog).and_then(|()| catalog.open_entries(sandbox));
        let is_left = |entry: &JournalEntry| is_uncaptured(entry, u64::MAX) && stays(entry);
        if read.as_ref().map_or(expected, |entries| entries.iter().any(is_left)) {
            self.uncaptured.lock().insert(sandbox.clone(), Uncaptured::AskCatalog);
        }
        read
    }

    fn write_alone(&self, catalog: &dyn Catalog) -> Result<(), CatalogError> {
        let taken = std::mem::take(&mut *self.pending.lock());
        if taken.is_empty() {
            return Ok(());
        }
        let entries: Vec<JournalEntry> = taken.into_values().collect();
        let written = catalog.update_entries(&entries, Durability::Process);
        if written.is_err() {
            let mut pending = self.pending.lock();
            for entry in entries {
                // What has changed again meanwhile is newer.
                pending.entry(key(&entry)).or_insert(entry);
            }
        }
        written
    }

    pub(crate) fn is_written(&self) -> bool {
        self.pending.lock().is_empty()
    }
}

/// The state that it left is not captured.
fn is_uncaptured(entry: &JournalEntry, at_unix_ms: u64) -> bool {
    entry.after.is_none() && entry.ended_unix_ms.is_some_and(|ended| ended <= at_unix_ms)
}

fn order_of_ends(entry: &JournalEntry) -> (Option<u64>, u64) {
    (entry.ended_unix_ms, entry.number)
}

/// Of entries in the order of their ends, those whose states are lost: they were not kept, and
/// others came after.
pub(crate) fn lost(ended: &[JournalEntry]) -> Vec<u64> {
    let earlier = ended.split_last().map(|(_, earlier)| earlier).unwrap_or_default();
    earlier.iter().filter(|entry| entry.not_kept.is_some()).map(|entry| entry.number).collect()
}

fn key(entry: &JournalEntry) -> Key {
    (entry.sandbox.clone(), entry.number)
}
