//! How an engine deals with what an earlier one left.

use std::collections::BTreeSet;

use warren_core::{
    DeathCause, Isolation, IsolationErrorKind, OwnerBond, Random, RootState, SandboxId, SandboxSpec,
    SessionState, Status, TemplateName, Templates,
};
use warren_engine::{Engine, EngineError, Mode, OpenError, ShutdownPolicy, StoppedFiles};
use warren_testkit::{Call, Standing};

use crate::support::*;

#[tokio::test]
async fn what_runs_is_adopted_with_its_programs_and_sessions() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    let paused = make(&engine).await;
    engine.of(&owner()).sandbox(&paused.sandbox.id).pause().await.unwrap();
    let idle = make(&engine).await;
    output(&engine, &id, "write /tmp/a kept").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    let engine = world.reopen(engine).await;
    assert_eq!(engine.mode(), Mode::Normal);
    assert_consistent(&world, &engine).await;
    let processes = engine.of(&owner()).sandbox(&id).processes().list().await.unwrap();
    assert_eq!(processes.iter().filter(|process| process.exit.is_none()).count(), 1, "it ran on");
    assert_eq!(output(&engine, &id, "read /tmp/a").await, "kept");
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Active);
    let error = exec(&engine, &paused.sandbox.id, "true").await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { .. }), "it waits to be told: {error:?}");
    engine.of(&owner()).sandbox(&paused.sandbox.id).resume().await.unwrap();
    output(&engine, &paused.sandbox.id, "true").await;
    world.isolation.die(&idle.sandbox.id, false);
    eventually("the end of an adopted one is noticed", async || {
        status(&engine, &idle.sandbox.id).await.is_terminal()
    })
    .await;
}

#[tokio::test]
async fn adopted_sandboxes_count_against_the_most() {
    let mut world = World::new();
    world.settings.max_sandboxes = 2;
    let engine = world.open().await;
    let first = make(&engine).await;
    make(&engine).await;
    let engine = world.reopen(engine).await;
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::MaxSandboxes { alive: 2, most: 2 }), "{error:?}");
    engine.of(&owner()).sandbox(&first.sandbox.id).stop(StoppedFiles::Delete).await.unwrap();
    make(&engine).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn after_a_reboot_everything_can_be_resumed_with_its_files() {
    let world = World::new();
    let engine = world.open().await;
    let mut ids = BTreeSet::new();
    for number in 0..6 {
        let id = make(&engine).await.sandbox.id;
        output(&engine, &id, &format!("write /root/work {number}")).await;
        ids.insert((number, id));
    }
    crash(&world, engine).await;
    world.isolation.reboot();
    world.clock.reboot(60);
    let engine = world.open().await;
    assert_eq!(engine.mode(), Mode::Normal, "files are there, so nothing is suspicious");
    assert_consistent(&world, &engine).await;
    for (number, id) in ids {
        let record = record(&engine, &id).await;
        assert_eq!(record.status, Status::Stopped);
        let death = record.death.unwrap();
        assert_eq!((death.cause, death.files_kept), (DeathCause::HostRestart, true));
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
        assert_eq!(output(&engine, &id, "read /root/work").await, number.to_string());
    }
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_death_that_nobody_saw_is_found_out() {
    let world = World::new();
    let engine = world.open().await;
    let killed = make(&engine).await.sandbox.id;
    let starved = make(&engine).await.sandbox.id;
    crash(&world, engine).await;
    world.isolation.die(&killed, false);
    world.isolation.die(&starved, true);
    let engine = world.open().await;
    assert_consistent(&world, &engine).await;
    let death = engine.of(&owner()).sandbox(&starved).death().await.unwrap().unwrap();
    assert_eq!((death.cause, death.files_kept), (DeathCause::Oom, true));
    let death = engine.of(&owner()).sandbox(&killed).death().await.unwrap().unwrap();
    assert!(
        matches!(death.cause, DeathCause::Exit | DeathCause::HostRestart) && death.files_kept,
        "{death:?}"
    );
}

#[tokio::test]
async fn one_that_vanished_is_written_off() {
    let world = World::new();
    let engine = world.open().await;
    let lost = make(&engine).await;
    let kept = make(&engine).await;
    crash(&world, engine).await;
    world.isolation.lose(&lost.sandbox.id);
    let engine = world.open().await;
    assert_eq!(engine.mode(), Mode::Normal, "one of two is no majority of at least five");
    let record = record(&engine, &lost.sandbox.id).await;
    assert!(record.status.is_terminal() && !record.files_kept(), "{record:?}");
    assert_eq!(state(&engine, &lost.session.id).await, SessionState::Terminated);
    output(&engine, &kept.sandbox.id, "true").await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn when_most_have_vanished_nothing_is_touched_until_somebody_has_looked() {
    let world = World::new();
    let engine = world.open().await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(make(&engine).await.sandbox.id);
    }
    crash(&world, engine).await;
    for id in &ids[..5] {
        world.isolation.lose(id);
    }
    let engine = world.open().await;
    let Mode::ReadOnly { reason } = engine.mode() else { panic!("it went on as if nothing had happened") };
    assert!(reason.contains('5'), "{reason}");
    let made = (world.isolation.calls(Call::Create), world.isolation.calls(Call::Destroy));
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::ReadOnly(_)), "{error:?}");
    let error = engine.of(&owner()).sandbox(&ids[7]).stop(StoppedFiles::Delete).await.unwrap_err();
    assert!(matches!(error, EngineError::ReadOnly(_)), "{error:?}");
    engine.sweep().await;
    assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 8, "questions are answered");
    assert!(all_sandboxes(&engine, &owner()).await.iter().all(|record| record.death.is_none()));
    assert_eq!((world.isolation.calls(Call::Create), world.isolation.calls(Call::Destroy)), made);
    assert_ne!(engine.health().await.status, warren_engine::HealthStatus::Ok);
    let engine = world.reopen(engine).await;
    assert!(matches!(engine.mode(), Mode::ReadOnly { .. }), "a restart is no excuse");
    engine.accept_losses().await.unwrap();
    assert_eq!(engine.mode(), Mode::Normal);
    engine.reconciled().await;
    eventually("the losses are written off", async || {
        record(&engine, &ids[0]).await.status.is_terminal()
            && record(&engine, &ids[4]).await.status.is_terminal()
    })
    .await;
    make(&engine).await;
    output(&engine, &ids[7], "true").await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_stopped_sandbox_whose_files_vanished_is_no_cause_for_alarm_alone() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    crash(&world, engine).await;
    world.isolation.lose(&id);
    let engine = world.open().await;
    assert_eq!(engine.mode(), Mode::Normal);
    assert!(engine.of(&owner()).sandbox(&id).resume().await.is_err());
    make(&engine).await;
}

#[tokio::test]
async fn what_others_made_on_the_same_machine_is_left_alone() {
    let world = World::new();
    let engine = world.open().await;
    make(&engine).await;
    crash(&world, engine).await;
    let id = SandboxId::from_random(world.random.bits());
    let spec = SandboxSpec::new(TemplateName::host());
    let request = world.templates.request(&id, &spec, OwnerBond::Outlives).unwrap();
    world.isolation.create(warren_core::CreateRequest { state: RootState::Fresh, ..request }).unwrap();
    let engine = world.open().await;
    engine.sweep().await;
    assert_eq!(world.isolation.standing(&id), Some(Standing::Running));
    assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 1);
}

#[tokio::test]
async fn an_engine_that_cannot_see_does_not_start() {
    let world = World::new();
    let engine = world.open().await;
    make(&engine).await;
    crash(&world, engine).await;
    world.isolation.fail_next(Call::List, IsolationErrorKind::Host);
    let error = Engine::open(world.parts(|_| {}), world.settings.clone()).await.expect_err("an error");
    assert!(matches!(error, OpenError::Backend(_)), "{error:?}");
    world.catalog.fail_next(warren_core::catalog::CatalogErrorKind::Damaged);
    let error = Engine::open(world.parts(|_| {}), world.settings.clone()).await.expect_err("an error");
    assert!(matches!(error, OpenError::Catalog(_)), "{error:?}");
    let mut parts = world.parts(|_| {});
    parts.backends.clear();
    let error = Engine::open(parts, world.settings.clone()).await.expect_err("an error");
    assert!(matches!(error, OpenError::NoBackend), "{error:?}");
    let engine = world.open().await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn timeouts_go_on_counting_over_a_restart() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    engine.of(&owner()).session(&made.session.id).detach().await.unwrap();
    engine.shutdown(ShutdownPolicy::Leave).await;
    world.isolation.owner_ended();
    world.clock.advance_s(DETACHED_S - 10);
    let engine = world.open().await;
    engine.sweep().await;
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Detached);
    world.pass(&engine, 11).await;
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Expired);
    eventually("its sandbox is stopped", async || status(&engine, &made.sandbox.id).await == Status::Stopped)
        .await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_hundred_restarts_lose_nothing() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    crash(&world, engine).await;
    for number in 0..100 {
        let engine = world.open().await;
        output(&engine, &id, &format!("write /root/{number} there")).await;
        crash(&world, engine).await;
    }
    let engine = world.open().await;
    for number in 0..100 {
        assert_eq!(output(&engine, &id, &format!("read /root/{number}")).await, "there");
    }
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn one_that_fell_idle_is_still_woken_by_the_next_request_after_a_restart() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.fall_idle(&engine).await;
    assert_eq!(status(&engine, &id).await, Status::Paused);
    let engine = world.reopen(engine).await;
    assert_eq!(status(&engine, &id).await, Status::Paused);
    output(&engine, &id, "true").await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_time_to_live_that_ended_while_no_server_ran_is_noticed() {
    for reboot in [false, true] {
        let world = World::new();
        let engine = world.open().await;
        let mut request = acquire();
        request.sandbox.spec.limits.lifetime_s = 600;
        let id = engine.of(&owner()).sessions().acquire(request).await.unwrap().sandbox.id;
        output(&engine, &id, "write /root/work precious").await;
        crash(&world, engine).await;
        if reboot {
            world.isolation.reboot();
            world.clock.reboot(601);
        } else {
            world.clock.advance_s(601);
        }
        let engine = world.open().await;
        engine.sweep().await;
        eventually("it is stopped", async || status(&engine, &id).await == Status::Stopped).await;
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
        assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn an_idempotency_key_is_remembered_over_a_restart() {
    let world = World::new();
    let engine = world.open().await;
    let request = || {
        let expected = warren_engine::Expected { key: "k".to_owned(), fingerprint: "body".to_owned() };
        warren_engine::Acquire { idempotency: Some(expected), ..acquire() }
    };
    let made = engine.of(&owner()).sessions().acquire(request()).await.unwrap();
    let engine = world.reopen(engine).await;
    let again = engine.of(&owner()).sessions().acquire(request()).await.unwrap();
    assert!(again.repeated);
    assert_eq!((again.sandbox.id, again.session.id), (made.sandbox.id, made.session.id));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_does_not_answer_fails_the_start_instead_of_holding_it_up() {
    let world = World::new();
    let held = world.isolation.hold(Call::List);
    let error = Engine::open(world.parts(|_| {}), world.settings.clone()).await.unwrap_err();
    let OpenError::Backend(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("within 60 s"), "{error}");
    tokio::time::resume();
    drop(held);
    world.open().await;
}
