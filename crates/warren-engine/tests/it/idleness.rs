use warren_core::{DeathCause, OnExpiry, PausedBy, SessionState, Status, Timeouts};
use warren_engine::{Acquire, EngineError, NewSandbox};
use warren_testkit::{Call, Standing};

use crate::support::*;

#[tokio::test]
async fn an_idle_sandbox_pauses_and_the_next_request_wakes_it() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /tmp/a kept").await;
    world.pass(&engine, ACTIVE_S - 10).await;
    assert_eq!(status(&engine, &id).await, Status::Ready, "too early");
    world.fall_idle(&engine).await;
    let paused = record(&engine, &id).await;
    assert_eq!(paused.status, Status::Paused);
    assert_eq!(paused.paused.as_ref().map(|paused| paused.by), Some(PausedBy::Idleness));
    assert_eq!(world.standing(&paused), Some(Standing::Frozen));
    assert_eq!(output(&engine, &id, "read /tmp/a").await, "kept");
    assert_eq!(status(&engine, &id).await, Status::Ready);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn many_requests_at_once_wake_a_sandbox_once() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &id).await, Status::Paused);
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (engine, id) = (engine.clone(), id.clone());
            tokio::spawn(async move { exec(&engine, &id, "true").await.map(|result| result.exit.code) })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), 0);
    }
    assert_eq!(world.isolation.calls(Call::Thaw), 1);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn whatever_counts_as_work_keeps_a_sandbox_awake() {
    type Work = fn(&World, &warren_core::SandboxId);
    let works: [(&str, Work); 3] = [
        ("cpu", |world, id| world.isolation.change_usage(id, |usage| usage.cpu_ns += 60_000_000_000)),
        ("io", |world, id| world.isolation.change_usage(id, |usage| usage.io_bytes += 50_000_000)),
        ("a connection", |world, id| world.isolation.change_usage(id, |usage| usage.connections = 1)),
    ];
    for (name, work) in works {
        let world = World::new();
        let engine = world.open().await;
        let id = make(&engine).await.sandbox.id;
        world.pass(&engine, 1).await;
        for _ in 0..4 {
            work(&world, &id);
            world.pass(&engine, ACTIVE_S - 10).await;
            assert_eq!(status(&engine, &id).await, Status::Ready, "{name} is work");
        }
        world.isolation.change_usage(&id, |usage| usage.connections = 0);
        world.fall_idle(&engine).await;
        world.pass(&engine, ACTIVE_S + 1).await;
        assert_eq!(status(&engine, &id).await, Status::Paused, "{name} is over");
    }
}

#[tokio::test]
async fn an_open_exec_keeps_a_sandbox_awake() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let follower = engine.of(&owner()).sandbox(&id).start(program("sleep 1000")).await.unwrap();
    for _ in 0..4 {
        world.pass(&engine, ACTIVE_S + 1).await;
        assert_eq!(status(&engine, &id).await, Status::Ready);
    }
    drop(follower);
    eventually("it falls idle", async || {
        world.fall_idle(&engine).await;
        status(&engine, &id).await == Status::Paused
    })
    .await;
}

#[tokio::test]
async fn a_client_that_thinks_keeps_a_sandbox_awake() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    engine.of(&owner()).session(&made.session.id).think(2 * ACTIVE_S).await.unwrap();
    world.pass(&engine, 1).await;
    world.pass(&engine, ACTIVE_S + 10).await;
    assert_eq!(status(&engine, &id).await, Status::Ready);
    world.pass(&engine, ACTIVE_S).await;
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &id).await, Status::Paused, "the lease is over");
    let made = make(&engine).await;
    engine.of(&owner()).session(&made.session.id).think(2 * ACTIVE_S).await.unwrap();
    engine.of(&owner()).session(&made.session.id).think(0).await.unwrap();
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &made.sandbox.id).await, Status::Paused, "the lease was given back");
}

#[tokio::test]
async fn a_thinking_lease_has_a_longest() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let most = world.settings.most_thinking_s;
    match engine.of(&owner()).session(&made.session.id).think(most * 10).await {
        Ok(session) => {
            let left = session.thinking_until.expect("a lease").remaining_ms(world.clock.as_ref());
            assert!(left <= most * 1000, "{left}");
        }
        Err(error) => assert!(matches!(error, EngineError::Invalid { .. }), "{error:?}"),
    }
}

#[tokio::test]
async fn a_sandbox_paused_for_too_long_is_stopped_and_its_files_stay() {
    for by in [PausedBy::Idleness, PausedBy::Request] {
        let world = World::new();
        let engine = world.open().await;
        let id = make(&engine).await.sandbox.id;
        output(&engine, &id, "write /root/work precious").await;
        match by {
            PausedBy::Idleness => world.fall_idle(&engine).await,
            PausedBy::Request => drop(engine.of(&owner()).sandbox(&id).pause().await.unwrap()),
        }
        world.pass(&engine, SUSPENDED_S - 60).await;
        assert_eq!(status(&engine, &id).await, Status::Paused);
        world.pass(&engine, 61).await;
        eventually("it is stopped", async || status(&engine, &id).await == Status::Stopped).await;
        let death = engine.of(&owner()).sandbox(&id).death().await.unwrap().unwrap();
        let cause = if by == PausedBy::Idleness { DeathCause::Idle } else { DeathCause::Timeout };
        assert_eq!((death.cause, death.files_kept), (cause, true));
        assert_consistent(&world, &engine).await;
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
        assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
    }
}

#[tokio::test]
async fn a_session_without_its_client_expires_and_takes_the_sandbox_along() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    engine.of(&owner()).session(&made.session.id).detach().await.unwrap();
    world.pass(&engine, DETACHED_S - 10).await;
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Detached);
    world.pass(&engine, 11).await;
    eventually("it is stopped", async || status(&engine, &id).await == Status::Stopped).await;
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Expired);
    let death = engine.of(&owner()).sandbox(&id).death().await.unwrap().unwrap();
    assert_eq!((death.cause, death.files_kept), (DeathCause::Timeout, true));
    let back = engine.of(&owner()).session(&made.session.id).resume().await.unwrap();
    assert_eq!(back.session.state, SessionState::Active);
    assert_eq!(back.sandbox.map(|sandbox| sandbox.status), Some(Status::Ready));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_sandbox_that_somebody_else_uses_outlives_an_expired_session() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let second = engine.of(&owner()).sessions().attach(attach(&made.sandbox.id)).await.unwrap();
    engine.of(&owner()).session(&made.session.id).detach().await.unwrap();
    world.pass(&engine, DETACHED_S + 1).await;
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Expired);
    assert_eq!(state(&engine, &second.session.id).await, SessionState::Active);
    assert!(record(&engine, &made.sandbox.id).await.is_live());
    output(&engine, &made.sandbox.id, "true").await;
}

#[tokio::test]
async fn a_sandbox_whose_time_is_over_goes_with_or_without_its_files() {
    for on_expiry in [OnExpiry::Keep, OnExpiry::Delete] {
        let world = World::new();
        let engine = world.open().await;
        let mut sandbox = NewSandbox { on_expiry, ..new_sandbox() };
        sandbox.spec.limits.lifetime_s = 600;
        let made = engine.of(&owner()).sessions().acquire(Acquire { sandbox, ..acquire() }).await.unwrap();
        let id = made.sandbox.id;
        world.pass(&engine, 590).await;
        assert!(record(&engine, &id).await.is_live());
        world.pass(&engine, 11).await;
        eventually("it is over", async || status(&engine, &id).await == Status::Stopped).await;
        let death = engine.of(&owner()).sandbox(&id).death().await.unwrap().unwrap();
        let kept = on_expiry == OnExpiry::Keep;
        assert_eq!((death.cause, death.files_kept), (DeathCause::Ttl, kept));
        assert_eq!(world.isolation.standing(&id).is_some(), kept);
        assert!(!state(&engine, &made.session.id).await.is_open());
        assert_consistent(&world, &engine).await;
        if kept {
            let resumed = engine.of(&owner()).sandbox(&id).resume().await.unwrap();
            engine.sweep().await;
            assert!(
                record(&engine, &id).await.is_live(),
                "a resumed one has a new time to live: {resumed:?}"
            );
        }
    }
}

#[tokio::test]
async fn jumps_of_the_wall_clock_change_nothing() {
    const HOUR: i64 = 3600;
    for jump in [HOUR, -HOUR, 10 * 365 * 24 * HOUR, -10 * 365 * 24 * HOUR] {
        let world = World::new();
        let engine = world.open().await;
        let (first, second) = (make(&engine).await, make(&engine).await);
        engine.of(&owner()).session(&second.session.id).detach().await.unwrap();
        engine.of(&owner()).sandbox(&second.sandbox.id).pause().await.unwrap();
        world.clock.jump_wall_s(jump);
        world.pass(&engine, 1).await;
        assert_eq!(status(&engine, &first.sandbox.id).await, Status::Ready, "{jump}");
        assert_eq!(status(&engine, &second.sandbox.id).await, Status::Paused, "{jump}");
        assert_eq!(state(&engine, &second.session.id).await, SessionState::Detached, "{jump}");
        engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
        world.isolation.owner_ended();
        let engine = world.open().await;
        engine.sweep().await;
        assert_eq!(status(&engine, &first.sandbox.id).await, Status::Ready, "{jump}, restarted");
        assert_eq!(status(&engine, &second.sandbox.id).await, Status::Paused, "{jump}, restarted");
        world.pass(&engine, ACTIVE_S + 1).await;
        world.pass(&engine, ACTIVE_S + 1).await;
        assert_eq!(status(&engine, &first.sandbox.id).await, Status::Paused, "{jump}: idle as ever");
        world.pass(&engine, DETACHED_S).await;
        assert_eq!(state(&engine, &second.session.id).await, SessionState::Expired, "{jump}: due as ever");
    }
}

#[tokio::test]
async fn a_session_may_have_its_own_timeouts() {
    let world = World::new();
    let engine = world.open().await;
    let timeouts = Timeouts { active_s: 20, detached_s: 30, suspended_s: 40 };
    let request = Acquire { timeouts: Some(timeouts), ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    world.pass(&engine, 1).await;
    world.pass(&engine, 21).await;
    assert_eq!(status(&engine, &made.sandbox.id).await, Status::Paused);
    world.pass(&engine, 41).await;
    eventually("it is stopped", async || status(&engine, &made.sandbox.id).await == Status::Stopped).await;
    assert_consistent(&world, &engine).await;
}
