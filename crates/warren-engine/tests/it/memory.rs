//! Snapshots with processes: what is kept, what goes on, and what a failure leaves.

use warren_core::catalog::CatalogErrorKind;
use warren_core::{Capabilities, IsolationErrorKind, SandboxId, SnapshotRecord, Status};
use warren_engine::{Engine, EngineError, Point, StoppedFiles, TakeSnapshot};
use warren_testkit::{Call, FakeIsolation};

use crate::support::*;
use crate::travel::{forks, layers};

async fn running(engine: &Engine) -> SandboxId {
    let id = engine.of(&owner()).sessions().acquire(without_network()).await.unwrap().sandbox.id;
    output(engine, &id, "write /root/work one").await;
    id
}

async fn take(engine: &Engine, id: &SandboxId) -> Result<SnapshotRecord, EngineError> {
    let order = TakeSnapshot { memory: true, ..TakeSnapshot::default() };
    engine.of(&owner()).sandbox(id).history().take(order).await.map(|taken| taken.snapshot)
}

async fn work(engine: &Engine, id: &SandboxId) -> String {
    output(engine, id, "read /root/work").await
}

#[tokio::test]
async fn a_snapshot_with_processes_keeps_their_layer_as_long_as_it_exists() {
    let world = World::new();
    let engine = world.open().await;
    let id = running(&engine).await;
    let warm = take(&engine, &id).await.unwrap();
    let memory = warm.memory.clone().expect("it has processes");
    assert!(!warm.stack.0.contains(&memory), "they are no files");
    assert_eq!(status(&engine, &id).await, Status::Ready);
    assert_eq!(record(&engine, &id).await.history.memory, None, "they go on already");
    assert_eq!(work(&engine, &id).await, "one");
    engine.sweep().await;
    let there = layers(&world);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let rolled = engine.of(&owner()).sandbox(&id).history().rollback(&warm.id, false).await.unwrap();
    assert!(rolled.memory);
    assert_eq!(record(&engine, &id).await.history.memory, Some(memory));
    engine.of(&owner()).snapshots().delete(&warm.id).await.unwrap();
    engine.sweep().await;
    assert_eq!(layers(&world), there, "the next start needs it");
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    engine.sweep().await;
    assert!(layers(&world) < there, "nobody needs it any more");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_undo_and_a_network_leave_processes_where_they_are() {
    let world = World::new();
    let engine = world.open().await;
    let id = running(&engine).await;
    let warm = take(&engine, &id).await.unwrap();
    output(&engine, &id, "write /root/work two").await;
    assert!(!engine.of(&owner()).sandbox(&id).history().undo(1, false).await.unwrap().memory);
    assert!(engine.of(&owner()).sandbox(&id).history().rollback(&warm.id, false).await.unwrap().memory);
    let fork = engine.of(&owner()).snapshots().fork(&Point::Snapshot(warm.id), forks(1)).await.unwrap();
    assert!(fork[0].sandbox.spec.network.is_none(), "{:?}", fork[0].sandbox.spec.network);
    assert_eq!(work(&engine, &fork[0].sandbox.id).await, "one");
    let linked = make(&engine).await.sandbox.id;
    let refused = take(&engine, &linked).await.unwrap_err();
    assert!(matches!(refused, EngineError::SnapshotsUnavailable(_)), "{refused:?}");
    assert_eq!(world.isolation.calls(Call::Suspend), 1);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_backend_without_the_capability_is_named() {
    let can = Capabilities { memory_snapshots: false, ..FakeIsolation::everything() };
    let world = World { isolation: FakeIsolation::able("fake", can), ..World::new() };
    let engine = world.open().await;
    let id = running(&engine).await;
    let refused = take(&engine, &id).await.unwrap_err().to_string();
    assert!(refused.contains("memory_snapshots"), "{refused}");
    assert_eq!(work(&engine, &id).await, "one");
}

#[tokio::test]
async fn whatever_fails_the_sandbox_goes_on_or_is_stopped_with_its_files() {
    let world = World::new();
    let engine = world.open().await;
    let id = running(&engine).await;
    world.isolation.fail_next(Call::Suspend, IsolationErrorKind::Host);
    assert!(take(&engine, &id).await.is_err());
    assert_eq!((status(&engine, &id).await, work(&engine, &id).await.as_str()), (Status::Ready, "one"));
    world.catalog.fail_next_call("record_snapshots", CatalogErrorKind::Full);
    assert!(take(&engine, &id).await.is_err());
    assert_eq!((status(&engine, &id).await, work(&engine, &id).await.as_str()), (Status::Ready, "one"));
    world.isolation.fail_next(Call::Create, IsolationErrorKind::Layer);
    assert!(take(&engine, &id).await.is_err());
    let stopped = record(&engine, &id).await;
    assert_eq!((stopped.status, stopped.files_kept()), (Status::Stopped, true));
    assert_eq!(stopped.history.memory, None, "another start would fail like this one");
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(work(&engine, &id).await, "one");
    engine.sweep().await;
    assert_consistent(&world, &engine).await;
}

/// Their images are on a disk that all share, and no disk limit counts them.
#[tokio::test]
async fn so_many_are_kept_and_no_more() {
    let world = World::new();
    let engine = world.open().await;
    let id = running(&engine).await;
    let mut last = None;
    for _ in 0..8 {
        last = Some(take(&engine, &id).await.unwrap().id);
    }
    let refused = take(&engine, &id).await.unwrap_err();
    assert!(refused.to_string().contains("delete one"), "{refused}");
    assert_eq!((status(&engine, &id).await, world.isolation.calls(Call::Suspend)), (Status::Ready, 8));
    engine.of(&owner()).snapshots().delete(&last.unwrap()).await.unwrap();
    take(&engine, &id).await.unwrap();
    assert_consistent(&world, &engine).await;
}
