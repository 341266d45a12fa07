//! Rollback, undo and redo.

use std::sync::Arc;
use std::time::Duration;

use warren_core::Field;
use warren_core::catalog::CatalogErrorKind;
use warren_core::{
    Automatic, DenyReason, IsolationErrorKind, LayerErrorKind, SandboxId, SnapshotId, SnapshotReason,
    SnapshotRecord, Status, TemplateName,
};
use warren_engine::{Engine, EngineError, Point, StoppedFiles, WayBack};
use warren_testkit::Call;

use crate::support::*;
use crate::travel::*;

async fn quiet() -> (World, Engine, SandboxId) {
    let mut world = World::new();
    world.settings.automatic_snapshots = Automatic::Off;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    (world, engine, id)
}

async fn head_of(engine: &Engine, id: &SandboxId) -> SnapshotRecord {
    let head = record(engine, id).await.history.head.expect("it has a head");
    engine.of(&owner()).snapshots().get(&head).await.unwrap()
}

fn denied(error: &EngineError) -> Option<DenyReason> {
    match error {
        EngineError::Denied { reason, .. } => Some(*reason),
        _ => None,
    }
}

#[tokio::test]
async fn a_rollback_brings_back_the_files_and_saves_those_it_replaces() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    output(&engine, &id, "write /root/work two").await;
    let rolled = back(&engine, &id, &first).await;
    assert_eq!((rolled.to.id, rolled.safety.reason), (first.clone(), SnapshotReason::Safety));
    assert_eq!((rolled.sandbox.status, status(&engine, &id).await), (Status::Ready, Status::Ready));
    assert_eq!(work(&engine, &id).await, "one");
    let head = head_of(&engine, &id).await;
    assert_eq!((head.reason, head.parent), (SnapshotReason::Rollback, Some(first)));
    assert_eq!(head.before, Some(rolled.safety.id.clone()));
    back(&engine, &id, &rolled.safety.id).await;
    assert_eq!(work(&engine, &id).await, "two");
    let before = head_of(&engine, &id).await.id;
    let again = back(&engine, &id, &rolled.safety.id).await;
    assert_eq!(again.safety.id, before, "nothing had changed");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_rollback_ends_what_runs_and_asks_first_if_somebody_waits_for_it() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    let (working, busy) = (engine.clone(), id.clone());
    let tool = tokio::spawn(async move { exec(&working, &busy, "sleep 1000").await });
    eventually("it runs", async || world.isolation.running(&id) == 1).await;
    let error = engine.of(&owner()).sandbox(&id).history().rollback(&first, false).await.unwrap_err();
    assert_eq!(denied(&error), Some(DenyReason::ToolsInFlight), "{error:?}");
    output(&engine, &id, "write /root/work two").await;
    let rolled = engine.of(&owner()).sandbox(&id).history().rollback(&first, true).await.unwrap();
    assert!(matches!(tool.await.unwrap(), Err(EngineError::SandboxEnded { .. })));
    assert_eq!(world.isolation.running(&id), 0);
    assert_eq!(work(&engine, &id).await, "one");
    back(&engine, &id, &rolled.safety.id).await;
    assert_eq!(work(&engine, &id).await, "two", "what was written before it was forced is saved");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_runs_in_the_background_does_not_stand_in_the_way() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    output(&engine, &id, "write /root/work two").await;
    let rolled = back(&engine, &id, &first).await;
    assert_eq!((work(&engine, &id).await.as_str(), world.isolation.running(&id)), ("one", 0));
    back(&engine, &id, &rolled.safety.id).await;
    assert_eq!(work(&engine, &id).await, "two");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn whoever_comes_during_a_rollback_is_told_so() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    let hold = world.isolation.hold(Call::Halt);
    let (going, which, to) = (engine.clone(), id.clone(), first.clone());
    let rolling =
        tokio::spawn(async move { going.of(&owner()).sandbox(&which).history().rollback(&to, false).await });
    eventually("it is under way", async || world.isolation.held(Call::Halt) == 1).await;
    let answers = [
        exec(&engine, &id, "true").await.map(drop),
        engine.of(&owner()).sandbox(&id).history().rollback(&first, true).await.map(drop),
        engine.of(&owner()).sandbox(&id).history().undo(1, false).await.map(drop),
        engine.of(&owner()).sandbox(&id).pause().await.map(drop),
        engine
            .of(&owner())
            .sandbox(&id)
            .history()
            .take(warren_engine::TakeSnapshot::default())
            .await
            .map(drop),
        engine.of(&owner()).snapshots().fork(&Point::Sandbox(id.clone()), forks(1)).await.map(drop),
    ];
    for answer in answers {
        assert_eq!(denied(&answer.unwrap_err()), Some(DenyReason::RollbackInProgress));
    }
    drop(hold);
    rolling.await.unwrap().unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn whoever_comes_while_it_is_copied_waits_and_nobody_else_copies() {
    let (world, engine, id) = quiet().await;
    output(&engine, &id, "write /root/work one").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    let hold = world.isolation.hold(Call::Thaw);
    let (taking, which) = (engine.clone(), id.clone());
    let copying = tokio::spawn(async move { snap(&taking, &which).await });
    eventually("it is copied", async || world.isolation.held(Call::Thaw) == 1).await;
    let error = engine
        .of(&owner())
        .sandbox(&id)
        .history()
        .take(warren_engine::TakeSnapshot::default())
        .await
        .unwrap_err();
    assert_eq!(denied(&error), Some(DenyReason::SnapshotInProgress), "{error:?}");
    let (working, which) = (engine.clone(), id.clone());
    let waiting = tokio::spawn(async move { exec(&working, &which, "true").await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    drop(hold);
    copying.await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_stopped_sandbox_goes_back_without_running() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    output(&engine, &id, "write /root/work two").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let rolled = back(&engine, &id, &first).await;
    assert_eq!(status(&engine, &id).await, Status::Stopped);
    let taken = snap(&engine, &id).await.snapshot;
    assert_eq!(taken.stack, rolled.to.stack, "its state is the one that it went back to");
    back(&engine, &id, &rolled.safety.id).await;
    back(&engine, &id, &first).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn one_that_rests_for_want_of_work_is_woken_and_one_that_was_paused_is_not() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &id).await, Status::Paused);
    back(&engine, &id, &first).await;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    let error = engine.of(&owner()).sandbox(&id).history().rollback(&first, false).await.unwrap_err();
    assert_eq!(denied(&error), Some(DenyReason::Paused), "{error:?}");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn undo_and_redo_walk_along_the_line() {
    let (world, engine, id) = quiet().await;
    for text in ["one", "two", "three"] {
        write_and_snap(&engine, &id, text).await;
    }
    output(&engine, &id, "write /root/work four").await;
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "three", "what changed since the head is undone first");
    engine.of(&owner()).sandbox(&id).history().undo(2, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "two");
    engine.of(&owner()).sandbox(&id).history().redo(99, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "four", "as far as there is");
    let error = engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap_err();
    assert!(matches!(error, EngineError::NothingToUndo { what: "redo", .. }), "{error:?}");
    let undone = engine.of(&owner()).sandbox(&id).history().undo(99, false).await.unwrap();
    assert_eq!(undone.to.reason, SnapshotReason::Start);
    assert_ne!(exec(&engine, &id, "read /root/work").await.unwrap().exit.code, 0, "it began without it");
    let error = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap_err();
    assert!(matches!(error, EngineError::NothingToUndo { what: "undo", .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_change_forgets_what_could_be_redone() {
    let (_, engine, id) = quiet().await;
    write_and_snap(&engine, &id, "one").await;
    write_and_snap(&engine, &id, "two").await;
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(record(&engine, &id).await.history.redo.len(), 1);
    output(&engine, &id, "write /root/work other").await;
    let error = engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap_err();
    assert!(matches!(error, EngineError::NothingToUndo { what: "redo", .. }), "{error:?}");
    assert_eq!(work(&engine, &id).await, "other");
}

#[tokio::test]
async fn there_is_nothing_to_undo_in_a_fresh_sandbox_and_no_zero_steps() {
    let (world, engine, id) = quiet().await;
    let error = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap_err();
    assert!(matches!(error, EngineError::NothingToUndo { .. }), "{error:?}");
    assert_eq!(world.isolation.calls(Call::Halt), 0, "nothing was ended for that");
    for steps in [0, 10_001] {
        let error = engine.of(&owner()).sandbox(&id).history().undo(steps, false).await.unwrap_err();
        assert!(matches!(error, EngineError::Invalid { .. }), "{error:?}");
    }
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    let error = engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap_err();
    assert!(matches!(error, EngineError::NothingToUndo { .. }), "{error:?}");
    assert_eq!(world.isolation.running(&id), 1);
}

#[tokio::test]
async fn a_rollback_is_taken_back_by_an_undo_and_done_again_by_a_redo() {
    let (_, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    output(&engine, &id, "write /root/work two").await;
    let rolled = back(&engine, &id, &first).await;
    assert_eq!(rolled.back, Some(WayBack::Undo(1)));
    // Nothing changed since, so that this is still the last operation.
    output(&engine, &id, "read /root/work").await;
    let undone = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!((undone.to.id, undone.back), (rolled.safety.id, Some(WayBack::Redo(1))));
    assert_eq!(work(&engine, &id).await, "two");
    engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
}

#[tokio::test]
async fn a_goal_that_is_not_there_ends_nothing() {
    let (world, engine, id) = quiet().await;
    write_and_snap(&engine, &id, "one").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    let nowhere = SnapshotId::from_random([3; 16]);
    let error = engine.of(&owner()).sandbox(&id).history().rollback(&nowhere, false).await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
    let mut request = acquire();
    world.templates.add("other", None);
    request.sandbox.spec.template = "other".parse::<TemplateName>().unwrap();
    let other = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    let foreign = snap(&engine, &other).await.snapshot.id;
    let error = engine.of(&owner()).sandbox(&id).history().rollback(&foreign, false).await.unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field: Field::Snapshot, .. }), "{error:?}");
    assert_eq!(world.isolation.running(&id), 1, "it runs on");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn one_that_cannot_be_started_again_is_stopped_with_the_other_files() {
    let (world, engine, id) = quiet().await;
    let first = write_and_snap(&engine, &id, "one").await;
    output(&engine, &id, "write /root/work two").await;
    world.isolation.fail_next(Call::Create, IsolationErrorKind::Host);
    let error = engine.of(&owner()).sandbox(&id).history().rollback(&first, false).await.unwrap_err();
    assert!(matches!(error, EngineError::StartFailed { .. }), "{error:?}");
    let stopped = record(&engine, &id).await;
    assert!(stopped.status == Status::Stopped && stopped.files_kept(), "{stopped:?}");
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn whatever_fails_on_the_way_the_sandbox_has_one_state_or_the_other() {
    for busy in [false, true] {
        for fault in 0..8 {
            let (world, engine, id) = quiet().await;
            let first = write_and_snap(&engine, &id, "one").await;
            output(&engine, &id, "write /root/work two").await;
            if busy {
                engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
            }
            match fault {
                0 => world.isolation.fail_next(Call::Seal, IsolationErrorKind::Host),
                1 => world.isolation.fail_next(Call::Halt, IsolationErrorKind::Host),
                2 => world.isolation.fail_next(Call::Create, IsolationErrorKind::Host),
                3 => world.isolation.layers().fail_next("commit", LayerErrorKind::Full),
                4 => world.catalog.fail_next_call("record_snapshots", CatalogErrorKind::Full),
                5 => world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Full),
                6 => world.isolation.fail_next(Call::Clear, IsolationErrorKind::Host),
                _ => world.isolation.fail_next(Call::Watch, IsolationErrorKind::Host),
            }
            let failed = engine.of(&owner()).sandbox(&id).history().rollback(&first, false).await;
            world.isolation.forgive();
            world.isolation.layers().forgive();
            world.catalog.forgive();
            assert!(failed.is_err(), "fault {fault}, busy {busy}");
            engine.sweep().await;
            let moved = head_of(&engine, &id).await.reason == SnapshotReason::Rollback;
            engine.of(&owner()).sandbox(&id).resume().await.unwrap();
            let expected = if moved { "one" } else { "two" };
            assert_eq!(work(&engine, &id).await, expected, "fault {fault}, busy {busy}");
            assert_consistent(&world, &engine).await;
        }
    }
}

#[tokio::test]
async fn what_cannot_be_moved_is_copied_and_cleared() {
    let (world, engine, id) = quiet().await;
    world.isolation.set_unmovable(true);
    let first = write_and_snap(&engine, &id, "one").await;
    output(&engine, &id, "write /root/work two").await;
    let rolled = back(&engine, &id, &first).await;
    assert_eq!(work(&engine, &id).await, "one");
    back(&engine, &id, &rolled.safety.id).await;
    assert_eq!(work(&engine, &id).await, "two");
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    back(&engine, &id, &first).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_pause_waits_for_those_who_work_and_not_for_those_who_look_on() {
    let (world, engine, id) = quiet().await;
    let (working, busy) = (engine.clone(), id.clone());
    let tool = tokio::spawn(async move { exec(&working, &busy, "sleep 1").await });
    eventually("it runs", async || world.isolation.running(&id) == 1 || tool.is_finished()).await;
    engine.of(&owner()).sandbox(&id).pause_after(PATIENCE).await.unwrap();
    assert_eq!(tool.await.unwrap().unwrap().exit.code, 0, "it was let finish");
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    let running = engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    let selector = warren_wire::guest::ProcessSelector::Id(running.process);
    let reader = warren_wire::guest::Reader::Skips;
    let follower = engine.of(&owner()).sandbox(&id).processes().follow(selector, 0, reader).await.unwrap();
    let began = std::time::Instant::now();
    engine.of(&owner()).sandbox(&id).pause_after(PATIENCE).await.unwrap();
    assert!(began.elapsed() < PATIENCE / 2, "a follower is not waited for");
    drop(follower);
    let engine = Arc::new(engine);
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    let (working, busy) = (engine.clone(), id.clone());
    let tool = tokio::spawn(async move { exec(&working, &busy, "sleep 1000").await });
    eventually("it runs", async || world.isolation.running(&id) == 2).await;
    engine.of(&owner()).sandbox(&id).pause_after(Duration::from_millis(20)).await.unwrap();
    assert_eq!(status(&engine, &id).await, Status::Paused, "it is not waited for forever");
    tool.abort();
}
