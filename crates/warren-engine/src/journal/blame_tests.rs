use warren_core::{Owner, SandboxId};

use super::*;

/// States by number; the value of the path in each. A number that is not there is a state that is
/// gone.
struct World(Vec<(u8, &'static str)>);

fn state(number: u8) -> SnapshotId {
    SnapshotId::from_random([number; 16])
}

impl World {
    fn value(&self, id: &SnapshotId) -> Option<&'static str> {
        self.0.iter().find(|(number, _)| state(*number) == *id).map(|(_, value)| *value)
    }
}

impl Knowledge for World {
    fn has(&mut self, id: &SnapshotId) -> Result<bool, EngineError> {
        Ok(self.value(id).is_some())
    }

    fn same(&mut self, one: &SnapshotId, other: &SnapshotId) -> Result<bool, EngineError> {
        Ok(one == other)
    }

    fn moment(&mut self, id: &SnapshotId) -> Result<Option<u64>, EngineError> {
        let number = self.0.iter().find(|(number, _)| state(*number) == *id);
        Ok(number.map(|(number, _)| u64::from(*number) * 10))
    }

    fn differs(&mut self, from: &SnapshotId, to: &SnapshotId) -> Result<bool, EngineError> {
        Ok(self.value(from) != self.value(to))
    }

    fn exists(&mut self, id: &SnapshotId) -> Result<bool, EngineError> {
        Ok(self.value(id).is_some_and(|value| !value.is_empty()))
    }
}

fn entry(number: u64, action: Action, before: Option<u8>, after: Option<u8>) -> JournalEntry {
    JournalEntry {
        number,
        owner: Owner::first(),
        sandbox: SandboxId::from_random([1; 16]),
        session: None,
        turn: 1,
        action,
        by: "tests".to_owned(),
        began_unix_ms: number * 10,
        ended_unix_ms: Some(number * 10 + 5),
        outcome: None,
        before: before.map(state),
        after: after.map(state),
        not_kept: None,
    }
}

fn exec(number: u64, before: Option<u8>, after: Option<u8>) -> JournalEntry {
    entry(number, Action::Exec { command: "x".to_owned(), process: None }, before, after)
}

fn back(number: u64, from: u8, to: u8) -> JournalEntry {
    entry(number, Action::Rollback { to: state(to) }, Some(from), Some(to))
}

/// The numbers of those to blame, of entries told from the oldest to the newest.
fn blamed(entries: &[JournalEntry], now: Option<u8>, world: &[(u8, &'static str)]) -> Vec<u64> {
    judged(entries, now, world).0
}

fn judged(entries: &[JournalEntry], now: Option<u8>, world: &[(u8, &'static str)]) -> (Vec<u64>, PathState) {
    let newest_first: Vec<_> = entries.iter().rev().cloned().collect();
    let now = now.map(state);
    let found = blame(&newest_first, &state(0), now.as_ref(), &mut World(world.to_vec())).unwrap();
    (found.entries.iter().map(|entry| entry.number).collect(), found.state)
}

/// One that began with a state and goes on.
fn running(number: u64, before: u8) -> JournalEntry {
    JournalEntry { ended_unix_ms: None, ..exec(number, Some(before), None) }
}

#[test]
fn the_last_command_that_changed_the_path_is_named() {
    let entries = [exec(1, Some(0), Some(1)), exec(2, Some(1), Some(2)), exec(3, Some(2), Some(3))];
    let world = [(0, ""), (1, "a"), (2, "b"), (3, "b")];
    assert_eq!(blamed(&entries, Some(3), &world), [2]);
}

#[test]
fn a_path_that_nobody_changed_is_nobodys() {
    let entries = [exec(1, Some(0), Some(1))];
    assert_eq!(blamed(&entries, Some(1), &[(0, "a"), (1, "a")]), [0u64; 0]);
}

#[test]
fn commands_that_overlap_are_named_together() {
    let mut long = exec(1, Some(0), Some(4));
    long.ended_unix_ms = Some(40);
    let entries = [long, exec(2, None, Some(4)), exec(5, Some(4), Some(5))];
    let world = [(0, ""), (4, "a"), (5, "a")];
    assert_eq!(blamed(&entries, Some(5), &world), [2, 1]);
}

#[test]
fn commands_whose_states_are_gone_are_named_with_their_neighbours() {
    let entries = [exec(1, Some(0), Some(1)), exec(2, Some(1), Some(2)), exec(3, Some(2), Some(3))];
    let world = [(0, ""), (3, "a")];
    assert_eq!(blamed(&entries, Some(3), &world), [3, 2, 1]);
}

#[test]
fn what_was_undone_is_not_blamed() {
    let entries =
        [exec(1, Some(0), Some(1)), exec(2, Some(1), Some(2)), back(3, 2, 1), exec(4, Some(1), Some(4))];
    let world = [(0, ""), (1, "a"), (2, "b"), (4, "a")];
    assert_eq!(blamed(&entries, Some(4), &world), [1]);
}

#[test]
fn what_was_undone_and_redone_is_blamed() {
    let entries = [exec(1, Some(0), Some(1)), exec(2, Some(1), Some(2)), back(3, 2, 1), back(4, 1, 2)];
    let world = [(0, ""), (1, "a"), (2, "b")];
    assert_eq!(blamed(&entries, Some(2), &world), [2]);
}

#[test]
fn a_way_back_to_the_beginning_leaves_nobody_to_blame() {
    let entries = [exec(1, Some(0), Some(1)), back(2, 1, 0)];
    assert_eq!(blamed(&entries, Some(0), &[(0, ""), (1, "a")]), [0u64; 0]);
}

#[test]
fn a_way_back_to_a_state_that_no_entry_names_goes_by_its_time() {
    let entries = [exec(1, Some(0), Some(1)), exec(2, Some(1), Some(5)), back(6, 5, 2)];
    // The state 2 was captured at 20: after the first had ended, before the second did.
    let world = [(0, ""), (1, "a"), (2, "a"), (5, "b")];
    assert_eq!(blamed(&entries, Some(2), &world), [1]);
}

#[test]
fn the_commands_of_a_turn_are_named_where_only_turns_are_captured() {
    let turn = entry(3, Action::Turn, Some(0), Some(3));
    let entries = [exec(1, None, Some(3)), exec(2, None, Some(3)), turn.clone()];
    let world = [(0, ""), (3, "a")];
    assert_eq!(blamed(&entries, Some(3), &world), [2, 1]);
    assert_eq!(blamed(&[turn], Some(3), &world), [3]);
}

#[test]
fn a_command_that_goes_on_is_judged_by_the_state_of_now() {
    let mut running = exec(2, Some(1), None);
    running.ended_unix_ms = None;
    let entries = [exec(1, Some(0), Some(1)), running, exec(3, None, None)];
    let world = [(0, ""), (1, "a"), (9, "b")];
    assert_eq!(blamed(&entries, Some(9), &world), [3, 2]);
    assert_eq!(blamed(&entries, None, &world), [1], "what is not captured is not judged");
}

#[test]
fn a_process_that_goes_on_is_named_with_the_command_it_overlapped() {
    let entries = [running(1, 0), exec(2, Some(1), Some(2)), exec(3, Some(2), Some(3))];
    let world = [(0, "a"), (1, "a"), (2, "b"), (3, "b")];
    assert_eq!(blamed(&entries, Some(3), &world), [2, 1], "either may have done it");
}

#[test]
fn what_a_process_wrote_between_commands_is_its_own() {
    let entries = [running(1, 0), exec(2, Some(1), Some(2)), exec(5, Some(4), Some(5))];
    let world = [(0, ""), (1, ""), (2, "a"), (4, "b"), (5, "b")];
    assert_eq!(blamed(&entries, Some(5), &world), [1], "the later change, and not that of entry 2");
}

#[test]
fn a_long_command_that_has_ended_is_named_for_what_changed_during_it() {
    let long = JournalEntry { ended_unix_ms: Some(45), ..exec(1, Some(0), Some(5)) };
    let entries = [long, exec(2, Some(1), Some(2)), exec(3, Some(2), Some(3)), exec(6, Some(5), Some(6))];
    let world = [(0, ""), (1, ""), (2, "a"), (3, "a"), (5, "a"), (6, "a")];
    assert_eq!(blamed(&entries, Some(6), &world), [2, 1]);
}

#[test]
fn a_process_that_ran_when_the_sandbox_went_back_is_blamed_for_what_came_along() {
    let ended = JournalEntry { ended_unix_ms: Some(58), ..exec(1, Some(0), Some(6)) };
    let entries = [ended, exec(2, Some(1), Some(2)), exec(4, Some(2), Some(5)), back(6, 5, 2)];
    let world = [(0, ""), (1, ""), (2, "a"), (5, "b"), (6, "b")];
    assert_eq!(blamed(&entries, Some(2), &world), [2, 1], "and not for what was undone");
}

#[test]
fn a_change_that_nobody_who_is_known_was_there_for_is_nobodys() {
    let entries = [exec(1, Some(0), Some(1)), exec(5, Some(4), Some(5))];
    let world = [(0, ""), (1, "a"), (4, "b"), (5, "b")];
    assert_eq!(judged(&entries, Some(5), &world), (vec![], PathState::Changed));
}

#[test]
fn there_are_four_things_to_say_of_a_path() {
    let entries = [exec(1, Some(0), Some(1)), exec(2, Some(1), Some(2))];
    let judged = |values: [&'static str; 3]| {
        let world: Vec<_> = (0..).zip(values).collect();
        judged(&entries, Some(2), &world)
    };
    assert_eq!(judged(["", "a", "b"]), (vec![2], PathState::Changed));
    assert_eq!(judged(["a", "a", "a"]), (vec![], PathState::AsItBegan));
    assert_eq!(judged(["a", "a", ""]), (vec![2], PathState::Removed));
    assert_eq!(judged(["", "a", ""]), (vec![2], PathState::Removed));
    assert_eq!(judged(["", "", ""]), (vec![], PathState::NeverThere));
}

#[test]
fn what_was_undone_was_never_there() {
    let entries = [exec(1, Some(0), Some(1)), back(2, 1, 0)];
    assert_eq!(judged(&entries, Some(0), &[(0, ""), (1, "a")]), (vec![], PathState::NeverThere));
    assert_eq!(judged(&entries, Some(0), &[(0, "b"), (1, "")]), (vec![], PathState::AsItBegan));
}
