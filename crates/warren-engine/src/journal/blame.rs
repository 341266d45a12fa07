//! Which commands last changed a path.

use std::collections::HashSet;

use warren_core::{Action, JournalEntry, SnapshotId};

use crate::EngineError;

/// What is known of captured states.
pub(super) trait Knowledge {
    /// Whether a state can still be looked at.
    fn has(&mut self, id: &SnapshotId) -> Result<bool, EngineError>;

    /// Whether two states are the same.
    fn same(&mut self, one: &SnapshotId, other: &SnapshotId) -> Result<bool, EngineError>;

    /// When the sandbox was in a state; `None` if that is not known, or it never was.
    fn moment(&mut self, id: &SnapshotId) -> Result<Option<u64>, EngineError>;

    /// Whether the path in question differs between two states.
    fn differs(&mut self, from: &SnapshotId, to: &SnapshotId) -> Result<bool, EngineError>;
}

/// The states between which an entry did what it did, as closely as they are known.
type Span = (SnapshotId, Option<SnapshotId>);

/// The newest of the entries that changed the path, with those that cannot be told from it. `entries` has the newest first;
/// `start` is what the sandbox began with, `now` the state it is in, if that is captured.
pub(super) fn blame(
    entries: &[JournalEntry],
    start: &SnapshotId,
    now: Option<&SnapshotId>,
    known: &mut dyn Knowledge,
) -> Result<Vec<JournalEntry>, EngineError> {
    let spans = spans(entries, start, now, known)?;
    let mut looked_at = HashSet::new();
    let mut at = 0;
    while let Some((entry, (before, after))) = entries.get(at).zip(spans.get(at)) {
        if let Action::Rollback { to } = &entry.action {
            // What came between is undone: the sandbox is what it was then.
            let Some(next) = resume_at(entries, at + 1, to, known)? else { return Ok(Vec::new()) };
            at = next;
            continue;
        }
        if let Some(after) = after
            && looked_at.insert((before.clone(), after.clone()))
            && known.differs(before, after)?
        {
            return culprits(entries, &spans, at, known);
        }
        at += 1;
    }
    Ok(Vec::new())
}

/// Those whose span ends where this one's does and has the change in it, too.
fn culprits(
    entries: &[JournalEntry],
    spans: &[Span],
    found: usize,
    known: &mut dyn Knowledge,
) -> Result<Vec<JournalEntry>, EngineError> {
    let Some((_, Some(after))) = spans.get(found) else { return Ok(Vec::new()) };
    let mut culprits = Vec::new();
    for (entry, (before, its_after)) in entries.iter().zip(spans).skip(found) {
        if matches!(entry.action, Action::Rollback { .. }) {
            break;
        }
        if its_after.as_ref() == Some(after) && known.differs(before, after)? {
            culprits.push(entry.clone());
        }
    }
    // The end of a turn only names what others did, if there were any.
    if culprits.iter().any(|entry| entry.action != Action::Turn) {
        culprits.retain(|entry| entry.action != Action::Turn);
    }
    Ok(culprits)
}

/// The newest entry, from `from` on, that led to a state.
fn resume_at(
    entries: &[JournalEntry],
    from: usize,
    to: &SnapshotId,
    known: &mut dyn Knowledge,
) -> Result<Option<usize>, EngineError> {
    for (at, entry) in entries.iter().enumerate().skip(from) {
        let is = |state: &Option<SnapshotId>, known: &mut dyn Knowledge| match state {
            Some(state) => Ok::<_, EngineError>(state == to || known.same(state, to)?),
            None => Ok(false),
        };
        if is(&entry.after, known)? {
            return Ok(Some(at));
        }
        if is(&entry.before, known)? {
            return Ok(Some(at + 1));
        }
    }
    // No entry names it: whatever was over when it was captured is in it.
    let Some(moment) = known.moment(to)? else { return Ok(None) };
    let over = |entry: &JournalEntry| entry.ended_unix_ms.is_some_and(|ended| ended <= moment);
    Ok(entries.iter().enumerate().skip(from).find(|(_, entry)| over(entry)).map(|(at, _)| at))
}

fn spans(
    entries: &[JournalEntry],
    start: &SnapshotId,
    now: Option<&SnapshotId>,
    known: &mut dyn Knowledge,
) -> Result<Vec<Span>, EngineError> {
    let mut states = Vec::with_capacity(entries.len());
    for entry in entries {
        states.push((usable(entry.before.as_ref(), known)?, usable(entry.after.as_ref(), known)?));
    }
    let span = |at: usize| {
        let before = state_before(entries, &states, at).unwrap_or(start).clone();
        let after = state_after(entries, &states, at).or(now).cloned();
        (before, after)
    };
    Ok((0..entries.len()).map(span).collect())
}

/// A state that can be looked at, and when the sandbox was in it.
type Captured = Option<(SnapshotId, Option<u64>)>;

fn usable(id: Option<&SnapshotId>, known: &mut dyn Knowledge) -> Result<Captured, EngineError> {
    match id {
        Some(id) if known.has(id)? => Ok(Some((id.clone(), known.moment(id)?))),
        _ => Ok(None),
    }
}

/// The last state that is known to come before an entry.
fn state_before<'a>(
    entries: &[JournalEntry],
    states: &'a [(Captured, Captured)],
    at: usize,
) -> Option<&'a SnapshotId> {
    let began = entries.get(at)?.began_unix_ms;
    let own = states.get(at)?.0.as_ref().map(|(id, _)| id);
    own.or_else(|| {
        let older = states.iter().skip(at + 1).flat_map(|(before, after)| [after, before]);
        older.flatten().find(|(_, moment)| moment.is_some_and(|moment| moment <= began)).map(|(id, _)| id)
    })
}

/// The first state that is known to come after an entry.
fn state_after<'a>(
    entries: &[JournalEntry],
    states: &'a [(Captured, Captured)],
    at: usize,
) -> Option<&'a SnapshotId> {
    let ended = entries.get(at)?.ended_unix_ms?;
    let own = states.get(at)?.1.as_ref().map(|(id, _)| id);
    own.or_else(|| {
        let newer = states.iter().take(at).rev().flat_map(|(before, after)| [before, after]);
        newer.flatten().find(|(_, moment)| moment.is_some_and(|moment| moment >= ended)).map(|(id, _)| id)
    })
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
