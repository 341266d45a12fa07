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
    // Afterwards its node no longer writes to the row by itself.
    eventually("it is on disk", async || {
        engine.of(&owner()).snapshots().get(&snapshot.id).await.unwrap().durable
    })
    .await;
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
        let row = engine.of(&owner()).snapshots().get(&theirs.snapshot.id).await.unwrap();
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
    let (id, snapshot) = (&theirs.acquired.sandbox.id, &theirs.snapshot.id);
    let engine = neighbour(&theirs.world).open().await;
    let here = engine.of(&owner());
    let (sandbox, session) = (here.sandbox(id), here.session(&theirs.acquired.session.id));
    assert_refused("exec", exec(&engine, id, "true").await, &theirs);
    assert_refused("pause", sandbox.pause().await, &theirs);
    assert_refused("resume", sandbox.resume().await, &theirs);
    assert_refused("stop", sandbox.stop(StoppedFiles::Delete).await, &theirs);
    assert_refused("update", sandbox.update(Patch::default()).await, &theirs);
    assert_refused("usage", sandbox.usage().await, &theirs);
    assert_refused("attach", here.sessions().attach(attach(id)).await, &theirs);
    assert_refused("detach", session.detach().await, &theirs);
    assert_refused("suspend", session.suspend().await, &theirs);
    assert_refused("release", session.release(Release::KeepAlive).await, &theirs);
    assert_refused("run", session.record_run(run_of(1)).await, &theirs);
    let name = Some("mine".to_owned());
    assert_refused("rename", here.snapshots().rename(snapshot, name).await, &theirs);
    assert_refused("delete", here.snapshots().delete(snapshot).await, &theirs);
    let points = (Point::Snapshot(snapshot.clone()), Point::Sandbox(id.clone()));
    assert_refused("fork", here.snapshots().fork(&points.0, forks(1)).await, &theirs);
    let options = DiffOptions::default();
    assert_refused("diff", here.snapshots().diff(&points.0, &points.1, options).await, &theirs);
    assert_eq!(record(&theirs.engine, id).await.status, Status::Ready);
}
