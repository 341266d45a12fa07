use std::collections::BTreeSet;
use std::time::Duration;

use warren_core::Field;
use warren_core::{IsolationErrorKind, NetworkPolicy, SandboxSpec, Status, TemplateName};
use warren_engine::{Acquire, EngineError, Expected, NewSandbox, Requirements, StoppedFiles};
use warren_testkit::{Call, Standing};

use crate::support::*;

#[tokio::test]
async fn an_acquired_sandbox_is_ready_and_runs_programs() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    assert!(made.fresh && !made.repeated);
    assert_eq!(made.sandbox.status, Status::Ready);
    assert_eq!(made.session.sandbox, made.sandbox.id);
    assert_eq!(output(&engine, &made.sandbox.id, "echo hello there").await, "hello there\n");
    assert_eq!(exec(&engine, &made.sandbox.id, "false").await.unwrap().exit.code, 1);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn two_sandboxes_share_nothing() {
    let world = World::new();
    let engine = world.open().await;
    let (one, two) = (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    assert_ne!(one, two);
    output(&engine, &one, "write /tmp/mine secret").await;
    assert_eq!(output(&engine, &one, "read /tmp/mine").await, "secret");
    assert_eq!(exec(&engine, &two, "read /tmp/mine").await.unwrap().exit.code, 1);
}

#[tokio::test]
async fn no_more_than_the_most_are_made_however_many_ask_at_once() {
    let mut world = World::new();
    world.settings.max_sandboxes = 7;
    world.isolation.delay(Call::Create, Duration::from_millis(5));
    let engine = world.open().await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.of(&owner()).sessions().acquire(acquire()).await })
        })
        .collect();
    let mut made = BTreeSet::new();
    for task in tasks {
        match task.await.unwrap() {
            Ok(acquired) => assert!(made.insert(acquired.sandbox.id)),
            Err(EngineError::MaxSandboxes { most: 7, .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(made.len(), 7);
    assert_consistent(&world, &engine).await;
    let ended = made.first().unwrap();
    engine.of(&owner()).sandbox(ended).stop(StoppedFiles::Keep).await.unwrap();
    make(&engine).await;
    let error = engine.of(&owner()).sandbox(ended).resume().await.unwrap_err();
    assert!(matches!(error, EngineError::MaxSandboxes { .. }), "a resumed one counts too: {error:?}");
    assert_eq!(status(&engine, ended).await, Status::Stopped);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn one_owner_does_not_take_all_places_while_another_may_come() {
    let mut world = World::new();
    world.settings.max_sandboxes = 4;
    let engine = world.open().await;
    engine.expect_owners(2);
    for _ in 0..3 {
        make(&engine).await;
    }
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::MaxSandboxesOfOwner { alive: 3, most: 3 }), "{error:?}");
    assert!(error.to_string().contains("limits.max_sandboxes_per_owner"), "{error}");
    engine.of(&"other".parse().unwrap()).sessions().acquire(acquire()).await.unwrap();
    let error = engine.of(&"other".parse().unwrap()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::MaxSandboxes { alive: 4, most: 4 }), "{error:?}");
}

#[tokio::test]
async fn a_create_that_fails_leaves_a_record_that_says_why_and_gives_its_place_back() {
    let mut world = World::new();
    world.settings.max_sandboxes = 1;
    let engine = world.open().await;
    for kind in [IsolationErrorKind::Layer, IsolationErrorKind::Exhausted, IsolationErrorKind::Host] {
        world.isolation.fail_next(Call::Create, kind);
        let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
        let EngineError::StartFailed { id, source } = error else { panic!("{error:?}") };
        assert_eq!(source.kind, kind);
        let record = record(&engine, &id).await;
        assert_eq!(record.status, Status::Failed);
        let death = record.death.expect("a certificate");
        assert_eq!((death.cause.word(), death.files_kept), ("backend_error", false));
    }
    assert_consistent(&world, &engine).await;
    make(&engine).await;
    assert_eq!(engine.stats().await.create_failed, 3);
}

#[tokio::test]
async fn nothing_is_made_on_a_full_disk_and_what_lives_goes_on() {
    let world = World::new();
    let engine = world.open().await;
    let made = make(&engine).await;
    world.isolation.set_free(Some(world.settings.disk.critical_bytes - 1));
    let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
    assert!(matches!(error, EngineError::DiskLow { .. }), "{error:?}");
    assert_eq!(output(&engine, &made.sandbox.id, "echo on").await, "on\n");
    assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 1);
    world.isolation.set_free(Some(world.settings.disk.critical_bytes + (1 << 30)));
    make(&engine).await;
}

#[tokio::test]
async fn a_template_that_is_missing_or_broken_is_refused_before_anything_is_written() {
    let world = World::new();
    let engine = world.open().await;
    for name in ["missing", "broken"] {
        let spec = SandboxSpec::new(name.parse::<TemplateName>().unwrap());
        let request = Acquire { sandbox: NewSandbox { spec, ..new_sandbox() }, ..acquire() };
        let error = engine.of(&owner()).sessions().acquire(request).await.unwrap_err();
        assert!(matches!(error, EngineError::Template(_)), "{name}: {error:?}");
    }
    assert!(all_sandboxes(&engine, &owner()).await.is_empty());
    world.isolation.assert_only(&[]);
}

#[tokio::test]
async fn a_value_outside_the_limits_is_named() {
    let world = World::new();
    let engine = world.open().await;
    let mut spec = SandboxSpec::new(TemplateName::host());
    spec.limits.memory = warren_core::ByteSize::gib(4000);
    let request = Acquire { sandbox: NewSandbox { spec, ..new_sandbox() }, ..acquire() };
    let error = engine.of(&owner()).sessions().acquire(request).await.unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field: Field::Memory, .. }), "{error:?}");
    let mut spec = SandboxSpec::new(TemplateName::host());
    spec.hostname = Some("-".to_owned());
    let request = Acquire { sandbox: NewSandbox { spec, ..new_sandbox() }, ..acquire() };
    let error = engine.of(&owner()).sessions().acquire(request).await.unwrap_err();
    assert!(matches!(&error, EngineError::Invalid { field: Field::Hostname, .. }), "{error:?}");
    assert!(all_sandboxes(&engine, &owner()).await.is_empty());
}

fn with_key(key: &str, fingerprint: &str) -> Acquire {
    let expected = Expected { key: key.to_owned(), fingerprint: fingerprint.to_owned() };
    Acquire { idempotency: Some(expected), ..acquire() }
}

#[tokio::test]
async fn a_repeated_create_makes_nothing_new() {
    let world = World::new();
    let engine = world.open().await;
    let first = engine.of(&owner()).sessions().acquire(with_key("k", "body")).await.unwrap();
    let again = engine.of(&owner()).sessions().acquire(with_key("k", "body")).await.unwrap();
    assert!(again.repeated && !first.repeated);
    assert_eq!(again.session.id, first.session.id);
    assert_eq!(again.sandbox.id, first.sandbox.id);
    let error = engine.of(&owner()).sessions().acquire(with_key("k", "other body")).await.unwrap_err();
    assert!(matches!(error, EngineError::IdempotencyMismatch), "{error:?}");
    let theirs = engine.of(&stranger()).sessions().acquire(with_key("k", "other body")).await.unwrap();
    assert!(!theirs.repeated);
    assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 1);
}

#[tokio::test]
async fn a_create_repeated_while_the_first_runs_gets_the_same_answer() {
    let world = World::new();
    world.isolation.delay(Call::Create, Duration::from_millis(20));
    let engine = world.open().await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.of(&owner()).sessions().acquire(with_key("k", "body")).await })
        })
        .collect();
    let mut sessions = BTreeSet::new();
    let mut repeated = 0;
    for task in tasks {
        let acquired = task.await.unwrap().unwrap();
        repeated += usize::from(acquired.repeated);
        assert_eq!(acquired.sandbox.status, Status::Ready, "an answer before it was ready");
        sessions.insert(acquired.session.id);
    }
    assert_eq!((sessions.len(), repeated), (1, 19));
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_background_create_answers_at_once_and_finishes_later() {
    let world = World::new();
    let engine = world.open().await;
    let hold = world.isolation.hold(Call::Create);
    let request = Acquire { background: true, ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    assert_eq!(made.sandbox.status, Status::Creating);
    let error = exec(&engine, &made.sandbox.id, "true").await.unwrap_err();
    assert!(matches!(error, EngineError::Denied { status: Status::Creating, .. }), "{error:?}");
    drop(hold);
    let ready =
        engine.of(&owner()).sandbox(&made.sandbox.id).changed(made.sandbox.generation, 60_000).await.unwrap();
    assert_eq!(ready.status, Status::Ready);
    output(&engine, &made.sandbox.id, "true").await;
}

#[tokio::test]
async fn a_sandbox_stopped_while_it_is_being_made_leaves_nothing() {
    let world = World::new();
    let engine = world.open().await;
    let hold = world.isolation.hold(Call::Create);
    let request = Acquire { background: true, ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    let stopping = {
        let (engine, id) = (engine.clone(), made.sandbox.id.clone());
        tokio::spawn(async move { engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(hold);
    let record = stopping.await.unwrap().unwrap();
    assert!(record.status.is_terminal(), "{record:?}");
    world.isolation.assert_only(&[]);
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn an_acquire_whose_caller_leaves_is_finished_or_undone() {
    let world = World::new();
    let engine = world.open().await;
    let hold = world.isolation.hold(Call::Create);
    let call = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.of(&owner()).sessions().acquire(acquire()).await })
    };
    eventually("the create has begun", async || world.isolation.held(Call::Create) == 1).await;
    call.abort();
    drop(hold);
    eventually("it is over", async || {
        all_sandboxes(&engine, &owner()).await.iter().all(|record| record.status != Status::Creating)
    })
    .await;
    assert_consistent(&world, &engine).await;
}

#[tokio::test]
async fn a_preferred_sandbox_is_joined_if_it_fits() {
    let world = World::new();
    let engine = world.open().await;
    let mut without = acquire();
    without.sandbox.spec.network = NetworkPolicy::none();
    let made = engine.of(&owner()).sessions().acquire(without).await.unwrap();
    let prefer = || Acquire { preferred: Some(made.sandbox.id.clone().into()), fresh: false, ..acquire() };
    let joined = engine.of(&owner()).sessions().acquire(prefer()).await.unwrap();
    assert!(!joined.fresh);
    assert_eq!(joined.sandbox.id, made.sandbox.id);
    assert_ne!(joined.session.id, made.session.id);
    let fresh = engine.of(&owner()).sessions().acquire(Acquire { fresh: true, ..prefer() }).await.unwrap();
    assert!(fresh.fresh && fresh.sandbox.id != made.sandbox.id);
    let required = Requirements { network: true, ..Requirements::default() };
    let mut other = Acquire { required, ..prefer() };
    other.sandbox.spec.network = NetworkPolicy::public();
    let other = engine.of(&owner()).sessions().acquire(other).await.unwrap();
    assert!(other.fresh && other.sandbox.id != made.sandbox.id);
    let theirs = engine.of(&stranger()).sessions().acquire(prefer()).await.unwrap();
    assert!(theirs.fresh && theirs.sandbox.id != made.sandbox.id, "another's sandbox is as good as none");
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_refused() {
    let world = World::new();
    let engine = world.open().await;
    let request = Acquire { backend: Some("firecracker".to_owned()), ..acquire() };
    let error = engine.of(&owner()).sessions().acquire(request).await.unwrap_err();
    assert!(matches!(&error, EngineError::NothingFits { .. } | EngineError::Invalid { .. }), "{error:?}");
    assert!(all_sandboxes(&engine, &owner()).await.is_empty());
    world.isolation.assert_only(&[]);
    let named = Acquire { backend: Some("fake".to_owned()), ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(named).await.unwrap();
    assert_eq!(made.sandbox.backend, "fake");
    assert_eq!(world.standing(&made.sandbox), Some(Standing::Running));
}

#[tokio::test]
async fn a_stopped_sandbox_is_not_started_on_a_full_disk() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    world.isolation.set_free(Some(world.settings.disk.critical_bytes - 1));
    let error = engine.of(&owner()).sandbox(&id).resume().await.unwrap_err();
    assert!(matches!(error, EngineError::DiskLow { .. }), "{error:?}");
    assert_consistent(&world, &engine).await;
    engine
        .of(&owner())
        .sandbox(&id)
        .stop(StoppedFiles::Delete)
        .await
        .expect("to make room is always possible");
    world.isolation.assert_only(&[]);
}
