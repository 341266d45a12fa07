//! Many things at once to one sandbox, in random orders. A call that loses gets a typed error,
//! nobody hangs, and in the end the record, the backend and the sessions agree.
//!
//! `WARREN_SCHEDULES` says how many orders are tried, `WARREN_SCHEDULE_SEED` tries a single one.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};
use warren_core::IsolationErrorKind;
use warren_engine::{Acquire, Engine, EngineError, Missing, StoppedFiles};
use warren_testkit::FakeRandom;

use crate::actors::{Action, Actor};
use crate::support::*;
use crate::travel::{layers, snapshots_of};

/// Orders tried with one engine.
const BATCH: u64 = 25;

/// An error that a caller who came too late may get.
fn is_fair(error: &EngineError) -> bool {
    match error {
        EngineError::Denied { .. }
        | EngineError::SessionState { .. }
        | EngineError::SandboxEnded { .. }
        | EngineError::SnapshotNameTaken { .. }
        | EngineError::NothingToUndo { .. } => true,
        EngineError::NotFound { what, .. } => *what == Missing::Snapshot,
        EngineError::Backend(error) | EngineError::StartFailed { source: error, .. } => {
            matches!(error.kind, IsolationErrorKind::Ended | IsolationErrorKind::NotFound)
        }
        _ => false,
    }
}

/// Waits for a caller's answer, and looks at it.
async fn hear(actor: &Actor, actions: &[Action], action: Action, task: JoinHandle<Result<(), EngineError>>) {
    let Ok(result) = tokio::time::timeout(PATIENCE, task).await else {
        let (record, standing) =
            (record(&actor.engine, &actor.id).await, actor.world.isolation.standing(&actor.id));
        panic!("{action:?} of {actions:?} hangs: {standing:?}, {record:?}");
    };
    if let Err(error) = result.expect("nobody panics") {
        assert!(is_fair(&error), "{action:?} of {actions:?} was told {error:?}");
    }
}

async fn play(world: &World, engine: &Engine, idle: usize, seed: u64) {
    let random = FakeRandom::new(seed);
    let request = Acquire { background: random.below(4) == 0, ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.unwrap();
    let actor = Arc::new(Actor {
        world: world.clone(),
        engine: engine.clone(),
        id: made.sandbox.id.clone(),
        session: made.session.id,
    });
    let count = 3 + random.below(6);
    let mut tasks = Vec::new();
    for _ in 0..count {
        let action = Action::any(&random);
        let (actor, yields) = (Arc::clone(&actor), random.below(24));
        let task = tokio::spawn(async move {
            for _ in 0..yields {
                yield_now().await;
            }
            actor.act(action).await
        });
        tasks.push((action, task));
    }
    let actions: Vec<Action> = tasks.iter().map(|(action, _)| *action).collect();
    // Calls in a sandbox that is paused wait until it is resumed.
    let (working, others): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(action, _)| action.works());
    for (action, task) in others {
        hear(&actor, &actions, action, task).await;
    }
    if working.iter().any(|(_, task)| !task.is_finished())
        && let Err(error) = engine.of(&owner()).sandbox(&actor.id).resume().await
    {
        assert!(is_fair(&error), "a resume for the sake of those inside was told {error:?}");
    }
    for (action, task) in working {
        hear(&actor, &actions, action, task).await;
    }
    assert_comes_to_rest(world, engine, idle).await;
    engine.of(&owner()).sandbox(&actor.id).stop(StoppedFiles::Delete).await.expect("a last stop");
    assert_eq!(world.isolation.standing(&actor.id), None);
    for row in snapshots_of(engine, &owner(), &actor.id).await {
        engine.of(&owner()).snapshots().delete(&row.id).await.expect("a last deletion");
    }
    // Snapshots that are being synced hold their layers for a moment.
    eventually(&format!("layers that nobody names go after {actions:?}"), async || {
        engine.sweep().await;
        layers(world) == 0
    })
    .await;
}

/// Lets some calls to the ports take a moment, so that others overtake them.
fn jitter(world: &World, seed: u64) {
    let random = Arc::new(FakeRandom::new(seed));
    let dawdle = move || {
        if random.below(8) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(200)));
        }
    };
    let again = dawdle.clone();
    world.isolation.before_each(move |_| dawdle());
    let third = again.clone();
    world.catalog.before_each(move |_| again());
    world.networks.before_each(move |_| third());
}

/// Says which schedule it was that failed.
pub(crate) struct Named(pub(crate) u64);

impl Drop for Named {
    #[expect(clippy::print_stderr, reason = "the panic itself does not know the schedule")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to try it again: WARREN_SCHEDULE_SEED={}", self.0);
        }
    }
}

fn run_batch(seeds: std::ops::Range<u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::seeded(seeds.start);
        jitter(&world, seeds.start);
        let engine = world.open().await;
        let idle = tasks();
        for seed in seeds {
            let _named = Named(seed);
            let played = tokio::time::timeout(2 * PATIENCE, play(&world, &engine, idle, seed)).await;
            assert!(played.is_ok(), "a schedule hangs");
        }
        world.isolation.assert_only(&[]);
        engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    });
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn whatever_happens_at_once_to_a_sandbox_ends_well() {
    if let Some(seed) = number("WARREN_SCHEDULE_SEED") {
        return run_batch(seed..seed + 1);
    }
    let schedules = number("WARREN_SCHEDULES").unwrap_or(3000);
    let next = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(BATCH, std::sync::atomic::Ordering::Relaxed);
                    if first >= schedules {
                        return;
                    }
                    run_batch(first..(first + BATCH).min(schedules));
                }
            });
        }
    });
}
