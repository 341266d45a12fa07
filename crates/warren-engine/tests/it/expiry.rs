//! How and when the time of a sandbox is over.

use std::collections::BTreeMap;

use warren_core::{DeathCause, OnExpiry, PausedBy, SandboxId, Status};
use warren_engine::{
    Acquire, Acquired, Engine, EngineError, ForkOrder, NewSandbox, Patch, Point, StoppedFiles,
};
use warren_testkit::{Call, Standing};

use crate::support::*;

const TTL_S: u64 = 60;

async fn make_with(engine: &Engine, on_expiry: OnExpiry) -> Acquired {
    let mut new = NewSandbox { on_expiry, ..new_sandbox() };
    new.spec.limits.lifetime_s = TTL_S;
    engine
        .of(&owner())
        .sessions()
        .acquire(Acquire { sandbox: new, ..acquire() })
        .await
        .expect("acquire a sandbox")
}

async fn is_frozen_by_request(world: &World, engine: &Engine, id: &SandboxId) -> bool {
    let record = record(engine, id).await;
    let by = record.paused.as_ref().map(|paused| paused.by);
    by == Some(PausedBy::Request) && world.standing(&record) == Some(Standing::Frozen)
}

#[tokio::test]
async fn one_that_pauses_at_its_end_is_frozen_as_if_somebody_had_paused_it() {
    let world = World::new();
    let engine = world.open().await;
    let made = make_with(&engine, OnExpiry::Pause).await;
    let id = made.sandbox.id;
    output(&engine, &id, "write /root/work precious").await;
    world.pass(&engine, TTL_S - 1).await;
    assert_eq!(status(&engine, &id).await, Status::Ready, "too early");
    world.pass(&engine, 2).await;
    eventually("it is frozen", async || is_frozen_by_request(&world, &engine, &id).await).await;
    let error = exec(&engine, &id, "true").await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { .. }), "work does not wake it: {error:?}");
    assert!(state(&engine, &made.session.id).await.is_open(), "its session still holds it");
    assert_consistent(&world, &engine).await;
    let resumed = engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(resumed.status, Status::Ready);
    assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
    assert_eq!(world.isolation.calls(Call::Create), 1, "it is the same life");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn time_stands_still_while_somebody_has_it_paused() {
    for on_expiry in [OnExpiry::Keep, OnExpiry::Delete, OnExpiry::Pause] {
        let world = World::new();
        let engine = world.open().await;
        let id = make_with(&engine, on_expiry).await.sandbox.id;
        world.pass(&engine, TTL_S - 1).await;
        engine.of(&owner()).sandbox(&id).pause().await.unwrap();
        let paused = record(&engine, &id).await;
        world.pass(&engine, 10 * TTL_S).await;
        assert_eq!(record(&engine, &id).await, paused, "{on_expiry:?}");
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
        world.pass(&engine, TTL_S - 1).await;
        assert_eq!(status(&engine, &id).await, Status::Ready, "{on_expiry:?}: it has all of its time again");
        world.pass(&engine, 2).await;
        eventually("its time is over", async || status(&engine, &id).await != Status::Ready).await;
    }
}

#[tokio::test]
async fn a_restart_of_the_service_ends_no_time_that_stands_still() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, OnExpiry::Delete).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.isolation.owner_ended();
    world.clock.advance_s(10 * TTL_S);
    let engine = world.open().await;
    world.pass(&engine, 1).await;
    assert!(is_frozen_by_request(&world, &engine, &id).await);
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    output(&engine, &id, "true").await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn one_that_rests_for_want_of_work_still_pauses_at_its_end() {
    let world = World::new();
    let engine = world.open().await;
    let new = NewSandbox { on_expiry: OnExpiry::Pause, ..new_sandbox() };
    let made = engine.of(&owner()).sessions().acquire(Acquire { sandbox: new, ..acquire() }).await.unwrap();
    let id = made.sandbox.id;
    world.fall_idle(&engine).await;
    assert_eq!(record(&engine, &id).await.paused.map(|paused| paused.by), Some(PausedBy::Idleness));
    engine.of(&owner()).sandbox(&id).end_time().await.unwrap();
    assert!(is_frozen_by_request(&world, &engine, &id).await);
    assert!(exec(&engine, &id, "true").await.is_err(), "work does not wake it any more");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn its_time_can_be_ended_at_once() {
    let world = World::new();
    let engine = world.open().await;
    let (keep, delete, pause) = (
        make_with(&engine, OnExpiry::Keep).await.sandbox.id,
        make_with(&engine, OnExpiry::Delete).await.sandbox.id,
        make_with(&engine, OnExpiry::Pause).await.sandbox.id,
    );
    let kept = engine.of(&owner()).sandbox(&keep).end_time().await.unwrap();
    assert_eq!((kept.status, kept.files_kept()), (Status::Stopped, true));
    assert_eq!(kept.death.map(|death| death.cause), Some(DeathCause::Ttl));
    let deleted = engine.of(&owner()).sandbox(&delete).end_time().await.unwrap();
    assert_eq!((deleted.status, deleted.files_kept()), (Status::Stopped, false));
    let paused = engine.of(&owner()).sandbox(&pause).end_time().await.unwrap();
    assert_eq!((paused.status, world.standing(&paused)), (Status::Paused, Some(Standing::Frozen)));
    for (id, generation) in
        [(&keep, kept.generation), (&delete, deleted.generation), (&pause, paused.generation)]
    {
        let again = engine.of(&owner()).sandbox(id).end_time().await.unwrap();
        assert_eq!(again.generation, generation, "once is enough");
    }
    let error = engine.of(&stranger()).sandbox(&pause).end_time().await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_pause_at_the_end_that_fails_is_tried_again() {
    let world = World::new();
    let engine = world.open().await;
    let id = make_with(&engine, OnExpiry::Pause).await.sandbox.id;
    world.isolation.fail_next(Call::Freeze, warren_core::IsolationErrorKind::Host);
    world.pass(&engine, TTL_S + 1).await;
    eventually("it is frozen", async || {
        engine.sweep().await;
        is_frozen_by_request(&world, &engine, &id).await
    })
    .await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_least_time_to_live_never_shortens_another() {
    let world = World::new();
    let engine = world.open().await;
    let made = make_with(&engine, OnExpiry::Keep).await.sandbox;
    let least = |ttl_s| Patch { least_ttl_s: Some(ttl_s), ..Patch::default() };
    let shorter = engine.of(&owner()).sandbox(&made.id).update(least(TTL_S / 2)).await.unwrap();
    assert_eq!(shorter, record(&engine, &made.id).await);
    assert_eq!((shorter.deadline.clone(), shorter.generation), (made.deadline.clone(), made.generation));
    let longer = engine.of(&owner()).sandbox(&made.id).update(least(2 * TTL_S)).await.unwrap();
    assert_eq!(longer.deadline.unix_ms, made.deadline.unix_ms + TTL_S * 1000);
    assert_eq!(longer.spec.limits.lifetime_s, 2 * TTL_S);
    let exact = Patch { ttl_s: Some(TTL_S / 2), ..Patch::default() };
    let exact = engine.of(&owner()).sandbox(&made.id).update(exact).await.unwrap();
    assert!(exact.deadline.unix_ms < longer.deadline.unix_ms, "who says how long it lives may shorten it");
    for ttl_s in [0, LIFETIME_S + 1] {
        let error = engine.of(&owner()).sandbox(&made.id).update(least(ttl_s)).await.unwrap_err();
        assert!(matches!(error, EngineError::Invalid { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn what_a_face_remembers_stays_with_a_sandbox_and_its_forks() {
    let notes = |text: &str| BTreeMap::from([("face".to_owned(), text.to_owned())]);
    let world = World::new();
    let engine = world.open().await;
    let new = NewSandbox { annotations: notes("one"), ..new_sandbox() };
    let made =
        engine.of(&owner()).sessions().acquire(Acquire { sandbox: new, ..acquire() }).await.unwrap().sandbox;
    assert_eq!(made.annotations, notes("one"));
    let order = ForkOrder {
        name: None,
        count: 1,
        client: "tester".to_owned(),
        lifetime_s: None,
        on_expiry: None,
        labels: BTreeMap::new(),
        metadata: BTreeMap::new(),
    };
    let forks = engine.of(&owner()).snapshots().fork(&Point::Sandbox(made.id.clone()), order).await.unwrap();
    assert_eq!(forks[0].sandbox.annotations, notes("one"));
    let patch = Patch { annotations: Some(notes("two")), ..Patch::default() };
    assert_eq!(engine.of(&owner()).sandbox(&made.id).update(patch).await.unwrap().annotations, notes("two"));
    engine.of(&owner()).sandbox(&made.id).stop(StoppedFiles::Keep).await.unwrap();
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.isolation.owner_ended();
    let engine = world.open().await;
    assert_eq!(engine.of(&owner()).sandbox(&made.id).resume().await.unwrap().annotations, notes("two"));
    assert_eq!(record(&engine, &forks[0].sandbox.id).await.annotations, notes("one"));
}
