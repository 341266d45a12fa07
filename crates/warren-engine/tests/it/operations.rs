//! Undo and redo of operations, also while programs run in the sandbox, and what becomes of states
//! that cannot be kept.

mod model;

use std::os::unix::net::UnixStream;
use std::time::Duration;

use futures_util::StreamExt as _;
use warren_core::{
    ByteSize, CopyBound, Event, Isolation, LayerDriver, SandboxId, SnapshotMethod, SnapshotReason,
};
use warren_engine::{Engine, EngineError, LogEntry, WayBack};
use warren_wire::guest::{Connection, Request, Start};

use crate::support::*;
use crate::travel::*;

/// A sandbox in which a program runs in the background.
async fn busy() -> (World, Engine, SandboxId) {
    busy_in(World::new()).await
}

async fn busy_in(world: World) -> (World, Engine, SandboxId) {
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    (world, engine, id)
}

/// A program in the background writes a file.
fn drift(world: &World, id: &SandboxId, path: &str, text: &str) {
    let stream = UnixStream::from(world.isolation.dial(id).unwrap());
    let argv = ["write", path, text].map(Into::into).to_vec();
    Connection::ask(stream, &Request::Start(Start { argv, ..Start::default() })).unwrap();
}

async fn write(engine: &Engine, id: &SandboxId, text: &str) {
    output(engine, id, &format!("write /root/work {text}")).await;
}

async fn log(engine: &Engine, id: &SandboxId) -> Vec<LogEntry> {
    engine.of(&owner()).sandbox(id).history().log(None, 100, true).await.unwrap()
}

#[tokio::test]
async fn what_was_done_beside_a_program_in_the_background_is_undone_one_by_one() {
    let (world, engine, id) = busy().await;
    for text in ["one", "two", "three"] {
        write(&engine, &id, text).await;
    }
    let undone = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "two");
    let ended: Vec<_> = undone.ended.iter().map(|process| process.command.as_str()).collect();
    assert_eq!(ended, ["sleep 1000"], "and it says what ended");
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    engine.of(&owner()).sandbox(&id).history().redo(2, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "three");
    let copied = snapshots_of(&engine, &owner(), &id).await;
    assert!(copied.iter().any(|row| row.method == SnapshotMethod::Copied), "they were taken while it ran");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn copies_of_a_busy_sandbox_hold_what_changed_and_stand_on_one_another() {
    let (world, engine, id) = busy().await;
    for number in 0..5 {
        world.clock.advance_ms(1);
        output(&engine, &id, &format!("write /root/{number} text")).await;
        eventually("it is captured", async || {
            log(&engine, &id).await.iter().filter(|log| log.entry.after.is_some()).count() == number + 1
        })
        .await;
    }
    let newest = snapshots_of(&engine, &owner(), &id).await.remove(0);
    assert_eq!(newest.stack.depth(), 5);
    let sandbox = record(&engine, &id).await;
    assert_eq!(sandbox.history.stack.depth(), 0, "the sandbox itself stands where it did");
    let layers = world.isolation.layers();
    let holds = |path: &str| layers.file(&newest.stack.0[0], path).is_some();
    assert!(holds("/root/4") && !holds("/root/3"));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_command_that_changes_nothing_is_no_step() {
    for driver in [LayerDriver::Overlay, LayerDriver::Reflink, LayerDriver::Btrfs] {
        let world = World::new();
        world.isolation.layers().set_driver(driver);
        let (world, engine, id) = busy_in(world).await;
        write(&engine, &id, "one").await;
        write(&engine, &id, "two").await;
        output(&engine, &id, "read /root/work").await;
        engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
        assert_eq!(work(&engine, &id).await, "one", "{driver:?}");
        output(&engine, &id, "read /root/work").await;
        engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap();
        assert_eq!(work(&engine, &id).await, "two", "{driver:?}: it can still be redone");
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn a_state_that_was_copied_is_not_taken_for_another_once_it_is_sealed() {
    let (world, engine, id) = busy().await;
    write(&engine, &id, "one").await;
    write(&engine, &id, "two").await;
    let sleeper = engine.of(&owner()).sandbox(&id).processes().list().await.unwrap().remove(0).process;
    let sleeper = warren_wire::guest::ProcessSelector::Id(sleeper);
    engine.of(&owner()).sandbox(&id).processes().signal(sleeper, 9, false).await.unwrap();
    eventually("nothing runs", async || world.isolation.running(&id) == 0).await;
    output(&engine, &id, "read /root/work").await;
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_operation_in_the_midst_of_which_a_snapshot_was_taken_is_undone_alone() {
    for last in ["", "more"] {
        let (world, engine, id) = busy().await;
        write(&engine, &id, "one").await;
        eventually("it is captured", async || log(&engine, &id).await[0].entry.after.is_some()).await;
        world.clock.advance_ms(10);
        let long = engine.of(&owner()).sandbox(&id).spawn(program("sleep 2000")).await.unwrap();
        drift(&world, &id, "/root/work", "two");
        world.clock.advance_ms(10);
        snap(&engine, &id).await;
        world.clock.advance_ms(10);
        let process = warren_wire::guest::ProcessSelector::Id(long.process);
        engine.of(&owner()).sandbox(&id).processes().signal(process, 9, false).await.unwrap();
        eventually("its end is seen", async || log(&engine, &id).await[0].entry.after.is_some()).await;
        // One that changes nothing is no operation of its own.
        output(&engine, &id, "read /root/work").await;
        if !last.is_empty() {
            write(&engine, &id, last).await;
            engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
            assert_eq!(work(&engine, &id).await, "two");
        }
        engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
        assert_eq!(work(&engine, &id).await, "one");
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn what_a_program_wrote_by_itself_goes_with_the_operation_before() {
    let (world, engine, id) = busy().await;
    write(&engine, &id, "one").await;
    write(&engine, &id, "two").await;
    eventually("both are captured", async || {
        log(&engine, &id).await.iter().filter(|log| log.entry.after.is_some()).count() == 2
    })
    .await;
    drift(&world, &id, "/root/by-itself", "x");
    let undone = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(undone.safety.operations, Some(0));
    assert_eq!(work(&engine, &id).await, "one");
    assert_eq!(undone.back, Some(WayBack::Redo(1)));
    engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/by-itself").await, "x", "and comes back with it");
    assert_eq!(work(&engine, &id).await, "two");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_only_a_program_by_itself_wrote_can_be_undone() {
    let (world, engine, id) = busy().await;
    drift(&world, &id, "/root/by-itself", "x");
    let undone = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(undone.to.reason, SnapshotReason::Start);
    assert_ne!(exec(&engine, &id, "read /root/by-itself").await.unwrap().exit.code, 0);
}

/// A world in which nothing can be captured while programs run.
fn without_copies() -> World {
    let mut world = World::new();
    world.settings.copy_bound = CopyBound { entries: 0, ..CopyBound::default() };
    world
}

#[tokio::test]
async fn a_state_that_was_not_kept_is_marked_and_told_and_never_skipped_in_silence() {
    let (world, engine, id) = busy_in(without_copies()).await;
    let mut events = engine.of(&owner()).events().follow(0).await.unwrap();
    write(&engine, &id, "one").await;
    eventually("it is marked", async || log(&engine, &id).await[0].entry.not_kept.is_some()).await;
    write(&engine, &id, "two").await;
    eventually("it is marked", async || log(&engine, &id).await[0].entry.not_kept.is_some()).await;
    let marked = log(&engine, &id).await;
    assert!(marked[0].entry.not_kept.as_deref().unwrap().contains("more than 0 files"), "{marked:?}");
    let told = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            if let Event::HistoryNotKept { entries, .. } = events.next().await.unwrap().event {
                return entries;
            }
        }
    });
    assert_eq!(told.await.unwrap(), [marked[1].entry.number]);

    let error = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap_err();
    let EngineError::HistoryNotKept { entries, .. } = &error else { panic!("{error:?}") };
    assert_eq!(entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [marked[1].entry.number]);
    assert!(error.to_string().contains("write /root/work one"), "{error}");
    assert_eq!(
        (world.isolation.running(&id), work(&engine, &id).await.as_str()),
        (1, "two"),
        "nothing happened"
    );

    let undone = engine.of(&owner()).sandbox(&id).history().undo(1, true).await.unwrap();
    assert_eq!(undone.to.reason, SnapshotReason::Start);
    engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "two");
    let error = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap_err();
    assert!(matches!(error, EngineError::HistoryNotKept { .. }), "it is not forgotten: {error:?}");
    engine
        .of(&owner())
        .sandbox(&id)
        .history()
        .undo(3, false)
        .await
        .expect("all of it was asked for, with a look at the file");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn after_a_change_that_was_too_large_history_goes_on() {
    let mut world = World::new();
    world.settings.copy_bound = CopyBound { entries: 1, ..CopyBound::default() };
    let (world, engine, id) = busy_in(world).await;
    drift(&world, &id, "/root/more", "x");
    drift(&world, &id, "/root/and-more", "x");
    write(&engine, &id, "much").await;
    eventually("it is marked", async || log(&engine, &id).await[0].entry.not_kept.is_some()).await;
    eventually("a pause is used", async || log(&engine, &id).await[0].entry.after.is_some()).await;
    assert_eq!(log(&engine, &id).await[0].entry.not_kept, None);
    write(&engine, &id, "little").await;
    eventually("it is captured", async || log(&engine, &id).await[0].entry.after.is_some()).await;
    engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "much");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_sandbox_cannot_fill_the_machine_s_disk_with_copies() {
    let mut world = World::new();
    world.settings.copy_bound = CopyBound { entries: 1, ..CopyBound::default() };
    let engine = world.open().await;
    let mut request = acquire();
    request.sandbox.spec.limits.disk = ByteSize::mib(8);
    let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    for number in 0..45 {
        output(&engine, &id, &format!("write /root/{number} {}", "x".repeat(200_000))).await;
        eventually("it is captured", async || log(&engine, &id).await[0].entry.after.is_some()).await;
    }
    eventually("they are counted", async || {
        snapshots_of(&engine, &owner(), &id).await.iter().filter(|row| row.space.is_some()).count() >= 45
    })
    .await;
    drift(&world, &id, "/root/more", "x");
    drift(&world, &id, "/root/and-more", "x");
    write(&engine, &id, "much").await;
    eventually("it is marked", async || log(&engine, &id).await[0].entry.not_kept.is_some()).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(log(&engine, &id).await[0].entry.not_kept.is_some(), "it has had its share");
    snap(&engine, &id).await;
    assert_eq!(log(&engine, &id).await[0].entry.not_kept, None, "who asks for one gets it");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_nobody_asked_for_does_not_take_the_last_of_the_machine_s_disk() {
    let mut world = World::new();
    world.settings.copy_bound = CopyBound { entries: 1, ..CopyBound::default() };
    let critical = world.settings.disk.critical_bytes;
    let (world, engine, id) = busy_in(world).await;
    for (free, kept) in [(critical, false), (critical + (1 << 20), true)] {
        world.isolation.set_free(Some(free));
        for name in ["more", "and-more"] {
            drift(&world, &id, &format!("/root/{name}"), &free.to_string());
        }
        write(&engine, &id, &free.to_string()).await;
        eventually("it is marked", async || log(&engine, &id).await[0].entry.not_kept.is_some()).await;
        if kept {
            eventually("it is caught up", async || log(&engine, &id).await[0].entry.after.is_some()).await;
        } else {
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(log(&engine, &id).await[0].entry.not_kept.is_some());
        }
    }
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn one_state_that_was_not_kept_at_first_is_kept_when_the_sandbox_comes_to_rest() {
    let (world, engine, id) = busy_in(without_copies()).await;
    write(&engine, &id, "one").await;
    eventually("it is marked", async || log(&engine, &id).await[0].entry.not_kept.is_some()).await;
    let undone = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap();
    assert_eq!(undone.safety.lost, [0_u64; 0], "nothing came after it");
    let entries = log(&engine, &id).await;
    let written = entries.iter().find(|log| log.entry.after == Some(undone.safety.id.clone())).unwrap();
    assert_eq!(written.entry.not_kept, None);
    engine.of(&owner()).sandbox(&id).history().redo(1, false).await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_capture_that_fails_is_marked_as_well() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    // After this one, and before the next.
    for _ in 0..2 {
        world.isolation.fail_next(warren_testkit::Call::Seal, warren_core::IsolationErrorKind::Host);
    }
    write(&engine, &id, "one").await;
    eventually("it is marked", async || log(&engine, &id).await[0].entry.not_kept.is_some()).await;
    write(&engine, &id, "two").await;
    eventually("the next is captured", async || log(&engine, &id).await[0].entry.after.is_some()).await;
    let error = engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap_err();
    assert!(matches!(error, EngineError::HistoryNotKept { .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_frozen_or_copied_goes_on() {
    let (world, engine, id) = busy().await;
    write(&engine, &id, "one").await;
    eventually("it is captured", async || log(&engine, &id).await[0].entry.after.is_some()).await;
    world.isolation.fail_next(warren_testkit::Call::Freeze, warren_core::IsolationErrorKind::Host);
    write(&engine, &id, "two").await;
    eventually("it is marked or captured", async || {
        let last = log(&engine, &id).await.remove(0).entry;
        last.not_kept.is_some() || last.after.is_some()
    })
    .await;
    assert_eq!(work(&engine, &id).await, "two");
    assert_consistent(&world, &engine).await;
}
