//! The process ends at every step and before every call to a port, and the next start makes everything whole.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warren_core::{SandboxId, Status};
use warren_engine::{Engine, EngineError, EngineStep, StoppedFiles};

use crate::doom::{Doom, End};
use crate::support::*;

/// What must not be lost, whenever the process ends.
#[derive(Default)]
struct Promises {
    precious: Mutex<BTreeSet<SandboxId>>,
}

impl Promises {
    fn keep(&self, id: &SandboxId) {
        self.precious.lock().unwrap().insert(id.clone());
    }

    fn give_up(&self, id: &SandboxId) {
        self.precious.lock().unwrap().remove(id);
    }

    fn all(&self) -> BTreeSet<SandboxId> {
        self.precious.lock().unwrap().clone()
    }
}

async fn work(engine: &Engine, promises: &Promises, id: &SandboxId) -> Result<(), EngineError> {
    let result = exec(engine, id, "write /root/work precious").await?;
    assert_eq!(result.exit.code, 0);
    promises.keep(id);
    Ok(())
}

/// Every kind of change, one after the other.
async fn tour(world: &World, engine: &Engine, promises: &Promises) -> Result<(), EngineError> {
    let me = owner();
    let first = engine.acquire(&me, acquire()).await?;
    let id = &first.sandbox.id;
    work(engine, promises, id).await?;
    engine.pause(&me, id).await?;
    engine.resume(&me, id).await?;
    world.fall_idle(engine).await;
    assert_eq!(status(engine, id).await, Status::Paused);
    exec(engine, id, "true").await?;
    engine.stop(&me, id, StoppedFiles::Keep, "tour").await?;
    engine.resume(&me, id).await?;
    engine.detach(&me, &first.session.id).await?;
    let second = engine.attach(&me, attach(id)).await?;
    engine.suspend(&me, &second.session.id).await?;
    engine.resume_session(&me, &second.session.id).await?;
    engine.detach(&me, &second.session.id).await?;
    world.pass(engine, DETACHED_S + 1).await;
    eventually("it is stopped", async || status(engine, id).await == Status::Stopped).await;
    engine.resume_session(&me, &second.session.id).await?;
    engine.stop(&me, id, StoppedFiles::Keep, "tour").await?;
    promises.give_up(id);
    engine.stop(&me, id, StoppedFiles::Delete, "tour").await?;
    let third = engine.acquire(&me, acquire()).await?;
    engine.terminate(&me, &third.session.id, "tour").await?;
    let fourth = engine.acquire(&me, acquire()).await?;
    work(engine, promises, &fourth.sandbox.id).await?;
    world.isolation.die(&fourth.sandbox.id, true);
    eventually("its end is noticed", async || status(engine, &fourth.sandbox.id).await == Status::Stopped)
        .await;
    engine.attach(&me, attach(&fourth.sandbox.id)).await?;
    Ok(())
}

/// Runs the tour in a process of its own that ends there. Says what it did, and whether it came to that end.
fn run_until(world: &World, promises: &Arc<Promises>, name: &str, end: End) -> (Arc<Doom>, bool) {
    let doom = Doom::of(world, name.to_owned(), end);
    let (world, promises, steps) = (world.clone(), Arc::clone(promises), Arc::clone(&doom));
    let process = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name(steps.name())
            .build()
            .unwrap();
        runtime.block_on(async {
            let steps = Arc::clone(&steps);
            let parts = world.parts(move |step| steps.pass(step));
            let engine = Engine::open(parts, world.settings.clone()).await.unwrap();
            engine.reconciled().await;
            tour(&world, &engine, &promises).await.unwrap();
        });
    };
    let process = std::thread::Builder::new().name(name.to_owned()).spawn(process).unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = world.open().await;
        assert_consistent(world, &engine).await;
        for id in promises.all() {
            let record = record(&engine, &id).await;
            assert!(record.is_live() || record.files_kept(), "{end:?} lost {record:?}");
            engine.resume(&owner(), &id).await.unwrap_or_else(|error| panic!("{end:?}: {error:?}"));
            assert_eq!(output(&engine, &id, "read /root/work").await, "precious", "{end:?}");
        }
        assert_consistent(world, &engine).await;
        for record in all_sandboxes(&engine, &owner()).await {
            engine.stop(&owner(), &record.id, StoppedFiles::Delete, "tester").await.unwrap();
        }
        world.isolation.assert_only(&[]);
        assert_consistent(world, &engine).await;
        engine.shutdown(warren_engine::ShutdownPolicy::Leave).await;
    });
}

fn check(end: End) -> bool {
    let (world, promises) = (World::new(), Arc::default());
    let (_, died) = run_until(&world, &promises, &format!("{end:?}"), end);
    recover(&world, &promises, end);
    died
}

/// How many steps and calls there are before the end.
fn measure() -> (Vec<EngineStep>, usize) {
    let (world, promises) = (World::new(), Arc::default());
    let (doom, died) = run_until(&world, &promises, "measured", End::Never);
    assert!(!died);
    recover(&world, &promises, End::Never);
    (doom.steps(), doom.calls())
}

#[test]
fn an_end_at_any_step_is_mended_by_the_next_start() {
    let (steps, _) = measure();
    for step in EngineStep::ALL {
        assert!(steps.contains(&step), "no test passes {}", step.name());
    }
    for number in 0..steps.len() {
        assert!(check(End::AtStep(number)), "step {number} of {steps:?} was not reached");
    }
}

#[test]
fn an_end_before_any_call_is_mended_by_the_next_start() {
    let (_, calls) = measure();
    assert!(calls > 50, "{calls}");
    for number in 0..calls {
        check(End::BeforeCall(number));
    }
}

#[test]
fn an_end_while_mending_is_mended_by_the_start_after_it() {
    let (steps, _) = measure();
    for number in 0..steps.len() {
        let (world, promises) = (World::new(), Arc::default());
        run_until(&world, &promises, &format!("first {number}"), End::AtStep(number));
        world.inherit();
        // The second process mends first, and ends at the first step of that, or of the tour that follows.
        let end = End::AtStep(0);
        assert!(run_until(&world, &promises, &format!("second {number}"), end).1);
        recover(&world, &promises, end);
    }
}
