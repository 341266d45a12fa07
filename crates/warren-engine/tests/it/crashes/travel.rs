//! Tours through the states of a sandbox.

use warren_core::catalog::SnapshotFilter;
use warren_core::{Conflicts, ImportFormat, LeaveOut, PageRequest, SQUASH_DEPTH, SandboxId, SnapshotId};
use warren_engine::{
    Engine, EngineError, ExportOrder, Point, PromoteOrder, RolledBack, StoppedFiles, TakeSnapshot,
};

use super::Promises;
use crate::support::*;
use crate::travel::{Sink, forks};

async fn write(engine: &Engine, promises: &Promises, id: &SandboxId, text: &str) -> Result<(), EngineError> {
    promises.may_hold(id, text);
    let result = exec(engine, id, &format!("write /root/work {text}")).await?;
    assert_eq!(result.exit.code, 0);
    promises.holds(id, text);
    Ok(())
}

async fn snap(
    engine: &Engine,
    promises: &Promises,
    id: &SandboxId,
    text: &str,
) -> Result<SnapshotId, EngineError> {
    let taken = engine.of(&owner()).sandbox(id).history().take(TakeSnapshot::default()).await?.snapshot.id;
    promises.captured(&taken, text);
    Ok(taken)
}

async fn go(
    promises: &Promises,
    id: &SandboxId,
    text: &str,
    going: impl Future<Output = Result<RolledBack, EngineError>>,
) -> Result<RolledBack, EngineError> {
    promises.may_hold(id, text);
    let rolled = going.await?;
    promises.holds(id, text);
    Ok(rolled)
}

/// Every way from one state to another.
pub(super) async fn through_states(
    world: &World,
    engine: &Engine,
    promises: &Promises,
) -> Result<(), EngineError> {
    let me = owner();
    let made = engine.of(&me).sessions().acquire(acquire()).await?;
    let id = &made.sandbox.id;
    write(engine, promises, id, "one").await?;
    let first = snap(engine, promises, id, "one").await?;
    engine.of(&me).sandbox(id).spawn(program("sleep 1000")).await?;
    write(engine, promises, id, "two").await?;
    let copy = snap(engine, promises, id, "two").await?;
    let rolled =
        go(promises, id, "one", engine.of(&me).sandbox(id).history().rollback(&first, false)).await?;
    promises.captured(&rolled.safety.id, "two");
    // The program's end is written down a moment later, before the state of the rollback or after.
    eventually("nothing goes on", async || {
        let log = engine.of(&me).sandbox(id).history().log(None, 100, false).await.unwrap();
        log.iter().all(|logged| logged.entry.ended_unix_ms.is_some())
    })
    .await;
    snap(engine, promises, id, "one").await?;
    go(promises, id, "two", engine.of(&me).sandbox(id).history().undo(1, false)).await?;
    write(engine, promises, id, "three").await?;
    go(promises, id, "two", engine.of(&me).sandbox(id).history().undo(1, false)).await?;
    engine.of(&me).sandbox(id).stop(StoppedFiles::Keep).await?;
    go(promises, id, "one", engine.of(&me).sandbox(id).history().rollback(&first, false)).await?;
    engine.of(&me).sandbox(id).resume().await?;
    world.isolation.set_unmovable(true);
    write(engine, promises, id, "four").await?;
    go(promises, id, "one", engine.of(&me).sandbox(id).history().rollback(&first, false)).await?;
    world.isolation.set_unmovable(false);
    let forked = engine.of(&me).snapshots().fork(&Point::Sandbox(id.clone()), forks(2)).await?;
    let fork = &forked[0].sandbox.id;
    forked.iter().for_each(|fork| promises.holds(&fork.sandbox.id, "one"));
    write(engine, promises, fork, "theirs").await?;
    let (conflicts, leave_out) = (Conflicts::Refuse, LeaveOut::default());
    let order =
        PromoteOrder { into: None, apply: true, conflicts, below: "/".into(), force: false, leave_out };
    promises.may_hold(id, "theirs");
    engine.of(&me).sandbox(fork).history().promote(order).await?;
    promises.holds(id, "theirs");
    let sink = Sink::default();
    engine
        .of(&me)
        .snapshots()
        .export(&Point::Snapshot(first), ExportOrder::History, Box::new(sink.clone()))
        .await?;
    let archive = Box::new(std::io::Cursor::new(sink.take()));
    let rows = engine.of(&me).snapshots().import(ImportFormat::History, None, None, archive).await?;
    promises.captured(&rows.last().expect("a snapshot").id, "one");
    promises.forget(&copy);
    engine.of(&me).snapshots().delete(&copy).await?;
    let ended = engine.of(&me).session(&made.session.id).end().await?;
    promises.captured(&ended.taken.snapshot.id, "theirs");
    with_processes(engine, promises).await
}

/// Processes are captured, gone back to and forked.
async fn with_processes(engine: &Engine, promises: &Promises) -> Result<(), EngineError> {
    let me = owner();
    let id = engine.of(&me).sessions().acquire(without_network()).await?.sandbox.id;
    write(engine, promises, &id, "one").await?;
    let order = TakeSnapshot { memory: true, ..TakeSnapshot::default() };
    let warm = engine.of(&me).sandbox(&id).history().take(order).await?.snapshot;
    promises.captured(&warm.id, "one");
    write(engine, promises, &id, "two").await?;
    let history = engine.of(&me).sandbox(&id).history();
    assert!(go(promises, &id, "one", history.rollback(&warm.id, false)).await?.memory);
    let fork = engine.of(&me).snapshots().fork(&Point::Snapshot(warm.id), forks(1)).await?;
    promises.holds(&fork[0].sandbox.id, "one");
    Ok(())
}

/// So many snapshots that their layers are joined.
pub(super) async fn into_depth(engine: &Engine, promises: &Promises) -> Result<(), EngineError> {
    let made = engine.of(&owner()).sessions().acquire(acquire()).await?;
    let id = &made.sandbox.id;
    for number in 0..=SQUASH_DEPTH {
        write(engine, promises, id, &number.to_string()).await?;
        snap(engine, promises, id, &number.to_string()).await?;
    }
    eventually("its layers are joined", async || record(engine, id).await.history.stack.depth() < 3).await;
    write(engine, promises, id, "after").await?;
    snap(engine, promises, id, "after").await?;
    engine.sweep().await;
    Ok(())
}

/// Deletes every snapshot that there is.
pub(super) async fn delete_all(engine: &Engine) {
    let page = PageRequest { limit: PageRequest::MOST, after: None };
    let all = engine
        .of(&owner())
        .snapshots()
        .list(&SnapshotFilter::default(), &page)
        .await
        .expect("list snapshots");
    for row in all.items {
        engine.of(&owner()).snapshots().delete(&row.id).await.expect("delete a snapshot");
    }
}
