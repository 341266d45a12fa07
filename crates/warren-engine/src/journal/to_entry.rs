//! The state that an entry of the journal left, for those who name it by its number.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use warren_core::{JournalEntry, SnapshotId};

use super::SandboxHistory;
use crate::EngineError;
use crate::error::Field;

/// How long a state may take that is just being captured.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// Entries after the named one that are looked at for the state before them. Those that only look
/// at files have none.
const LOOKED_AT: u32 = 100;

impl SandboxHistory {
    /// The state of the sandbox once the entry of this number was over; 0 is its beginning. It is
    /// what the next entry began with, or else what is captured of it in a moment.
    pub async fn state_after(&self, number: u64) -> Result<SnapshotId, EngineError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let around = self.around(number).await?;
            if let Some(state) = next_began_with(&around, number) {
                return Ok(state);
            }
            match around.iter().find(|entry| entry.number == number) {
                None => return Err(no_entry(number)),
                Some(JournalEntry { after: Some(state), not_kept: None, .. }) => return Ok(state.clone()),
                Some(JournalEntry { not_kept: Some(why), .. }) => return Err(not_kept(number, why)),
                Some(entry) if entry.ended_unix_ms.is_none() || Instant::now() >= until => {
                    let what = format!("the state after entry {number}, which is not captured yet");
                    return Err(EngineError::TimedOut { what, seconds: PATIENCE.as_secs() });
                }
                Some(_) => sleep(PAUSE).await,
            }
        }
    }

    /// The entry and those after it, the newest first.
    async fn around(&self, number: u64) -> Result<Vec<JournalEntry>, EngineError> {
        let before = number.saturating_add(u64::from(LOOKED_AT));
        let entries = self.log(Some(before), LOOKED_AT, false).await?;
        Ok(entries.into_iter().map(|told| told.entry).filter(|entry| entry.number >= number).collect())
    }
}

/// The state before the first entry that came later and knows it.
fn next_began_with(entries: &[JournalEntry], number: u64) -> Option<SnapshotId> {
    let later = entries.iter().rev().filter(|entry| entry.number > number);
    later.clone().find_map(|entry| entry.before.clone())
}

fn no_entry(number: u64) -> EngineError {
    EngineError::invalid(Field::Snapshot, format!("the journal has no entry {number}"))
}

fn not_kept(number: u64, why: &str) -> EngineError {
    EngineError::invalid(Field::Snapshot, format!("the state after entry {number} was not kept: {why}"))
}

#[cfg(test)]
mod tests {
    use warren_core::{Action, Owner, SandboxId};

    use super::*;

    fn entry(number: u64, before: Option<u8>) -> JournalEntry {
        JournalEntry {
            number,
            owner: Owner::first(),
            sandbox: SandboxId::from_random([1; 16]),
            session: None,
            turn: 1,
            action: Action::Turn,
            by: "test".to_owned(),
            began_unix_ms: 0,
            ended_unix_ms: Some(1),
            outcome: None,
            before: before.map(|byte| SnapshotId::from_random([byte; 16])),
            after: None,
            not_kept: None,
        }
    }

    #[test]
    fn the_state_is_what_the_next_entry_that_knows_it_began_with() {
        let newest_first = [entry(5, Some(5)), entry(4, None), entry(3, Some(3))];
        let state = |number| next_began_with(&newest_first, number);
        assert_eq!(state(2), Some(SnapshotId::from_random([3; 16])));
        assert_eq!(state(3), Some(SnapshotId::from_random([5; 16])), "entry 4 only looked");
        assert_eq!(state(5), None);
    }
}
