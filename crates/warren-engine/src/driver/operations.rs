//! The operations that led from one captured state to the next, as an undo takes them back.
//!
//! ```text
//!   start ◄─ command ─ A ◄─ command ─ B ◄─ rollback to A ─ A' ◄─ background ─ C
//!                                                ▲                          │
//!                                                └──────── undo ────────────┘
//! ```
//!
//! Each state knows the one that the operation before it replaced. What programs in the background
//! wrote by themselves is no operation: it goes with the one before. A state that only has the
//! files of the one before is no step either.

use warren_core::{Action, JournalEntry, SnapshotId, SnapshotRecord};

use super::Driver;
use crate::cell::{Goal, WayBack, head_or_start};
use crate::shown::in_a_line;
use crate::{EngineError, LostEntry};

/// No way back is looked for further than this.
const MOST_STEPS: u32 = 64;

/// One operation, backwards.
pub(super) struct StepBack {
    pub(super) to: SnapshotId,
    /// Entries that are taken back with it because their own states were not kept.
    pub(super) lost: Vec<u64>,
}

impl Driver {
    /// The state before the last operation that led to a state.
    pub(super) async fn step_back(&self, id: &SnapshotId) -> Result<Option<StepBack>, EngineError> {
        let Some(mut here) = self.row(id).await? else { return Ok(None) };
        let origin = here.stack.clone();
        let mut step: Option<StepBack> = None;
        let mut lost = Vec::new();
        // Whether an operation is known to have led to the files of `here`. More than one snapshot
        // may have them.
        let mut is_work = false;
        loop {
            let SnapshotRecord { before, parent, operations, stack, lost: with_it, .. } = here;
            lost.extend(with_it);
            let Some(id) = before.or(parent) else { return Ok(step) };
            let Some(next) = self.row(&id).await? else { return Ok(Some(StepBack { to: id, lost })) };
            if next.stack != origin {
                step = Some(StepBack { to: id, lost: lost.clone() });
            }
            let is_step = next.stack != stack;
            is_work |= operations.map_or(is_step, |count| count > 0);
            if is_step && is_work {
                return Ok(step);
            }
            is_work &= !is_step;
            here = next;
        }
    }

    /// Goes back over so many operations, or as many as there are. Answers where that leads, and
    /// the states that are left. More than was asked for is taken back only if `force` says so.
    pub(super) async fn back_over(
        &self,
        from: SnapshotId,
        steps: u32,
        force: bool,
    ) -> Result<(SnapshotId, Vec<SnapshotId>), EngineError> {
        let (mut here, mut left, mut taken) = (from, Vec::new(), 0_u32);
        while taken < steps {
            let Some(step) = self.step_back(&here).await? else { break };
            taken =
                taken.saturating_add(1).saturating_add(u32::try_from(step.lost.len()).unwrap_or(u32::MAX));
            if taken > steps && !step.lost.is_empty() && !force {
                return Err(self.history_lost(&step.lost).await?);
            }
            left.push(std::mem::replace(&mut here, step.to));
        }
        if left.is_empty() { Err(self.nothing_to("undo")) } else { Ok((here, left)) }
    }

    /// Says what an undo would take back beside what was asked for.
    pub(super) async fn history_lost(&self, numbers: &[u64]) -> Result<EngineError, EngineError> {
        let (owner, id, numbers) = (self.record.owner.clone(), self.record.id.clone(), numbers.to_vec());
        let entries = self.engine.catalog(move |catalog| {
            let mut entries = Vec::new();
            for number in numbers {
                let found = catalog.entries(&owner, &id, Some(number.saturating_add(1)), 1)?;
                entries.extend(found.into_iter().filter(|entry| entry.number == number));
            }
            Ok::<_, EngineError>(entries)
        });
        let entries = entries.await?.into_iter().map(lost_entry).collect();
        Ok(EngineError::HistoryNotKept { id: self.record.id.clone(), entries })
    }

    /// How to come back to what was replaced, if an undo or a redo leads there.
    pub(super) async fn way_back(
        &self,
        goal: &Goal,
        replaced: &SnapshotRecord,
    ) -> Result<Option<WayBack>, EngineError> {
        let redo = &self.record.history.redo;
        if let (Goal::Undo(_), Some(at)) = (goal, redo.iter().position(|state| *state == replaced.id)) {
            return Ok(u32::try_from(redo.len() - at).ok().map(WayBack::Redo));
        }
        let mut here = head_or_start(&self.record);
        for steps in 1..=MOST_STEPS {
            let Some(step) = self.step_back(&here).await? else { return Ok(None) };
            // Another snapshot of the same files will do.
            if self.row(&step.to).await?.is_some_and(|row| row.stack == replaced.stack) {
                return Ok(Some(WayBack::Undo(steps)));
            }
            if matches!(goal, Goal::To(_)) {
                return Ok(None);
            }
            here = step.to;
        }
        Ok(None)
    }
}

fn lost_entry(entry: JournalEntry) -> LostEntry {
    let JournalEntry { number, action, not_kept, .. } = entry;
    let what = in_a_line(&action).unwrap_or_else(|| match action {
        Action::Promote { from, path: Some(path), .. } => format!("the changes of {from} in {path}"),
        Action::Promote { from, path: None, .. } => format!("the changes of {from}"),
        Action::Rollback { .. } => "a rollback".to_owned(),
        Action::Move { from, to } => format!("a move from {from} to {to}"),
        _ => "the end of a turn".to_owned(),
    });
    LostEntry { number, what, reason: not_kept.unwrap_or_default() }
}
