//! The states between two snapshots, and the journal's entries that led from each to the next.

use std::collections::{HashMap, HashSet};

use warren_wire::api::{JournalEntry, Snapshot, SnapshotMethod};

use crate::error::CliError;

/// A state on the way, and the entries that led to it from the one before.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) state: Snapshot,
    /// Several if commands overlapped or nothing was captured between them; none if files were
    /// changed without a command.
    pub(crate) entries: Vec<JournalEntry>,
}

/// Gets a snapshot by its id.
pub(crate) type Look<'a> = &'a mut dyn FnMut(&str) -> Result<Snapshot, CliError>;

/// The different states from `good` to `bad`, both included, the oldest first. A history may lead
/// through several sandboxes.
pub(crate) fn states(good: &str, bad: &str, look: Look<'_>) -> Result<Vec<Snapshot>, CliError> {
    let mut states = Vec::new();
    let mut seen = HashSet::new();
    let mut next = Some(bad.to_owned());
    while let Some(id) = next {
        let state = look(&id)?;
        let arrived = state.snapshot_id == good;
        next = state.parent_id.clone().filter(|_| !arrived && seen.insert(id));
        // A snapshot without a change has the state of its parent, which follows.
        if arrived || next.is_none() || state.method != SnapshotMethod::Unchanged {
            states.push(state);
        }
        if arrived {
            states.reverse();
            return Ok(states);
        }
    }
    Err(CliError::new("the bad state does not come from the good one")
        .hint("the good one must be an ancestor: `warren snapshots` shows the tree, `warren log` the order"))
}

/// Joins states with the entries of the journals of their sandboxes.
pub(crate) fn steps(states: Vec<Snapshot>, journal: &[JournalEntry], known: &HashSet<String>) -> Vec<Step> {
    let mut by_state: HashMap<&str, Vec<&JournalEntry>> = HashMap::new();
    let mut thinned = Vec::new();
    for entry in journal {
        match entry.after_id.as_deref() {
            Some(after) if known.contains(after) => by_state.entry(after).or_default().push(entry),
            // The snapshot after it was thinned out: it belongs to the one that covers its time.
            Some(_) => thinned.push(entry),
            None => {}
        }
    }
    let mut steps: Vec<Step> = Vec::with_capacity(states.len());
    for state in states {
        let mut entries: Vec<JournalEntry> =
            by_state.remove(state.snapshot_id.as_str()).unwrap_or_default().into_iter().cloned().collect();
        if let Some(before) = steps.last() {
            let during = |entry: &&&JournalEntry| {
                entry.began_at >= before.state.created_at && entry.began_at <= state.created_at
            };
            entries.extend(thinned.iter().filter(during).map(|entry| (*entry).clone()));
        }
        entries.sort_by_key(|entry| entry.number);
        steps.push(Step { state, entries });
    }
    steps
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
