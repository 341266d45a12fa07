//! Backends that are not there: from the start, for a while, or for good. Nothing is given up
//! because of that.

use warren_core::{
    Automatic, ErrorCode, Event, IsolationKind, SQUASH_DEPTH, SandboxId, SessionRecord, SessionState, Status,
};
use warren_engine::{AbsentBackend, Acquire, Engine, EngineError, HealthStatus, Parts, Point, StoppedFiles};
use warren_testkit::{Call, Standing};

use crate::support::*;
use crate::travel::{forks, layers, work, write_and_snap};

async fn behind(engine: &Engine, backend: &str) -> SandboxId {
    let request = Acquire { backend: Some(backend.to_owned()), ..acquire() };
    let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    output(engine, &id, "write /root/work precious").await;
    id
}

fn is_unavailable(error: &EngineError) -> bool {
    matches!(error, EngineError::BackendUnavailable { name, .. } if name == "wall")
        && error.code() == ErrorCode::BackendUnavailable
}

#[tokio::test]
async fn sandboxes_of_a_backend_that_goes_away_are_unreachable_and_come_back() {
    let world = World::walled();
    let engine = world.open().await;
    let (here, there) = (behind(&engine, "fake").await, behind(&engine, "wall").await);
    world.wall().go_away();
    eventually("it is noticed", async || record(&engine, &there).await.unreachable.is_some()).await;
    let lost = record(&engine, &there).await;
    assert_eq!((lost.status, lost.death.is_none()), (Status::Ready, true));
    let error = exec(&engine, &there, "true").await.unwrap_err();
    assert!(is_unavailable(&error), "{error:?}");
    assert!(error.to_string().starts_with("the backend `wall` is away: "), "{error}");
    assert_eq!(output(&engine, &here, "read /root/work").await, "precious");
    let health = engine.health().await;
    assert_eq!((health.status, health.backends["wall"]), (HealthStatus::Warning, false));
    let error = engine
        .of(&owner())
        .sessions()
        .acquire(Acquire { backend: Some("wall".to_owned()), ..acquire() })
        .await
        .unwrap_err();
    assert!(error.to_string().contains("wall: it is away"), "{error}");
    world.pass(&engine, 60).await;
    assert_eq!(status(&engine, &there).await, Status::Ready);
    assert_eq!(world.wall().standing(&there), Some(Standing::Running), "nothing was ended or removed");

    world.wall().come_back();
    eventually("it is back", async || record(&engine, &there).await.unreachable.is_none()).await;
    assert_eq!(output(&engine, &there, "read /root/work").await, "precious");
    world.pass(&engine, 6).await;
    eventually("that is told", async || {
        let events = all_events(&engine, &owner()).await;
        let seen = |event: &Event| matches!(event, Event::SandboxReachable { .. });
        events.iter().any(|event| seen(&event.event))
    })
    .await;
    // Its end is noticed as any other's.
    world.wall().die(&there, false);
    eventually("its end is noticed", async || {
        // Whoever lost sight of it looks again after a while.
        world.pass(&engine, 6).await;
        status(&engine, &there).await == Status::Stopped
    })
    .await;
    assert!(record(&engine, &there).await.files_kept());
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_backend_that_is_away_for_a_moment_loses_nobody() {
    let world = World::walled();
    let engine = world.open().await;
    let there = behind(&engine, "wall").await;
    // It is back before anybody looks, and what was watched is readable all the same.
    world.wall().go_away();
    world.wall().come_back();
    for _ in 0..5 {
        world.pass(&engine, 6).await;
        assert_eq!(output(&engine, &there, "read /root/work").await, "precious");
    }
    assert_eq!(status(&engine, &there).await, Status::Ready);
    world.wall().die(&there, false);
    eventually("its end is noticed", async || {
        // Whoever lost sight of it looks again after a while.
        world.pass(&engine, 6).await;
        status(&engine, &there).await == Status::Stopped
    })
    .await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_engine_starts_without_a_backend_that_is_away_and_takes_over_what_it_has_later() {
    let world = World::walled();
    let engine = world.open().await;
    let (here, there, rests) =
        (behind(&engine, "fake").await, behind(&engine, "wall").await, behind(&engine, "wall").await);
    for _ in 0..8 {
        behind(&engine, "wall").await;
    }
    engine.of(&owner()).sandbox(&rests).stop(StoppedFiles::Keep).await.unwrap();
    crash(&world, engine).await;
    world.wall().go_away();
    let engine = world.open().await;
    assert_eq!(engine.mode(), warren_engine::Mode::Normal, "what is away is not lost");
    assert_eq!(output(&engine, &here, "read /root/work").await, "precious");
    for id in [&there, &rests] {
        let kept = record(&engine, id).await;
        assert!(kept.unreachable.is_some() && (kept.is_live() || kept.files_kept()), "{kept:?}");
    }
    assert_eq!(status(&engine, &there).await, Status::Ready);
    let error = engine.of(&owner()).sandbox(&rests).resume().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::BackendUnavailable, "{error:?}");
    exec(&engine, &there, "true").await.unwrap_err();
    world.pass(&engine, 60).await;
    assert_eq!(world.wall().standings().len(), 10, "nothing was removed");

    world.wall().come_back();
    eventually("it is back", async || exec(&engine, &there, "true").await.is_ok()).await;
    assert_eq!(output(&engine, &there, "read /root/work").await, "precious");
    engine.of(&owner()).sandbox(&rests).resume().await.unwrap();
    assert_eq!(output(&engine, &rests, "read /root/work").await, "precious");
    world.wall().die(&there, false);
    eventually("its end is noticed", async || {
        // Whoever lost sight of it looks again after a while.
        world.pass(&engine, 6).await;
        status(&engine, &there).await == Status::Stopped
    })
    .await;
    let holds = |session: &SessionRecord| session.sandbox == there && session.state == SessionState::Active;
    eventually("its session ends", async || !all_sessions(&engine, &owner()).await.iter().any(holds)).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_engine_whose_backends_are_all_away_does_not_start() {
    let world = World::walled();
    world.isolations().for_each(|backend| backend.go_away());
    let error = Engine::open(world.parts(|_| {}), world.settings.clone()).await.expect_err("an error");
    assert!(matches!(error, warren_engine::OpenError::Backend(_)), "{error:?}");
}

/// An engine that opens without `wall`: it could not be opened, or it is off.
async fn open_without_wall(world: &World, absent: Vec<AbsentBackend>) -> Engine {
    let parts = world.parts(|_| {});
    let backends = vec![parts.backends[0].clone()];
    let engine = Engine::open(Parts { backends, absent, ..parts }, world.settings.clone()).await.unwrap();
    engine.reconciled().await;
    engine
}

fn not_installed() -> Vec<AbsentBackend> {
    vec![AbsentBackend { name: "wall".to_owned(), why: "it is not installed".to_owned() }]
}

#[tokio::test]
async fn a_fork_is_behind_no_weaker_wall_because_its_originals_is_not_there() {
    let world = World::walled();
    let mut engine = world.open().await;
    let mut request = acquire();
    request.sandbox.tier = Some(IsolationKind::UserKernel);
    let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
    let from = Point::Snapshot(write_and_snap(&engine, &id, "precious").await);
    let fork = async |engine: &Engine| engine.of(&owner()).snapshots().fork(&from, forks(1)).await;
    world.wall().go_away();
    eventually("it is noticed", async || record(&engine, &id).await.unreachable.is_some()).await;
    let error = fork(&engine).await.unwrap_err();
    assert!(is_unavailable(&error), "{error:?}");
    world.wall().come_back();
    for absent in [not_installed(), Vec::new()] {
        crash(&world, engine).await;
        engine = open_without_wall(&world, absent).await;
        let error = fork(&engine).await.unwrap_err();
        assert!(is_unavailable(&error), "{error:?}");
    }
    assert_eq!(world.isolation.calls(Call::Create), 0, "nothing was made behind the weaker wall");
    let engine = world.reopen(engine).await;
    assert_eq!(fork(&engine).await.unwrap().remove(0).sandbox.backend, "wall");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn layers_of_what_runs_at_a_backend_that_is_not_there_stay() {
    let mut world = World::walled();
    (world.settings.automatic_snapshots, world.settings.automatic_snapshots_kept) = (Automatic::Off, 0);
    let mut engine = world.open().await;
    let id = behind(&engine, "wall").await;
    for number in 0..=SQUASH_DEPTH {
        write_and_snap(&engine, &id, &number.to_string()).await;
    }
    eventually("its layers are joined", async || record(&engine, &id).await.history.stack.depth() < 3).await;
    engine.sweep().await;
    for absent in [not_installed(), Vec::new()] {
        crash(&world, engine).await;
        engine = open_without_wall(&world, absent).await;
        world.pass(&engine, 60).await;
        assert!(layers(&world) > SQUASH_DEPTH, "it stands on them, whatever its record says");
    }
    let engine = world.reopen(engine).await;
    assert_eq!(work(&engine, &id).await, SQUASH_DEPTH.to_string());
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    engine.sweep().await;
    assert!(layers(&world) < SQUASH_DEPTH, "it stands on what its record says");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn what_a_backend_that_cannot_be_opened_made_is_kept_and_says_so() {
    let world = World::walled();
    let engine = world.open().await;
    let ids = [behind(&engine, "wall").await, behind(&engine, "wall").await];
    engine.of(&owner()).sandbox(&ids[1]).stop(StoppedFiles::Keep).await.unwrap();
    crash(&world, engine).await;
    for absent in [not_installed(), Vec::new()] {
        let told = if absent.is_empty() { "backends.enabled" } else { "it is not installed" };
        let on = !absent.is_empty();
        let engine = open_without_wall(&world, absent).await;
        for id in &ids {
            let kept = record(&engine, id).await;
            assert!(kept.is_live() || kept.files_kept(), "{kept:?}");
            let error = engine.of(&owner()).sandbox(id).resume().await.unwrap_err();
            assert!(is_unavailable(&error) && error.to_string().contains(told), "{error:?}");
            let error = engine.of(&owner()).sandbox(id).stop(StoppedFiles::Delete).await.unwrap_err();
            assert!(is_unavailable(&error), "{error:?}");
        }
        world.pass(&engine, 60).await;
        assert_eq!(world.wall().calls(Call::Destroy), 0);
        let health = engine.health().await;
        assert_eq!(health.backends.get("wall"), on.then_some(&false), "{health:?}");
        let listed = engine.backends().await;
        assert_eq!(listed.iter().any(|backend| backend.name == "wall" && backend.capabilities.is_none()), on);
        crash(&world, engine).await;
    }
    let engine = world.open().await;
    assert_eq!(output(&engine, &ids[0], "read /root/work").await, "precious");
    engine.of(&owner()).sandbox(&ids[1]).resume().await.unwrap();
    assert_consistent(&world, &engine).await;
}
