use warren_core::{RunDenied, RunLimits, RunStatus};
use warren_engine::{Acquire, Acquired, Engine, EngineError};

use crate::support::*;

async fn limited(engine: &Engine, limits: RunLimits) -> Acquired {
    let request = Acquire { limits: Some(limits), ..acquire() };
    engine.of(&owner()).sessions().acquire(request).await.unwrap()
}

async fn denied(engine: &Engine, made: &Acquired) -> Option<RunDenied> {
    engine.of(&owner()).session(&made.session.id).can_run().await.unwrap().denied
}

#[tokio::test]
async fn runs_recorded_at_once_are_all_counted_and_none_too_many() {
    let world = World::new();
    let engine = world.open().await;
    let limits = RunLimits { runs: 30, tokens: 1_000_000, ..RunLimits::default() };
    let made = limited(&engine, limits).await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (engine, id) = (engine.clone(), made.session.id.clone());
            tokio::spawn(async move { engine.of(&owner()).session(&id).record_run(run_of(10)).await })
        })
        .collect();
    let mut numbers = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Ok(run) => numbers.push(run.number),
            Err(EngineError::RunDenied(RunDenied::OutOfRuns)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
    let details = engine.of(&owner()).session(&made.session.id).details().await.unwrap();
    let totals = details.view.session.totals;
    assert_eq!((totals.runs, totals.tokens, totals.duration_ms), (30, 300, 30_000));
    assert_eq!(details.runs.len(), 30);
    let left = engine.of(&owner()).session(&made.session.id).can_run().await.unwrap();
    assert_eq!((left.runs_left, left.tokens_left), (0, 999_700));
}

#[tokio::test]
async fn each_reason_against_a_run_is_told() {
    let world = World::new();
    let engine = world.open().await;
    let small = RunLimits { runs: 2, run_s: 1, tokens: 100, duration_s: 60 };
    let made = limited(&engine, small).await;
    assert_eq!(denied(&engine, &made).await, None);
    let run = engine.of(&owner()).session(&made.session.id).record_run(run_of(150)).await.unwrap();
    assert_eq!(run.status, RunStatus::OverTokens);
    assert_eq!(denied(&engine, &made).await, Some(RunDenied::OutOfTokens));
    let made = limited(&engine, small).await;
    engine.of(&owner()).session(&made.session.id).record_run(run_of(1)).await.unwrap();
    engine.of(&owner()).session(&made.session.id).record_run(run_of(1)).await.unwrap();
    assert_eq!(denied(&engine, &made).await, Some(RunDenied::OutOfRuns));
    let made = limited(&engine, small).await;
    world.clock.advance_s(61);
    assert_eq!(denied(&engine, &made).await, Some(RunDenied::Expired));
    engine.sweep().await;
    assert_eq!(denied(&engine, &made).await, Some(RunDenied::Expired));
    let made = limited(&engine, small).await;
    engine.of(&owner()).session(&made.session.id).terminate().await.unwrap();
    assert_eq!(denied(&engine, &made).await, Some(RunDenied::Inactive));
    let hold = world.isolation.hold(warren_testkit::Call::Create);
    let request = Acquire { limits: Some(small), background: true, ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    assert_eq!(denied(&engine, &made).await, Some(RunDenied::NotReady));
    let error = engine.of(&owner()).session(&made.session.id).record_run(run_of(1)).await.unwrap_err();
    assert!(matches!(error, EngineError::RunDenied(RunDenied::NotReady)), "{error:?}");
    drop(hold);
}

#[tokio::test]
async fn a_session_of_limited_duration_ends_by_itself() {
    let world = World::new();
    let engine = world.open().await;
    let made = limited(&engine, RunLimits { duration_s: 60, ..RunLimits::default() }).await;
    world.pass(&engine, 59).await;
    assert!(state(&engine, &made.session.id).await.is_open());
    world.pass(&engine, 2).await;
    eventually("its sandbox is stopped", async || {
        record(&engine, &made.sandbox.id).await.status.is_terminal()
    })
    .await;
    assert!(!state(&engine, &made.session.id).await.is_open());
    assert_consistent(&world, &engine).await;
    let error = engine.of(&owner()).session(&made.session.id).resume().await.unwrap_err();
    assert!(matches!(error, EngineError::SessionState { .. }), "{error:?}");
}

#[tokio::test]
async fn a_tier_brings_its_limits_and_an_unknown_one_is_refused() {
    let mut world = World::new();
    let gold = RunLimits { runs: 99, ..RunLimits::default() };
    world.settings.tiers.insert("gold".to_owned(), gold);
    let engine = world.open().await;
    let of_tier = |name: &str| Acquire { tier: Some(name.to_owned()), ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(of_tier("gold")).await.unwrap();
    assert_eq!(made.session.limits.runs, 99);
    let error = engine.of(&owner()).sessions().acquire(of_tier("tin")).await.unwrap_err();
    assert!(matches!(error, EngineError::Invalid { .. }), "{error:?}");
    assert_eq!(all_sandboxes(&engine, &owner()).await.len(), 1);
}

#[tokio::test]
async fn runs_outlive_the_sandbox_and_the_engine() {
    let world = World::new();
    let engine = world.open().await;
    let made = limited(&engine, RunLimits::default()).await;
    engine.of(&owner()).session(&made.session.id).record_run(run_of(7)).await.unwrap();
    engine.of(&owner()).session(&made.session.id).terminate().await.unwrap();
    engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    world.isolation.owner_ended();
    let engine = world.open().await;
    let runs = engine.of(&owner()).session(&made.session.id).runs().await.unwrap();
    assert_eq!(runs.iter().map(|run| run.run.tokens).collect::<Vec<_>>(), [7]);
}
