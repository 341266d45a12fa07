use std::time::Duration;

use warren_core::{DeathCause, DenyReason, IsolationErrorKind, PausedBy, SessionState, Status};
use warren_engine::{EngineError, Patch, ProcessEvent, StoppedFiles};
use warren_testkit::{Call, Standing};
use warren_wire::guest::{Reader, Stdin};

use crate::support::*;

#[tokio::test]
async fn a_paused_sandbox_denies_work_until_it_is_resumed() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let paused = engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    assert_eq!(paused.status, Status::Paused);
    assert_eq!(paused.paused.as_ref().map(|paused| paused.by), Some(PausedBy::Request));
    assert_eq!(world.standing(&paused), Some(Standing::Frozen));
    let again = engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    assert_eq!(again.generation, paused.generation, "nothing has changed");
    let error = exec(&engine, &id, "true").await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { reason: DenyReason::Paused, .. }), "{error:?}");
    let error = engine.of(&owner()).sandbox(&id).processes().list().await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { .. }), "{error:?}");
    let resumed = engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!((resumed.status, resumed.paused.is_none()), (Status::Ready, true));
    output(&engine, &id, "echo on").await;
    let calls = world.isolation.calls(Call::Thaw);
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(world.isolation.calls(Call::Thaw), calls, "it runs already");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_program_that_runs_goes_on_after_a_pause() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let spec = warren_engine::ProcessSpec { stdin: Stdin::Piped, ..program("cat") };
    let mut cat = engine.of(&owner()).sandbox(&id).start(spec).await.unwrap();
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    cat.writer.write("still here".into()).await.unwrap();
    cat.writer.close_stdin().await.unwrap();
    let mut heard = Vec::new();
    while let Some(event) = cat.next().await.unwrap() {
        match event {
            ProcessEvent::Stdout { bytes, .. } => heard.extend_from_slice(&bytes),
            ProcessEvent::Exited(exit) => assert_eq!(exit.code, 0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, b"still here");
}

#[tokio::test]
async fn a_stopped_sandbox_keeps_its_files_and_is_started_again_under_its_id() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    output(&engine, &id, "write /root/work precious").await;
    let stopped = engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    assert_eq!(stopped.status, Status::Stopped);
    assert!(stopped.files_kept());
    assert_eq!(world.standing(&stopped), Some(Standing::Halted));
    assert!(!state(&engine, &made.session.id).await.is_open());
    let error = exec(&engine, &id, "true").await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { reason: DenyReason::Stopped, .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
    let resumed = engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!((resumed.status, resumed.death.is_none()), (Status::Ready, true));
    assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Active, "its session goes on with it");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_removed_sandbox_is_gone_and_remembered() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let removed = engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!((removed.status, removed.files_kept()), (Status::Stopped, false));
    world.isolation.assert_only(&[]);
    let death = engine.of(&owner()).sandbox(&id).death().await.unwrap().expect("a certificate");
    assert_eq!(death.cause, DeathCause::Killed { by: "tester".to_owned() });
    let again = engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(again.generation, removed.generation, "nothing has changed");
    let error = engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { reason: DenyReason::Stopped, .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn files_that_were_kept_can_be_deleted_later() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    let removed = engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert!(!removed.files_kept());
    world.isolation.assert_only(&[]);
    assert!(engine.of(&owner()).sandbox(&id).resume().await.is_err());
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_stop_ends_what_runs_and_tells_those_who_listen() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let mut follower = engine.of(&owner()).sandbox(&id).start(program("sleep 1000")).await.unwrap();
    let waiting = {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move { exec(&engine, &id, "sleep 1000").await })
    };
    eventually("both run", async || world.isolation.running(&id) == 2).await;
    let sandbox = engine.of(&owner()).sandbox(&id);
    let stop = sandbox.stop(StoppedFiles::Delete);
    tokio::time::timeout(PATIENCE, stop).await.expect("a stop does not wait for work").unwrap();
    let error = follower.next().await.unwrap_err();
    assert!(matches!(error, EngineError::SandboxEnded { .. }), "{error:?}");
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::SandboxEnded { .. }), "{error:?}");
}

#[tokio::test]
async fn a_paused_sandbox_can_be_stopped_and_its_files_are_there() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /root/work precious").await;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
}

#[tokio::test]
async fn a_pause_that_fails_leaves_the_sandbox_running() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.fail_next(Call::Freeze, IsolationErrorKind::Host);
    let error = engine.of(&owner()).sandbox(&id).pause().await.unwrap_err();
    assert!(matches!(error, EngineError::Backend(_)), "{error:?}");
    assert_eq!(status(&engine, &id).await, Status::Ready);
    output(&engine, &id, "true").await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_resume_that_fails_leaves_the_sandbox_paused() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    world.isolation.fail_next(Call::Thaw, IsolationErrorKind::Host);
    let error = engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
    assert!(matches!(error, EngineError::Backend(_)), "{error:?}");
    assert_eq!(status(&engine, &id).await, Status::Paused);
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    output(&engine, &id, "true").await;
}

#[tokio::test]
async fn a_restart_that_fails_keeps_the_files_for_the_next_try() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    output(&engine, &id, "write /root/work precious").await;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    world.isolation.fail_next(Call::Create, IsolationErrorKind::Host);
    let error = engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
    assert!(matches!(error, EngineError::StartFailed { .. }), "{error:?}");
    let record = record(&engine, &id).await;
    assert!(record.status.is_terminal() && record.files_kept(), "{record:?}");
    assert_consistent(&world, &engine).await;
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
}

#[tokio::test]
async fn a_stop_whose_backend_fails_is_tried_again_and_never_forgotten() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.fail_next(Call::Destroy, IsolationErrorKind::Host);
    let first = engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await;
    if first.is_err() {
        engine.sweep().await;
        engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    }
    eventually("it is gone", async || world.isolation.standing(&id).is_none()).await;
    eventually("it is over", async || status(&engine, &id).await.is_terminal()).await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn who_waits_for_a_change_is_told() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    let seen = record(&engine, &id).await.generation;
    let unchanged = engine.of(&owner()).sandbox(&id).changed(seen, 20).await.unwrap();
    assert_eq!(unchanged.generation, seen);
    let waiting = {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move { engine.of(&owner()).sandbox(&id).changed(seen, 60_000).await })
    };
    tokio::time::sleep(Duration::from_millis(10)).await;
    engine.of(&owner()).sandbox(&id).pause().await.unwrap();
    let changed = waiting.await.unwrap().unwrap();
    assert!(changed.generation > seen);
}

#[tokio::test]
async fn labels_metadata_and_time_to_live_can_be_changed() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let word = |text: &str| Some([("team".to_owned(), text.to_owned())].into());
    let patch = Patch { labels: word("red"), metadata: word("blue"), ttl_s: Some(60), ..Patch::default() };
    let patched = engine.of(&owner()).sandbox(&id).update(patch).await.unwrap();
    assert_eq!(patched.spec.labels.get("team").map(String::as_str), Some("red"));
    assert_eq!(patched.metadata.get("team").map(String::as_str), Some("blue"));
    assert_eq!(record(&engine, &id).await, patched);
    world.pass(&engine, 61).await;
    eventually("its time is over", async || status(&engine, &id).await == Status::Stopped).await;
    let death = engine.of(&owner()).sandbox(&id).death().await.unwrap().unwrap();
    assert_eq!((death.cause, death.files_kept), (DeathCause::Ttl, true));
}

#[tokio::test]
async fn a_process_is_known_by_number_and_tag_until_its_sandbox_ends() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    let id = made.sandbox.id;
    let spec = warren_engine::ProcessSpec { tag: Some("server".into()), ..program("sleep 1000") };
    let process = engine.of(&owner()).sandbox(&id).spawn(spec).await.unwrap();
    let tag = warren_wire::guest::ProcessSelector::Tag("server".into());
    assert_eq!(
        engine.of(&owner()).sandbox(&id).processes().get(tag.clone()).await.unwrap().process,
        process.process
    );
    assert_eq!(engine.of(&owner()).sandbox(&id).processes().list().await.unwrap().len(), 1);
    let mut follower =
        engine.of(&owner()).sandbox(&id).processes().follow(tag.clone(), 0, Reader::Skips).await.unwrap();
    engine.of(&owner()).sandbox(&id).processes().signal(tag.clone(), 15, true).await.unwrap();
    assert_eq!(engine.of(&owner()).sandbox(&id).processes().wait(tag.clone()).await.unwrap().code, 143);
    let event = follower.next().await.unwrap();
    assert!(matches!(event, Some(ProcessEvent::Exited(exit)) if exit.code == 143), "{event:?}");
    let error = engine.of(&owner()).sandbox(&id).processes().signal(tag, 15, true).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused(_)), "{error:?}");
    let missing = warren_wire::guest::ProcessSelector::Tag("nobody".into());
    let error = engine.of(&owner()).sandbox(&id).processes().get(missing).await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. } | EngineError::Refused(_)), "{error:?}");
    assert_eq!(state(&engine, &made.session.id).await, SessionState::Active);
}
