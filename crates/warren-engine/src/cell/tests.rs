use warren_testkit::{FakeIsolation, sample_sandbox};

use super::*;
use crate::bounds::HeavyWorkLimits;

fn cell(status: Status) -> Arc<Cell> {
    let record = SandboxRecord { status, ..sample_sandbox(&Owner::first(), 1) };
    let backend = Backend::new(FakeIsolation::new(), 1, &HeavyWorkLimits::default(), &Arc::default());
    Cell::new(record, backend, 100).0
}

#[test]
fn a_call_inside_keeps_the_sandbox_from_resting() {
    let cell = cell(Status::Ready);
    let Leave::Granted(life) = cell.ask_leave(Request::Execute, 200) else { panic!("it is ready") };
    assert!(!cell.close_if_unused(1000));
    life.go_out(300);
    assert!(!cell.close_if_unused(299), "somebody came by after that");
    assert!(cell.close_if_unused(300));
    assert!(matches!(cell.ask_leave(Request::Execute, 400), Leave::ThawFirst));
}

#[test]
fn a_sandbox_that_was_told_to_pause_is_not_thawed_by_work() {
    let cell = cell(Status::Ready);
    cell.close(Closing::Pause(PausedBy::Request));
    let leave = cell.ask_leave(Request::ReadFiles, 200);
    assert!(matches!(leave, Leave::Denied(Status::Paused, DenyReason::Paused)), "{leave:?}");
}

#[test]
fn a_rollback_keeps_everybody_else_out() {
    let cell = cell(Status::Ready);
    let alone = cell.occupy(false).unwrap();
    let leave = cell.ask_leave(Request::Execute, 200);
    assert!(matches!(leave, Leave::Denied(_, DenyReason::RollbackInProgress)), "{leave:?}");
    assert_eq!(cell.occupied(Request::Pause), Some(DenyReason::RollbackInProgress));
    assert!(matches!(cell.occupy(true), Err((_, DenyReason::RollbackInProgress))));
    drop(alone);
    let Leave::Granted(life) = cell.ask_leave(Request::Execute, 200) else { panic!("it is free") };
    assert!(matches!(cell.occupy(false), Err((_, DenyReason::ToolsInFlight))));
    assert!(cell.occupy(true).is_ok());
    life.step_aside();
    assert!(cell.occupy(false).is_ok(), "an onlooker does not count");
}

#[tokio::test]
async fn a_call_waits_while_the_sandbox_is_copied() {
    let cell = cell(Status::Ready);
    cell.begin_copy();
    let Leave::Wait(mut moved) = cell.ask_leave(Request::Execute, 200) else { panic!("it is copied") };
    assert_eq!(cell.occupied(Request::Snapshot), Some(DenyReason::SnapshotInProgress));
    cell.end_copy();
    moved.changed().await.unwrap();
    assert!(matches!(cell.ask_leave(Request::Execute, 200), Leave::Granted(_)));
}

#[test]
fn a_copy_that_ends_does_not_let_anybody_into_a_sandbox_that_goes_back() {
    let cell = cell(Status::Ready);
    let alone = cell.occupy(false).unwrap();
    cell.begin_copy();
    cell.end_copy();
    assert_eq!(cell.occupied(Request::Pause), Some(DenyReason::RollbackInProgress));
    assert!(!cell.close_if_unused(u64::MAX), "a sandbox that goes back does not rest");
    drop(alone);
    assert!(cell.close_if_unused(u64::MAX));
}

#[test]
fn a_gate_that_was_closed_ahead_follows_the_record_again() {
    let cell = cell(Status::Ready);
    cell.close(Closing::End);
    let leave = cell.ask_leave(Request::Execute, 200);
    assert!(matches!(leave, Leave::Denied(Status::Stopping, DenyReason::Stopping)), "{leave:?}");
    cell.reopen();
    assert!(matches!(cell.ask_leave(Request::Execute, 200), Leave::Granted(_)));
}

#[test]
fn a_change_while_the_state_is_captured_is_not_taken_for_captured() {
    let cell = cell(Status::Ready);
    assert!(!cell.is_changed());
    cell.mark_changed();
    let before = cell.changes();
    cell.mark_changed();
    cell.set_captured(before);
    assert!(cell.is_changed());
    cell.set_captured(cell.changes());
    assert!(!cell.is_changed());
}

#[tokio::test]
async fn who_was_inside_an_earlier_life_has_no_part_in_the_next() {
    let cell = cell(Status::Ready);
    let Leave::Granted(earlier) = cell.ask_leave(Request::Execute, 200) else { panic!("it is ready") };
    earlier.end("it was stopped");
    cell.begin_life(300);
    assert_eq!(&*earlier.until_end().await, "it was stopped");
    earlier.go_out(400);
    assert_eq!((cell.life().inside(), cell.life().ended()), (0, None));
}
