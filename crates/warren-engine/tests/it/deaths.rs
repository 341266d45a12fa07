use warren_core::catalog::CatalogErrorKind;
use warren_core::{DeathCause, SessionState, Status};
use warren_engine::{EngineError, StoppedFiles};
use warren_testkit::Standing;

use crate::support::*;

#[tokio::test]
async fn the_end_of_the_first_process_is_noticed_at_once_and_the_files_stay() {
    for (oom, cause) in [(false, DeathCause::Exit), (true, DeathCause::Oom)] {
        let world = World::new();
        let engine = world.open().await;
        let made = make(&engine).await;
        let id = made.sandbox.id;
        output(&engine, &id, "write /root/work precious").await;
        world.isolation.die(&id, oom);
        eventually("it is noticed", async || status(&engine, &id).await.is_terminal()).await;
        let record = record(&engine, &id).await;
        let death = record.death.clone().expect("a certificate");
        assert_eq!((death.cause, death.files_kept), (cause, true));
        assert_eq!(world.standing(&record), Some(Standing::Halted));
        assert!(!death.detail.is_empty() && death.usage.is_some());
        let session = &made.session.id;
        eventually("its session is told", async || !state(&engine, session).await.is_open()).await;
        assert_consistent(&world, &engine).await;
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
        assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
    }
}

#[tokio::test]
async fn a_certificate_has_the_last_words_and_the_last_processes() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "echo famous last words").await;
    engine.of(&owner()).sandbox(&id).spawn(program("sleep 1000")).await.unwrap();
    world.isolation.change_usage(&id, |usage| usage.memory_peak_bytes = 12_345);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let death = engine.of(&owner()).sandbox(&id).death().await.unwrap().expect("a certificate");
    assert_eq!(death.cause, DeathCause::Killed { by: "tester".to_owned() });
    assert!(death.last_output.contains("famous last words"), "{death:?}");
    assert!(death.processes.iter().any(|line| line.contains("sleep")), "{death:?}");
    assert_eq!(death.usage.map(|usage| usage.memory_peak_bytes), Some(12_345));
    assert!(!death.files_kept);
}

#[tokio::test]
async fn a_living_sandbox_has_no_certificate_and_a_resumed_one_none_any_more() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    assert_eq!(engine.of(&owner()).sandbox(&id).death().await.unwrap(), None);
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    assert!(engine.of(&owner()).sandbox(&id).death().await.unwrap().is_some());
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(engine.of(&owner()).sandbox(&id).death().await.unwrap(), None);
}

#[tokio::test]
async fn what_runs_in_a_sandbox_that_dies_ends_with_a_reason() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let waiting = {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move { exec(&engine, &id, "sleep 1000").await })
    };
    eventually("it runs", async || world.isolation.running(&id) == 1).await;
    world.isolation.die(&id, true);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::SandboxEnded { .. }), "{error:?}");
}

#[tokio::test]
async fn a_frozen_sandbox_that_dies_is_noticed_too() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    world.isolation.die(&id, false);
    eventually("it is noticed", async || status(&engine, &id).await.is_terminal()).await;
    let session = &made.session.id;
    eventually("its session is told", async || !state(&engine, session).await.is_open()).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_end_that_cannot_be_written_down_is_tried_again_in_every_state() {
    for paused in [false, true] {
        let world = World::new();
        let engine = world.open().await;
        let made = make(&engine).await;
        let id = made.sandbox.id;
        if paused {
            engine.of(&owner()).sandbox(&id).pause().await.unwrap();
        }
        world.catalog.fail_next_call("update_sandbox", CatalogErrorKind::Busy);
        world.isolation.die(&id, false);
        eventually("it is tried again", async || {
            world.pass(&engine, 6).await;
            status(&engine, &id).await.is_terminal()
        })
        .await;
        let session = &made.session.id;
        eventually("its session is told", async || !state(&engine, session).await.is_open()).await;
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn certificates_outlive_the_engine_until_history_ends() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    let before = engine.of(&owner()).sandbox(&id).death().await.unwrap();
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.isolation.owner_ended();
    let engine = world.open().await;
    assert_eq!(engine.of(&owner()).sandbox(&id).death().await.unwrap(), before);
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Terminated);
    world.pass(&engine, world.settings.history_s - 60).await;
    assert_eq!(status(&engine, &id).await, Status::Stopped);
    world.pass(&engine, 120).await;
    let error = engine.of(&owner()).sandbox(&id).record().await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn kept_files_are_never_forgotten_with_history() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /root/work precious").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    world.pass(&engine, world.settings.history_s * 3).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
}

#[tokio::test]
async fn one_that_wrote_too_much_is_told_so() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.change_usage(&id, |usage| usage.disk_exceeded = true);
    world.isolation.die(&id, false);
    eventually("it is noticed", async || status(&engine, &id).await.is_terminal()).await;
    let death = engine.of(&owner()).sandbox(&id).death().await.unwrap().unwrap();
    assert_eq!((death.cause, death.files_kept), (DeathCause::DiskFull, true));
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_forgets_no_certificate() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    world.clock.jump_wall_s(10 * 365 * 86_400);
    engine.sweep().await;
    assert!(engine.of(&owner()).sandbox(&id).death().await.unwrap().is_some());
}

#[tokio::test]
async fn a_machine_that_goes_down_brings_all_to_rest_and_says_so() {
    let world = World::new();
    let engine = world.open().await;
    let (busy, paused) = (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    engine.of(&owner()).sandbox(&busy).spawn(program("sleep 1000")).await.unwrap();
    engine.of(&owner()).sandbox(&paused).pause().await.unwrap();
    engine.shutdown(warren_engine::ShutdownPolicy::MachineGoesDown).await;
    for id in [&busy, &paused] {
        assert_eq!(world.isolation.standing(id), Some(Standing::Halted));
    }
    world.isolation.owner_ended();
    let engine = world.open().await;
    for id in [&busy, &paused] {
        let death = engine.of(&owner()).sandbox(id).death().await.unwrap().unwrap();
        assert_eq!((death.cause, death.files_kept), (DeathCause::HostRestart, true));
        assert_eq!(death.detail, "the machine was shut down");
        engine.of(&owner()).sandbox(id).resume().await.unwrap();
    }
}
