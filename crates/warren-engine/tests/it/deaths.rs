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
        engine.resume(&owner(), &id).await.unwrap();
        assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
    }
}

#[tokio::test]
async fn a_certificate_has_the_last_words_and_the_last_processes() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "echo famous last words").await;
    engine.spawn(&owner(), &id, program("sleep 1000")).await.unwrap();
    world.isolation.change_usage(&id, |usage| usage.memory_peak_bytes = 12_345);
    engine.stop(&owner(), &id, StoppedFiles::Delete, "tester").await.unwrap();
    let death = engine.death(&owner(), &id).await.unwrap().expect("a certificate");
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
    assert_eq!(engine.death(&owner(), &id).await.unwrap(), None);
    engine.stop(&owner(), &id, StoppedFiles::Keep, "tester").await.unwrap();
    assert!(engine.death(&owner(), &id).await.unwrap().is_some());
    engine.resume(&owner(), &id).await.unwrap();
    assert_eq!(engine.death(&owner(), &id).await.unwrap(), None);
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
    let id = make(&engine).await.sandbox.id;
    engine.pause(&owner(), &id).await.unwrap();
    world.isolation.die(&id, false);
    eventually("it is noticed", async || status(&engine, &id).await.is_terminal()).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn certificates_outlive_the_engine_until_history_ends() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    engine.stop(&owner(), &id, StoppedFiles::Delete, "tester").await.unwrap();
    let before = engine.death(&owner(), &id).await.unwrap();
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.isolation.owner_ended();
    let engine = world.open().await;
    assert_eq!(engine.death(&owner(), &id).await.unwrap(), before);
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Terminated);
    world.pass(&engine, world.settings.history_s - 60).await;
    assert_eq!(status(&engine, &id).await, Status::Stopped);
    world.pass(&engine, 120).await;
    let error = engine.sandbox(&owner(), &id).await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn kept_files_are_never_forgotten_with_history() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /root/work precious").await;
    engine.stop(&owner(), &id, StoppedFiles::Keep, "tester").await.unwrap();
    world.pass(&engine, world.settings.history_s * 3).await;
    engine.resume(&owner(), &id).await.unwrap();
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
    let death = engine.death(&owner(), &id).await.unwrap().unwrap();
    assert_eq!((death.cause, death.files_kept), (DeathCause::DiskFull, true));
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_forgets_no_certificate() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.stop(&owner(), &id, StoppedFiles::Delete, "tester").await.unwrap();
    world.clock.jump_wall_s(10 * 365 * 86_400);
    engine.sweep().await;
    assert!(engine.death(&owner(), &id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_machine_that_goes_down_brings_all_to_rest_and_says_so() {
    let world = World::new();
    let engine = world.open().await;
    let (busy, paused) = (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    engine.spawn(&owner(), &busy, program("sleep 1000")).await.unwrap();
    engine.pause(&owner(), &paused).await.unwrap();
    engine.shutdown(warren_engine::ShutdownPolicy::MachineGoesDown).await;
    for id in [&busy, &paused] {
        assert_eq!(world.isolation.standing(id), Some(Standing::Halted));
    }
    world.isolation.owner_ended();
    let engine = world.open().await;
    for id in [&busy, &paused] {
        let death = engine.death(&owner(), id).await.unwrap().unwrap();
        assert_eq!((death.cause, death.files_kept), (DeathCause::HostRestart, true));
        assert_eq!(death.detail, "the machine was shut down");
        engine.resume(&owner(), id).await.unwrap();
    }
}
