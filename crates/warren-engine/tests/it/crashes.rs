//! The process ends at every step and before every call to a port, and the next start makes
//! everything whole.

mod images;
mod links;
mod moves;
mod travel;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warren_core::{Automatic, SandboxId, SnapshotId, Status};
use warren_engine::{Engine, EngineError, EngineStep, Patch, Point, PoolSettings, Settings, StoppedFiles};

use crate::doom::{Doom, End};
use crate::names::assert_names_hold;
use crate::pools::pool_of;
use crate::support::*;
use crate::travel::{forks, layers};

/// The state that must not be lost, whenever the process ends.
#[derive(Default)]
struct Promises {
    /// The states that each sandbox may hold: one, or two while it goes from one to the other.
    sandboxes: Mutex<BTreeMap<SandboxId, BTreeSet<String>>>,
    snapshots: Mutex<BTreeMap<SnapshotId, String>>,
}

impl Promises {
    fn holds(&self, id: &SandboxId, text: &str) {
        self.sandboxes.lock().unwrap().insert(id.clone(), BTreeSet::from([text.to_owned()]));
    }

    fn may_hold(&self, id: &SandboxId, text: &str) {
        if let Some(texts) = self.sandboxes.lock().unwrap().get_mut(id) {
            texts.insert(text.to_owned());
        }
    }

    fn give_up(&self, id: &SandboxId) {
        self.sandboxes.lock().unwrap().remove(id);
    }

    fn captured(&self, id: &SnapshotId, text: &str) {
        self.snapshots.lock().unwrap().insert(id.clone(), text.to_owned());
    }

    fn forget(&self, id: &SnapshotId) {
        self.snapshots.lock().unwrap().remove(id);
    }
}

/// The work of a process before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tour {
    Life,
    Travel,
    Squash,
    Network,
    Images,
    Pool,
    Move,
}

impl Tour {
    /// Machines are made ahead of time only where the tour is about that.
    fn settings(self, world: &World) -> Settings {
        let pools = if self == Self::Pool { pool_of(2) } else { PoolSettings::default() };
        Settings { pools, ..world.settings.clone() }
    }
}

/// Nothing happens but what the tour asks for, so that it passes the same steps each time.
fn world(tour: Tour) -> World {
    let mut world = if tour == Tour::Move { World::walled() } else { World::new() };
    world.settings.automatic_snapshots = Automatic::Off;
    world
}

async fn work(engine: &Engine, promises: &Promises, id: &SandboxId) -> Result<(), EngineError> {
    let result = exec(engine, id, "write /root/work precious").await?;
    assert_eq!(result.exit.code, 0);
    promises.holds(id, "precious");
    Ok(())
}

/// Every kind of change of a sandbox's life, one after the other.
async fn life(world: &World, engine: &Engine, promises: &Promises) -> Result<(), EngineError> {
    let me = owner();
    // Another process may have begun the same tour.
    let name = format!("web-{}", all_sandboxes(engine, &me).await.len());
    let mut named = acquire();
    named.sandbox.name = name.parse().ok();
    let first = engine.of(&me).sessions().acquire(named).await?;
    let id = &first.sandbox.id;
    work(engine, promises, id).await?;
    let other = Patch { name: Some(format!("{name}-b").parse().ok()), ..Patch::default() };
    engine.of(&me).sandbox(id).update(other).await?;
    engine.of(&me).sandbox(id).pause().await?;
    engine.of(&me).sandbox(id).resume().await?;
    world.fall_idle(engine).await;
    assert_eq!(status(engine, id).await, Status::Paused);
    exec(engine, id, "true").await?;
    engine.of(&me).sandbox(id).stop(StoppedFiles::Keep).await?;
    engine.of(&me).sandbox(id).resume().await?;
    engine.of(&me).session(&first.session.id).detach().await?;
    let second = engine.of(&me).sessions().attach(attach(id)).await?;
    engine.of(&me).session(&second.session.id).suspend().await?;
    engine.of(&me).session(&second.session.id).resume().await?;
    engine.of(&me).session(&second.session.id).detach().await?;
    world.pass(engine, DETACHED_S + 1).await;
    eventually("it is stopped", async || status(engine, id).await == Status::Stopped).await;
    engine.of(&me).session(&second.session.id).resume().await?;
    engine.of(&me).sandbox(id).stop(StoppedFiles::Keep).await?;
    promises.give_up(id);
    engine.of(&me).sandbox(id).stop(StoppedFiles::Delete).await?;
    let third = engine.of(&me).sessions().acquire(acquire()).await?;
    engine.of(&me).session(&third.session.id).terminate().await?;
    let fourth = engine.of(&me).sessions().acquire(acquire()).await?;
    work(engine, promises, &fourth.sandbox.id).await?;
    world.isolation.die(&fourth.sandbox.id, true);
    eventually("its end is noticed", async || status(engine, &fourth.sandbox.id).await == Status::Stopped)
        .await;
    engine.of(&me).sessions().attach(attach(&fourth.sandbox.id)).await?;
    Ok(())
}

/// A claim of a machine that was made ahead of time.
async fn claims(engine: &Engine, promises: &Promises) -> Result<(), EngineError> {
    eventually("the pool is full", async || engine.stats().await.pool_size == 2).await;
    let claimed = engine.of(&owner()).sessions().acquire(acquire()).await?;
    work(engine, promises, &claimed.sandbox.id).await
}

/// Runs the tour in a process of its own that ends there. Says what it did, and whether it came to
/// that end.
fn run_until(tour: Tour, world: &World, promises: &Arc<Promises>, name: &str, end: End) -> (Arc<Doom>, bool) {
    let doom = Doom::of(world, name.to_owned(), end);
    let (world, promises, steps) = (world.clone(), Arc::clone(promises), Arc::clone(&doom));
    let process = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name(steps.name())
            .build()
            .unwrap();
        runtime.block_on(async {
            let doomed = Arc::clone(&steps);
            let parts = world.parts(move |step| steps.pass(step));
            let work = async {
                let engine = Engine::open(parts, tour.settings(&world)).await.unwrap();
                engine.reconciled().await;
                match tour {
                    Tour::Life => life(&world, &engine, &promises).await.unwrap(),
                    Tour::Travel => travel::through_states(&world, &engine, &promises).await.unwrap(),
                    Tour::Squash => travel::into_depth(&engine, &promises).await.unwrap(),
                    Tour::Images => images::through_builds(&world, &engine, &promises).await.unwrap(),
                    Tour::Network => links::through_policies(&world, &engine, &promises).await.unwrap(),
                    Tour::Pool => claims(&engine, &promises).await.unwrap(),
                    Tour::Move => moves::through_walls(&engine, &promises).await.unwrap(),
                }
            };
            tokio::select! {
                biased;
                () = doomed.stop_at_end() => {}
                () = work => {}
            }
        });
    };
    let process = std::thread::Builder::new().name(name.to_owned()).spawn(process).unwrap();
    let patience = Instant::now() + 2 * PATIENCE;
    while !doom.is_dead() && !process.is_finished() {
        assert!(Instant::now() < patience, "the tour neither ended nor reached {end:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
    if doom.is_dead() {
        return (doom, true);
    }
    process.join().expect("the tour succeeds");
    doom.die();
    (doom, false)
}

fn recover(world: &World, promises: &Promises, end: End) {
    world.inherit();
    links::assert_none_is_loose(world);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = world.open().await;
        assert_consistent(world, &engine).await;
        images::assert_nothing_is_left(world);
        let sandboxes = promises.sandboxes.lock().unwrap().clone();
        for (id, texts) in sandboxes {
            let record = record(&engine, &id).await;
            assert!(record.is_live() || record.files_kept(), "{end:?} lost {record:?}");
            engine
                .of(&owner())
                .sandbox(&id)
                .resume()
                .await
                .unwrap_or_else(|error| panic!("{end:?}: {error:?}"));
            let text = output(&engine, &id, "read /root/work").await;
            assert!(texts.contains(&text), "{end:?}: {id} holds {text} and not {texts:?}");
        }
        assert_names_hold(&engine).await;
        engine.sweep().await;
        let snapshots = promises.snapshots.lock().unwrap().clone();
        for (id, text) in snapshots {
            let forked = engine.of(&owner()).snapshots().fork(&Point::Snapshot(id.clone()), forks(1)).await;
            let fork = forked.unwrap_or_else(|error| panic!("{end:?}: {id}: {error:?}")).remove(0).sandbox.id;
            assert_eq!(output(&engine, &fork, "read /root/work").await, text, "{end:?}: {id}");
        }
        assert_consistent(world, &engine).await;
        for record in all_sandboxes(&engine, &owner()).await {
            engine.of(&owner()).sandbox(&record.id).stop(StoppedFiles::Delete).await.unwrap();
        }
        world.isolations().for_each(|backend| backend.assert_only(&[]));
        travel::delete_all(&engine).await;
        engine.sweep().await;
        assert_eq!(layers(world), 0, "{end:?} left layers");
        assert_consistent(world, &engine).await;
        engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    });
}

/// The steps that were passed, if the process came to its end.
fn check(tour: Tour, end: End) -> Result<(), Vec<EngineStep>> {
    let (world, promises) = (world(tour), Arc::default());
    let (doom, died) = run_until(tour, &world, &promises, &format!("{tour:?} {end:?}"), end);
    recover(&world, &promises, end);
    if died { Ok(()) } else { Err(doom.steps()) }
}

/// How many steps and calls there are before the end.
fn measure(tour: Tour) -> (Vec<EngineStep>, usize) {
    let (world, promises) = (world(tour), Arc::default());
    let (doom, died) = run_until(tour, &world, &promises, "measured", End::Never);
    assert!(!died);
    recover(&world, &promises, End::Never);
    (doom.steps(), doom.calls())
}

#[test]
fn every_step_is_passed_by_one_of_the_tours() {
    let passed: Vec<EngineStep> =
        [Tour::Life, Tour::Travel, Tour::Squash, Tour::Network, Tour::Images, Tour::Move]
            .into_iter()
            .flat_map(|tour| measure(tour).0)
            .collect();
    for step in EngineStep::ALL {
        assert!(passed.contains(&step), "no test passes {}", step.name());
    }
}

#[test]
fn an_end_at_any_step_is_mended_by_the_next_start() {
    for tour in [Tour::Life, Tour::Travel, Tour::Network, Tour::Images, Tour::Pool, Tour::Move] {
        let (steps, _) = measure(tour);
        for number in 0..steps.len() {
            if let Err(passed) = check(tour, End::AtStep(number)) {
                panic!("step {number} of {steps:?} was not reached, but {passed:?}");
            }
        }
    }
}

#[test]
fn an_end_while_layers_are_joined_is_mended_by_the_next_start() {
    let (steps, _) = measure(Tour::Squash);
    let first = steps.iter().position(|step| *step == EngineStep::SquashMade).expect("they are joined");
    for number in first.saturating_sub(3)..steps.len() {
        check(Tour::Squash, End::AtStep(number)).ok();
    }
}

#[test]
fn an_end_before_any_call_is_mended_by_the_next_start() {
    for tour in [Tour::Life, Tour::Travel, Tour::Network, Tour::Move] {
        let (_, calls) = measure(tour);
        assert!(calls > 50, "{calls}");
        for number in 0..calls {
            check(tour, End::BeforeCall(number)).ok();
        }
    }
}

#[test]
fn an_end_before_any_call_about_a_pool_is_mended_by_the_next_start() {
    let (_, calls) = measure(Tour::Pool);
    for number in 0..calls {
        check(Tour::Pool, End::BeforeCall(number)).ok();
    }
}

#[test]
fn an_end_while_mending_is_mended_by_the_start_after_it() {
    for tour in [Tour::Life, Tour::Travel, Tour::Network, Tour::Move] {
        let (steps, _) = measure(tour);
        for number in 0..steps.len() {
            let (world, promises) = (world(tour), Arc::default());
            run_until(tour, &world, &promises, &format!("first {tour:?} {number}"), End::AtStep(number));
            world.inherit();
            // The second process mends first, and ends at the first step of that, or of the tour
            // that follows.
            let end = End::AtStep(0);
            assert!(run_until(tour, &world, &promises, &format!("second {tour:?} {number}"), end).1);
            recover(&world, &promises, end);
        }
    }
}
