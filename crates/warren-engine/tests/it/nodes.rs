//! Two nodes with one catalog.

use std::sync::Arc;

use warren_core::catalog::{Durability, SnapshotCatalog as _};
use warren_core::{DiffOptions, NodeId, SessionState, SnapshotRecord, Status};
use warren_engine::{Acquired, Engine, EngineError, Patch, Point, Release, StoppedFiles};

use crate::support::*;
use crate::travel::*;

/// Another machine whose engine opens the same catalog.
fn neighbour(world: &World) -> World {
    let node = NodeId::from_random([0xb2; 16]);
    let other = World { catalog: Arc::new(world.catalog.of_node(&node)), ..World::seeded(2) };
    other.clock.reboot(10);
    other
}

struct Elsewhere {
    world: World,
    engine: Engine,
    acquired: Acquired,
    snapshot: SnapshotRecord,
}

/// A node with a sandbox that runs, and a snapshot of it that is not on disk yet.
async fn elsewhere() -> Elsewhere {
    let world = World::new();
    let engine = world.open().await;
    let acquired = make(&engine).await;
    output(&engine, &acquired.sandbox.id, "write /root/work one").await;
    let snapshot = snap(&engine, &acquired.sandbox.id).await.snapshot;
    let snapshot = SnapshotRecord { durable: false, ..snapshot };
    world.catalog.update_snapshot(&snapshot, Durability::Process).unwrap();
    Elsewhere { world, engine, acquired, snapshot }
}

fn assert_refused<T: std::fmt::Debug>(what: &str, answer: Result<T, EngineError>, theirs: &Elsewhere) {
    match answer {
        Err(EngineError::OtherNode { node, .. }) => assert_eq!(node, *theirs.engine.node(), "{what}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn what_another_node_holds_is_shown_and_survives_every_start_and_sweep_here() {
    let theirs = elsewhere().await;
    let id = &theirs.acquired.sandbox.id;
    let world = neighbour(&theirs.world);
    for _ in 0..2 {
        let engine = world.open().await;
        world.pass(&engine, LIFETIME_S + SUSPENDED_S).await;
        engine.sweep().await;
        assert_eq!(record(&engine, id).await, record(&theirs.engine, id).await);
        assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 1);
        let row = engine.snapshot(&owner(), &theirs.snapshot.id).await.unwrap();
        assert!(!row.durable && !row.damaged, "whether it is safe is for its node to say");
        assert_eq!(state(&engine, &theirs.acquired.session.id).await, SessionState::Active);
        world.inherit();
    }
    assert_eq!(output(&theirs.engine, id, "read /root/work").await, "one");
    assert_consistent(&theirs.world, &theirs.engine).await;
}

#[tokio::test]
async fn requests_that_need_what_another_node_holds_are_refused_by_name() {
    let theirs = elsewhere().await;
    let (me, id, session) = (owner(), &theirs.acquired.sandbox.id, &theirs.acquired.session.id);
    let here = neighbour(&theirs.world).open().await;
    assert_refused("exec", exec(&here, id, "true").await, &theirs);
    assert_refused("pause", here.pause(&me, id).await, &theirs);
    assert_refused("resume", here.resume(&me, id).await, &theirs);
    assert_refused("stop", here.stop(&me, id, StoppedFiles::Delete, "tester").await, &theirs);
    assert_refused("patch", here.update_sandbox(&me, id, Patch::default()).await, &theirs);
    assert_refused("usage", here.usage(&me, id).await, &theirs);
    assert_refused("attach", here.attach(&me, attach(id)).await, &theirs);
    assert_refused("detach", here.detach(&me, session).await, &theirs);
    assert_refused("suspend", here.suspend(&me, session).await, &theirs);
    assert_refused("release", here.release(&me, session, Release::KeepAlive).await, &theirs);
    assert_refused("run", here.record_run(&me, session, run_of(1)).await, &theirs);
    let snapshot = &theirs.snapshot.id;
    assert_refused("name", here.name_snapshot(&me, snapshot, Some("mine".to_owned())).await, &theirs);
    assert_refused("delete", here.delete_snapshot(&me, snapshot).await, &theirs);
    let fork = here.fork(&me, &Point::Snapshot(snapshot.clone()), forks(1)).await;
    assert_refused("fork", fork, &theirs);
    let points = (Point::Snapshot(snapshot.clone()), Point::Sandbox(id.clone()));
    assert_refused("diff", here.diff(&me, &points.0, &points.1, DiffOptions::default()).await, &theirs);
    assert_eq!(record(&theirs.engine, id).await.status, Status::Ready);
}
