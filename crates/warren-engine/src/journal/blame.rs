//! Which entries last changed a path.
//!
//! The states that were captured since the sandbox last went back to an earlier one are put in
//! order, and the newest two neighbours between which the path differs are found. Whatever was at
//! work between these two may have changed it: the command whose states they are, and all that ran
//! beside it. If there are none, it goes on with what led to the state that the sandbox went back
//! to; what was undone is passed over.

use std::collections::{HashMap, HashSet};

use warren_core::{Action, JournalEntry, SnapshotId};

use super::{Blame, PathState};
use crate::EngineError;

/// Knowledge of captured states.
pub(super) trait Knowledge {
    /// True if a state can still be looked at.
    fn has(&mut self, id: &SnapshotId) -> Result<bool, EngineError>;

    /// True if two states are the same.
    fn same(&mut self, one: &SnapshotId, other: &SnapshotId) -> Result<bool, EngineError>;

    /// When the sandbox was in a state; `None` if that is not known, or it never was.
    fn moment(&mut self, id: &SnapshotId) -> Result<Option<u64>, EngineError>;

    /// True if the path differs between two states.
    fn differs(&mut self, from: &SnapshotId, to: &SnapshotId) -> Result<bool, EngineError>;

    /// True if the path exists in a state.
    fn exists(&mut self, id: &SnapshotId) -> Result<bool, EngineError>;
}

/// The entries that may have changed the path last. `entries` has the newest first; `start` is what
/// the sandbox began with, `now` the state it is in, if that is captured.
pub(super) fn blame(
    entries: &[JournalEntry],
    start: &SnapshotId,
    now: Option<&SnapshotId>,
    known: &mut dyn Knowledge,
) -> Result<Blame, EngineError> {
    let mut end = now.map(|now| (now.clone(), u64::MAX));
    let (mut from, mut here) = (0, None);
    loop {
        let rest = entries.get(from..).unwrap_or_default();
        let length = rest.iter().position(is_rollback).unwrap_or(rest.len());
        let stretch = rest.get(..length).unwrap_or_default();
        let back = rest.get(length);
        let begin = match back {
            Some(JournalEntry { action: Action::Rollback { to }, began_unix_ms, .. }) => (to, *began_unix_ms),
            _ => (start, 0),
        };
        let states = in_order(stretch, begin, end.as_ref(), known)?;
        if here.is_none() {
            here = states.last().map(|state| state.id.clone());
        }
        if let Some(culprits) = culprits(stretch, &states, known)? {
            return found(culprits, start, here.as_ref(), known);
        }
        // What came between is undone: the sandbox is what it was then.
        let Some(JournalEntry { action: Action::Rollback { to }, .. }) = back else { break };
        let Some(next) = resume_at(entries, from + length + 1, to, known)? else { break };
        end = Some((to.clone(), known.moment(to)?.unwrap_or(u64::MAX)));
        from = next;
    }
    found(Vec::new(), start, here.as_ref(), known)
}

fn is_rollback(entry: &JournalEntry) -> bool {
    matches!(entry.action, Action::Rollback { .. })
}

/// `here` is the last state that is known.
fn found(
    entries: Vec<JournalEntry>,
    start: &SnapshotId,
    here: Option<&SnapshotId>,
    known: &mut dyn Knowledge,
) -> Result<Blame, EngineError> {
    let here = here.unwrap_or(start);
    let changed = !entries.is_empty() || known.differs(start, here)?;
    let state = match (changed, known.exists(here)?) {
        (true, true) => PathState::Changed,
        (true, false) => PathState::Removed,
        (false, true) => PathState::AsItBegan,
        (false, false) => PathState::NeverThere,
    };
    Ok(Blame { entries, state })
}

/// A state that can be looked at.
struct State {
    id: SnapshotId,
    moment: u64,
    /// Tells those of one moment apart.
    rank: u64,
}

/// The states of a stretch without rollbacks, the oldest first.
fn in_order(
    stretch: &[JournalEntry],
    (begin, begun): (&SnapshotId, u64),
    end: Option<&(SnapshotId, u64)>,
    known: &mut dyn Knowledge,
) -> Result<Vec<State>, EngineError> {
    let (mut states, mut added) = (Vec::new(), HashSet::new());
    let mut add = |id: &SnapshotId, moment: u64, rank: u64, known: &mut dyn Knowledge| {
        if added.insert(id.clone()) && known.has(id)? {
            states.push(State { id: id.clone(), moment, rank });
        }
        Ok::<_, EngineError>(())
    };
    add(begin, begun, 0, known)?;
    let ended = end.map_or(u64::MAX, |(_, ended)| *ended);
    for (entry, rank) in stretch.iter().rev().zip((1_u64..).step_by(2)) {
        let around =
            [(&entry.before, Some(entry.began_unix_ms), rank), (&entry.after, entry.ended_unix_ms, rank + 1)];
        for (state, at, rank) in around {
            let Some(id) = state else { continue };
            let Some(moment) = known.moment(id)?.or(at) else { continue };
            // A process that went on for longer has left its traces in states that were undone.
            if (begun..=ended).contains(&moment) {
                add(id, moment, rank, known)?;
            }
        }
    }
    if let Some((end, ended)) = end {
        add(end, *ended, u64::MAX, known)?;
    }
    states.sort_by_key(|state| (state.moment, state.rank));
    Ok(states)
}

/// The entries under way when the path last changed; `None` if it did not.
fn culprits(
    stretch: &[JournalEntry],
    states: &[State],
    known: &mut dyn Knowledge,
) -> Result<Option<Vec<JournalEntry>>, EngineError> {
    for (after, pair) in (1..states.len()).zip(states.windows(2)).rev() {
        let [one, other] = pair else { continue };
        if !known.differs(&one.id, &other.id)? {
            continue;
        }
        let places = states.iter().enumerate().map(|(place, state)| (&state.id, place)).collect();
        let at_work = |entry: &&JournalEntry| {
            let (from, to) = span(entry, states, &places);
            from < after && after <= to
        };
        let mut culprits: Vec<JournalEntry> = stretch.iter().filter(at_work).cloned().collect();
        // The end of a turn only names what others did, if there were any.
        if culprits.iter().any(|entry| entry.action != Action::Turn) {
            culprits.retain(|entry| entry.action != Action::Turn);
        }
        return Ok(Some(culprits));
    }
    Ok(None)
}

/// The places of the last state before an entry and of the first one after it. One that goes on, or
/// ended after every state that is known, has none after it.
fn span(entry: &JournalEntry, states: &[State], places: &HashMap<&SnapshotId, usize>) -> (usize, usize) {
    let place = |id: &Option<SnapshotId>| places.get(id.as_ref()?).copied();
    let (before, after) = (place(&entry.before), place(&entry.after));
    let by_time = states.partition_point(|state| state.moment <= entry.began_unix_ms).saturating_sub(1);
    let from = before.unwrap_or(by_time);
    let to = match entry.ended_unix_ms {
        Some(ended) => after.unwrap_or_else(|| states.partition_point(|state| state.moment < ended)),
        None => states.len(),
    };
    match (before, after) {
        (Some(_), Some(_)) => (from, to),
        // Clocks are coarse: what is known of one side goes before the time of the other.
        (Some(_), None) => (from, to.max(from + 1)),
        (None, _) => (from.min(to.saturating_sub(1)), to),
    }
}

/// The newest entry, from `from` on, that may have to do with a state.
fn resume_at(
    entries: &[JournalEntry],
    from: usize,
    to: &SnapshotId,
    known: &mut dyn Knowledge,
) -> Result<Option<usize>, EngineError> {
    let moment = known.moment(to)?;
    let mut found = None;
    for (at, entry) in entries.iter().enumerate().skip(from) {
        let is = |state: &Option<SnapshotId>, known: &mut dyn Knowledge| match state {
            Some(state) => Ok::<_, EngineError>(state == to || known.same(state, to)?),
            None => Ok(false),
        };
        if is(&entry.after, known)? {
            found = Some(at);
            break;
        }
        if is(&entry.before, known)? {
            found = Some(at + 1);
            break;
        }
    }
    // No entry names it: whatever had begun when it was captured may be in it.
    let begun = |entry: &JournalEntry| moment.is_some_and(|moment| entry.began_unix_ms <= moment);
    let Some(mut next) = found.or_else(|| entries.iter().skip(from).position(begun).map(|at| from + at))
    else {
        return Ok(None);
    };
    // What began later than the one that names it, but before it was captured, ran beside that.
    while next > from && entries.get(next - 1).is_some_and(|entry| !is_rollback(entry) && begun(entry)) {
        next -= 1;
    }
    Ok(Some(next))
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
