//! An agent that takes no callers costs its own callers time, and nobody else: nothing waits on a
//! thread that serves others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use warren_core::IsolationErrorKind;
use warren_engine::EngineError;
use warren_testkit::Call;

use crate::support::*;

/// There is one thread, so that a call that blocks it blocks all.
#[tokio::test(flavor = "current_thread")]
async fn an_agent_whose_queue_is_full_holds_up_nobody_else() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.fail_always(Call::Dial, Some(IsolationErrorKind::Busy));
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let (engine, id) = (engine.clone(), id.clone());
            tokio::spawn(async move { exec(&engine, &id, "true").await.map(drop) })
        })
        .collect();
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    for _ in 0..20 {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_millis(5)).await;
        longest = longest.max(began.elapsed());
    }
    assert!(longest < Duration::from_secs(2), "others waited {longest:?}");
    // It takes callers again before they have lost their patience, unless the machine itself stood
    // still, and all of them get through.
    world.isolation.fail_always(Call::Dial, None);
    let in_time = started.elapsed() < Duration::from_secs(4);
    for caller in callers {
        let outcome = caller.await.unwrap();
        assert!(outcome.is_ok() || !in_time, "{outcome:?}");
    }
}

#[tokio::test]
async fn whoever_waits_for_a_full_queue_is_told_in_the_end() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.fail_always(Call::Dial, Some(IsolationErrorKind::Busy));
    let error = exec(&engine, &id, "true").await.unwrap_err();
    let busy = |error: &EngineError| matches!(error, EngineError::Backend(error) if error.kind == IsolationErrorKind::Busy);
    assert!(busy(&error), "{error:?}");
}

fn limit(error: &EngineError) -> &'static str {
    match error {
        EngineError::TooManyCalls { setting, .. } => setting,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_sandbox_and_an_owner_have_only_so_many_visitors() {
    let mut world = World::new();
    (world.settings.visits_per_sandbox, world.settings.visits_per_owner) = (2, 3);
    let engine = world.open().await;
    let (one, two) = (make(&engine).await.sandbox.id, make(&engine).await.sandbox.id);
    let mut visits = Vec::new();
    for id in [&one, &one, &two] {
        visits.push(engine.of(&owner()).sandbox(id).visit().await.unwrap());
    }
    assert_eq!(
        limit(&engine.of(&owner()).sandbox(&one).visit().await.unwrap_err()),
        "limits.visits_per_sandbox"
    );
    assert_eq!(
        limit(&engine.of(&owner()).sandbox(&two).visit().await.unwrap_err()),
        "limits.visits_per_owner"
    );
    exec(&engine, &one, "true").await.unwrap();
    drop(visits);
    engine.of(&owner()).sandbox(&one).visit().await.unwrap();
}

#[tokio::test]
async fn commands_beyond_the_limit_are_refused_until_one_has_ended() {
    let mut world = World::new();
    world.settings.calls_per_sandbox = 1;
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    world.isolation.fail_always(Call::Dial, Some(IsolationErrorKind::Busy));
    let call = || {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move { exec(&engine, &id, "true").await.map(drop) })
    };
    let (mut one, mut other) = (call(), call());
    let (refused, waiting) = tokio::select! {
        refused = &mut one => (refused, other),
        refused = &mut other => (refused, one),
    };
    assert_eq!(limit(&refused.unwrap().unwrap_err()), "limits.calls_per_sandbox");
    world.isolation.fail_always(Call::Dial, None);
    waiting.await.unwrap().unwrap();
    eventually("there is room again", async || exec(&engine, &id, "true").await.is_ok()).await;
}

/// Counting takes as long as a sandbox has files, and nobody else's work waits for the threads that
/// it takes.
#[tokio::test]
async fn what_a_sandbox_uses_is_counted_once_at_a_time() {
    let world = World::new();
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, seen) = (Arc::clone(&under_way), Arc::clone(&most));
    world.isolation.before_each(move |call| {
        if call == Call::Usage {
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let counts: Vec<_> = (0..10)
        .map(|_| {
            let (engine, id) = (engine.clone(), id.clone());
            tokio::spawn(async move { engine.of(&owner()).sandbox(&id).usage().await.map(drop) })
        })
        .collect();
    for count in counts {
        count.await.unwrap().unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}
