//! Many things at once to one sandbox, while ports fail, callers leave and the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use warren_core::catalog::CatalogErrorKind;
use warren_core::{IsolationErrorKind, LayerErrorKind};
use warren_engine::{Acquire, Engine, EngineError, Missing, StoppedFiles};
use warren_testkit::{Call, FakeRandom};

use crate::actors::{Action, Actor};
use crate::doom::{Doom, End};
use crate::support::*;

const ROUNDS: u64 = 400;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A sandbox for many, or nothing where even that failed.
async fn actor(world: &World, engine: &Engine, random: &FakeRandom) -> Option<Arc<Actor>> {
    let request = Acquire { background: random.below(3) == 0, ..acquire() };
    let made = engine.of(&owner()).sessions().acquire(request).await.ok()?;
    Some(Arc::new(Actor {
        world: world.clone(),
        engine: engine.clone(),
        id: made.sandbox.id,
        session: made.session.id,
    }))
}

/// One call in a few fails from now on.
fn break_ports(world: &World, random: &FakeRandom) {
    let calls = [
        Call::Create,
        Call::Dial,
        Call::Watch,
        Call::Freeze,
        Call::Thaw,
        Call::Halt,
        Call::Destroy,
        Call::Seal,
        Call::Writable,
        Call::Flush,
        Call::Clear,
    ];
    for _ in 0..random.below(4) {
        let call = calls[usize::try_from(random.below(11)).unwrap()];
        world.isolation.fail_next(call, IsolationErrorKind::Host);
    }
    let methods = [
        "insert",
        "update_sandbox",
        "sandbox",
        "insert_session",
        "update_session",
        "session",
        "sessions",
        "record_snapshots",
        "snapshot",
        "snapshots",
        "delete_snapshots",
        "update_snapshot",
        "unfinished_sandboxes",
    ];
    for _ in 0..random.below(4) {
        let method = methods[usize::try_from(random.below(13)).unwrap()];
        let kind = if random.below(2) == 0 { CatalogErrorKind::Busy } else { CatalogErrorKind::Full };
        world.catalog.fail_next_call(method, kind);
    }
    let methods = ["attach", "detach", "set"];
    for _ in 0..random.below(3) {
        world.networks.fail_next(methods[usize::try_from(random.below(3)).unwrap()]);
    }
    let methods = ["commit", "copy", "stand_on", "sync", "remove", "layers"];
    for _ in 0..random.below(3) {
        let method = methods[usize::try_from(random.below(6)).unwrap()];
        world.isolation.layers().fail_next(method, LayerErrorKind::Full);
    }
}

fn mend_ports(world: &World) {
    world.catalog.forgive();
    world.isolation.forgive();
    world.isolation.layers().forgive();
    world.networks.forgive();
}

/// An error that no caller may get, whatever failed.
fn is_unfair(error: &EngineError) -> bool {
    if let EngineError::NotFound { what, .. } = error {
        // Snapshots come and go.
        return *what != Missing::Snapshot;
    }
    matches!(
        error,
        EngineError::Invalid { .. }
            | EngineError::IdempotencyMismatch
            | EngineError::ReadOnly(_)
            | EngineError::ShuttingDown
            | EngineError::Template(_)
    )
}

/// Waits for a caller's answer, while time passes.
async fn hear(actor: &Actor, action: Action, mut task: JoinHandle<Result<(), EngineError>>) {
    let ended = async {
        loop {
            match tokio::time::timeout(Duration::from_millis(50), &mut task).await {
                Ok(result) => return result,
                // What did not get through is tried again after some time.
                Err(_) => actor.world.pass(&actor.engine, 10).await,
            }
        }
    };
    let Ok(result) = tokio::time::timeout(PATIENCE, ended).await else {
        let record = record(&actor.engine, &actor.id).await;
        panic!("{action:?} hangs: {:?}, {record:?}", actor.world.isolation.standing(&actor.id));
    };
    if let Err(error) = result.expect("nobody panics") {
        assert!(!is_unfair(&error), "{action:?} was told {error:?}");
    }
}

async fn with_broken_ports(seed: u64) {
    let (world, random) = (World::seeded(seed), FakeRandom::new(seed));
    let engine = world.open().await;
    let idle = tasks();
    let actor = actor(&world, &engine, &random).await.expect("nothing is broken yet");
    break_ports(&world, &random);
    let mut working = Vec::new();
    for _ in 0..4 + random.below(4) {
        let (action, one) = (Action::any(&random), Arc::clone(&actor));
        let task = tokio::spawn(async move { one.act(action).await });
        if action.works() || random.below(2) == 0 {
            working.push((action, task));
            continue;
        }
        // Some wait for each other, some do not.
        hear(&actor, action, task).await;
    }
    mend_ports(&world);
    for _ in 0..3 {
        world.pass(&engine, 10).await;
    }
    drop(engine.of(&owner()).sandbox(&actor.id).resume().await);
    for (action, task) in working {
        hear(&actor, action, task).await;
        drop(engine.of(&owner()).sandbox(&actor.id).resume().await);
    }
    world.pass(&engine, 10).await;
    finish(&world, &engine, idle, &actor).await;
}

/// Everything agrees, every place is given back, and in the end nothing is left.
async fn finish(world: &World, engine: &Engine, idle: usize, actor: &Actor) {
    assert_comes_to_rest(world, engine, idle).await;
    engine.of(&owner()).sandbox(&actor.id).stop(StoppedFiles::Delete).await.expect("a last stop");
    assert_consistent(world, engine).await;
    for record in all_sandboxes(engine, &owner()).await {
        engine.of(&owner()).sandbox(&record.id).stop(StoppedFiles::Delete).await.expect("a last stop");
    }
    world.isolation.assert_only(&[]);
    assert_eq!(engine.health().await.sandboxes, 0, "a place is still taken");
}

fn each_seed(play: impl Fn(u64) + Sync) {
    let only = std::env::var("WARREN_SCHEDULE_SEED").ok().map(|text| text.parse().expect("a number"));
    if let Some(seed) = only {
        return play(seed);
    }
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= ROUNDS {
                        return;
                    }
                    let _named = crate::schedules::Named(seed);
                    play(seed);
                }
            });
        }
    });
}

#[test]
fn ports_that_fail_now_and_then_leave_nothing_half_done() {
    each_seed(|seed| runtime().block_on(with_broken_ports(seed)));
}

async fn with_impatient_callers(seed: u64) {
    let (world, random) = (World::seeded(seed), FakeRandom::new(seed));
    let engine = world.open().await;
    let idle = tasks();
    let actor = actor(&world, &engine, &random).await.expect("nothing is broken");
    let mut tasks = Vec::new();
    for _ in 0..4 + random.below(5) {
        let (action, actor, yields) = (Action::any(&random), Arc::clone(&actor), random.below(20));
        let task = tokio::spawn(async move { drop(actor.act(action).await) });
        let acquiring = {
            let (engine, leaves) = (engine.clone(), random.below(8) == 0);
            leaves.then(|| {
                tokio::spawn(async move { drop(engine.of(&owner()).sessions().acquire(acquire()).await) })
            })
        };
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        tasks.push(task);
        tasks.extend(acquiring);
        let leaver = usize::try_from(random.below(tasks.len() as u64)).unwrap();
        tasks[leaver].abort();
    }
    for task in tasks {
        task.abort();
        drop(task.await);
    }
    assert_comes_to_rest(&world, &engine, idle).await;
    finish(&world, &engine, idle, &actor).await;
}

#[test]
fn callers_that_leave_in_the_middle_leave_nothing_half_done() {
    each_seed(|seed| runtime().block_on(with_impatient_callers(seed)));
}

/// Does many things, and leaves whatever is not done by then.
async fn act_until_the_end(world: &World, random: &FakeRandom) {
    let engine = world.open().await;
    let actor = actor(world, &engine, random).await.expect("nothing is broken");
    for _ in 0..8 {
        let (action, actor) = (Action::any(random), Arc::clone(&actor));
        tokio::spawn(async move { drop(actor.act(action).await) });
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Runs some actions in a process that ends before some call to a port.
fn with_an_end(seed: u64) {
    let (world, random) = (World::seeded(seed), FakeRandom::new(seed));
    let last = usize::try_from(10 + random.below(60)).unwrap();
    let doom = Doom::of(&world, format!("doomed {seed}"), End::BeforeCall(last));
    let process = {
        let (world, doom) = (world.clone(), Arc::clone(&doom));
        let work = move || {
            let builder =
                tokio::runtime::Builder::new_current_thread().enable_all().thread_name(doom.name()).build();
            builder.unwrap().block_on(async {
                act_until_the_end(&world, &random).await;
                doom.die();
            });
        };
        std::thread::Builder::new().name(format!("doomed {seed}")).spawn(work).unwrap()
    };
    while !doom.is_dead() {
        assert!(!process.is_finished() || doom.is_dead(), "the process failed");
        std::thread::sleep(Duration::from_micros(200));
    }
    world.inherit();
    runtime().block_on(async {
        let engine = world.open().await;
        assert_consistent(&world, &engine).await;
        for record in all_sandboxes(&engine, &owner()).await {
            engine.of(&owner()).sandbox(&record.id).stop(StoppedFiles::Delete).await.expect("a last stop");
        }
        world.isolation.assert_only(&[]);
        assert_consistent(&world, &engine).await;
    });
}

#[test]
fn an_end_in_the_middle_of_many_things_is_mended_by_the_next_start() {
    each_seed(with_an_end);
}
