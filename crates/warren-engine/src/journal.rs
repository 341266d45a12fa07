//! The journal: what was done in a sandbox, bound to the states before and after.
//!
//! An entry is appended before its process starts. What becomes of it later is kept in memory for a
//! moment and written with other entries: [`mod@write`]. A process that nobody follows is watched
//! until it ends: [`ends`]. The state after an entry is known with the next snapshot:
//! [`crate::state::Journal::captured`].

mod around;
mod blame;
mod ends;
mod note;
mod open;
mod states;
mod to_entry;
mod write;

use std::path::Path;

use warren_core::{Action, JournalEntry, SandboxRecord, SnapshotId};

use self::states::{AtPath, States};
use crate::bounds::heavy;
use crate::cell::{Capture, CaptureOrder, start_of};
use crate::error::{Field, sentence};
use crate::ports::blocking;
use crate::shown::in_a_line;
use crate::work_kind::WorkKind;
use crate::{Engine, EngineError, Sandbox};

pub(crate) use self::open::OpenEntry;

/// Entries that are read at a time.
const PAGE: u32 = 500;
/// The oldest entries beyond this are not looked at for [`SandboxHistory::blame`].
const MOST_BLAMED: usize = 20_000;

/// A journal entry with what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    pub entry: JournalEntry,
    /// Paths that differ between the states before and after; absent where one of them is not known
    /// any more.
    pub changed: Option<u64>,
}

impl LogEntry {
    /// The action, in a line.
    pub fn line(&self) -> String {
        action_line(&self.entry)
    }
}

impl Blame {
    /// The actions of its entries, each in a line.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(action_line)
    }
}

fn action_line(entry: &JournalEntry) -> String {
    match &entry.action {
        Action::Turn => format!("turn {} was completed", entry.turn),
        Action::Rollback { to } => format!("went back to {to}"),
        Action::Move { from, to } => format!("moved from {from} to {to}"),
        Action::Promote { from, command, .. } => {
            format!("merged what changed in {from}: {}", command.as_deref().unwrap_or("not known how"))
        }
        action => in_a_line(action).unwrap_or_default(),
    }
}

/// The last change of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// The newest first; several where commands overlapped. Empty: no known entry did.
    pub entries: Vec<JournalEntry>,
    pub state: PathState,
}

/// The state of a path, compared with the sandbox's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// It is there, and not as it was.
    Changed,
    AsItBegan,
    /// It was there, and is not any more.
    Removed,
    /// It is not there and was not at the beginning; or it came and went between two states.
    NeverThere,
}

/// The history of a sandbox: its journal, and the states that it had.
#[derive(Debug, Clone)]
pub struct SandboxHistory {
    pub(crate) sandbox: Sandbox,
}

impl Sandbox {
    pub fn history(&self) -> SandboxHistory {
        SandboxHistory { sandbox: self.clone() }
    }
}

impl SandboxHistory {
    /// The newest first, from the entry before `before` on. `count` tells for each how many paths
    /// it changed. Also of a sandbox that has ended, as long as it is remembered.
    pub async fn log(
        &self,
        before: Option<u64>,
        limit: u32,
        count: bool,
    ) -> Result<Vec<LogEntry>, EngineError> {
        let record = self.sandbox.record().await?;
        let engine = self.sandbox.engine.inner();
        let tell = move || {
            engine.settle_entries(&record);
            let limit = limit.clamp(1, PAGE);
            let entries = engine.shared.parts.catalog.entries(&record.owner, &record.id, before, limit)?;
            let mut states = States::new(&engine, &record);
            let mut changed = |entry: &JournalEntry| {
                let (from, to) = entry.before.as_ref().zip(entry.after.as_ref()).filter(|_| count)?;
                let counted = engine.shared.journal.counts.of(from, to, || states.count(from, to));
                // A state that cannot be looked at, for whatever reason, does not hide the others.
                counted.unwrap_or_else(|error| {
                    tracing::warn!(sandbox.id = %record.id, error = sentence(&error), "cannot count what an entry changed");
                    None
                })
            };
            let told = entries.into_iter().map(|entry| LogEntry { changed: changed(&entry), entry });
            Ok(told.collect())
        };
        // Counting compares states; the entries alone are a page of the catalog.
        if count {
            heavy::at(self.sandbox.engine.place_for(self.sandbox.owner(), WorkKind::Comparison).await?, tell)
                .await
        } else {
            blocking(tell).await
        }
    }

    /// The entries that last changed a path.
    pub async fn blame(&self, path: &Path) -> Result<Blame, EngineError> {
        if !path.is_absolute() {
            return Err(EngineError::invalid(Field::Path, "the path begins with a slash"));
        }
        let place = self.sandbox.engine.place_for(self.sandbox.owner(), WorkKind::Comparison).await?;
        let record = self.sandbox.record().await?;
        let now = self.sandbox.engine.state_now(&record).await;
        // What it stands on may have changed with that.
        let record = self.sandbox.record().await?;
        let (engine, path) = (self.sandbox.engine.inner(), path.to_owned());
        heavy::at(place, move || {
            engine.settle_entries(&record);
            let entries = engine.all_entries(&record)?;
            let mut known = AtPath { states: States::new(&engine, &record), path: &path };
            blame::blame(&entries, &start_of(&record.id), now.as_ref(), &mut known)
        })
        .await
    }
}

impl Engine {
    /// The state that a sandbox is in, if it can be captured at no cost.
    async fn state_now(&self, record: &SandboxRecord) -> Option<SnapshotId> {
        if !record.is_live() && !record.files_kept() {
            return record.history.head.clone();
        }
        match self.capture(&record.owner, &record.id, CaptureOrder::automatic()).await {
            Ok(Capture::Taken(taken)) => Some(taken.snapshot.id),
            Ok(Capture::Same(id)) => Some(id),
            Ok(Capture::NotKept(_)) | Err(_) => None,
        }
    }

    /// Brings the catalog up to date. Entries that this engine will not close are closed. Blocks.
    fn settle_entries(&self, record: &SandboxRecord) {
        let (journal, catalog) = (&self.shared.journal, self.shared.parts.catalog.as_ref());
        let settled = if self.shared.registry.holds(&record.id) {
            journal.write(catalog)
        } else {
            let now = self.shared.parts.clock.unix_ms();
            journal.edit(catalog, &record.id, |entry| {
                let lost = entry.ended_unix_ms.is_none() && !journal.goes_on(entry);
                if lost {
                    entry.ended_unix_ms = Some(now);
                    entry.outcome = Some(ends::not_seen());
                }
                lost
            })
        };
        if let Err(error) = settled {
            self.fault();
            tracing::error!(sandbox.id = %record.id, error = sentence(&error), "the journal is not up to date");
        }
    }

    /// Every entry, the newest first, as far as anybody looks. Blocks.
    fn all_entries(&self, record: &SandboxRecord) -> Result<Vec<JournalEntry>, EngineError> {
        let mut entries: Vec<JournalEntry> = Vec::new();
        while entries.len() < MOST_BLAMED {
            let before = entries.last().map(|entry| entry.number);
            let page = self.shared.parts.catalog.entries(&record.owner, &record.id, before, PAGE)?;
            if page.is_empty() {
                break;
            }
            entries.extend(page);
        }
        Ok(entries)
    }
}

#[cfg(test)]
pub(crate) mod tests;
