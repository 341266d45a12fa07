use warren_core::IsolationErrorKind;
use warren_engine::{EngineError, HealthStatus, ShutdownPolicy, StoppedFiles};
use warren_testkit::{Call, Standing};

use crate::support::*;

#[tokio::test]
async fn figures_follow_what_happens() {
    let world = World::new();
    let engine = world.open().await;
    let first = make(&engine).await;
    let second = make(&engine).await;
    let third = make(&engine).await;
    output(&engine, &first.sandbox.id, "true").await;
    engine.of(&owner()).sandbox(&second.sandbox.id).pause().await.unwrap();
    engine.of(&owner()).sandbox(&third.sandbox.id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).session(&first.session.id).detach().await.unwrap();
    let stats = engine.stats().await;
    assert_eq!((stats.created, stats.create_failed, stats.execs), (3, 0, 1));
    assert_eq!((stats.active_sandboxes, stats.paused_sandboxes), (1, 1));
    assert_eq!(stats.stopped_sandboxes, 1);
    engine.of(&owner()).sandbox(&first.sandbox.id).stop(StoppedFiles::Delete).await.unwrap();
    assert_eq!(engine.stats().await.active_sandboxes, 0);
}

#[tokio::test]
async fn health_says_what_is_wrong() {
    let world = World::new();
    let engine = world.open().await;
    make(&engine).await;
    let health = engine.health().await;
    assert_eq!((health.status, health.problems.len(), health.sandboxes), (HealthStatus::Ok, 0, 1));
    assert_eq!(health.backends.get("fake"), Some(&true));
    world.isolation.set_free(Some(world.settings.disk.warn_bytes - 1));
    assert_eq!(engine.health().await.status, HealthStatus::Warning);
    world.isolation.set_free(Some(world.settings.disk.critical_bytes - 1));
    let health = engine.health().await;
    assert_eq!((health.status, health.problems.is_empty()), (HealthStatus::Critical, false));
    world.isolation.set_free(None);
    assert_ne!(engine.health().await.status, HealthStatus::Ok);
}

#[tokio::test]
async fn usage_is_what_the_backend_says() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.change_usage(&id, |usage| usage.memory_bytes = 4711);
    assert_eq!(engine.of(&owner()).sandbox(&id).usage().await.unwrap().memory_bytes, 4711);
    world.isolation.fail_next(Call::Usage, IsolationErrorKind::Host);
    assert!(matches!(engine.of(&owner()).sandbox(&id).usage().await, Err(EngineError::Backend(_))));
}

#[tokio::test]
async fn a_template_in_use_stays() {
    let world = World::new();
    let engine = world.open().await;
    let names = engine.templates().await.unwrap();
    assert_eq!(names.iter().filter(|info| info.broken.is_some()).count(), 1);
    let mut request = acquire();
    request.sandbox.spec.template = "python".parse().unwrap();
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    assert_eq!(engine.templates_in_use().unwrap(), ["python".parse().unwrap()]);
    assert!(engine.remove_template(&"python".parse().unwrap()).await.is_err());
    engine.of(&owner()).sandbox(&made.sandbox.id).stop(StoppedFiles::Keep).await.unwrap();
    assert!(engine.remove_template(&"python".parse().unwrap()).await.is_err(), "kept files stand on it");
    engine.of(&owner()).sandbox(&made.sandbox.id).stop(StoppedFiles::Delete).await.unwrap();
    engine.remove_template(&"python".parse().unwrap()).await.unwrap();
}

#[tokio::test]
async fn an_engine_that_ends_leaves_its_sandboxes_or_stops_them() {
    for (policy, standing) in [
        (ShutdownPolicy::Leave, Standing::Running),
        (ShutdownPolicy::Stop, Standing::Halted),
        (ShutdownPolicy::MachineGoesDown, Standing::Halted),
    ] {
        let world = World::new();
        let engine = world.open().await;
        let id = make(&engine).await.sandbox.id;
        output(&engine, &id, "write /root/work precious").await;
        engine.shutdown(policy).await;
        engine.shutdown(policy).await;
        assert_eq!(world.isolation.standing(&id), Some(standing));
        let error = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap_err();
        assert!(matches!(error, EngineError::ShuttingDown), "{error:?}");
        let error = exec(&engine, &id, "true").await.unwrap_err();
        assert!(matches!(error, EngineError::ShuttingDown), "{error:?}");
        world.isolation.owner_ended();
        let engine = world.open().await;
        engine.of(&owner()).sandbox(&id).resume().await.unwrap();
        assert_eq!(output(&engine, &id, "read /root/work").await, "precious");
        assert_consistent(&world, &engine).await;
    }
}
