//! The process ends at every step and before every call to a port, and the next start makes everything whole.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use warren_core::{SandboxId, Status};
use warren_engine::{Engine, EngineError, EngineStep, StoppedFiles};

use crate::support::*;

/// Where a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// At the step of this number, counted from the start.
    AtStep(usize),
    /// Before the call to a port of this number.
    BeforeCall(usize),
    Never,
}

/// A process that ends: from some moment on, nothing it does has any effect.
struct Doom {
    name: String,
    end: End,
    steps: Mutex<Vec<EngineStep>>,
    calls: AtomicUsize,
    dead: AtomicBool,
    told: Mutex<Sender<()>>,
}

impl Doom {
    fn new(name: String, end: End) -> (Arc<Self>, Receiver<()>) {
        let (told, hear) = channel();
        let doom = Self {
            name,
            end,
            steps: Mutex::default(),
            calls: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            told: Mutex::new(told),
        };
        (Arc::new(doom), hear)
    }

    fn pass(&self, step: EngineStep) {
        self.stay_dead();
        let number = {
            let mut steps = self.steps.lock().unwrap();
            steps.push(step);
            steps.len() - 1
        };
        if self.end == End::AtStep(number) {
            self.die();
        }
    }

    /// Other processes use the same ports: only this one's threads are meant.
    fn call(&self) {
        if std::thread::current().name() != Some(&self.name) {
            return;
        }
        self.stay_dead();
        if self.end == End::BeforeCall(self.calls.fetch_add(1, Ordering::SeqCst)) {
            self.die();
        }
    }

    fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.told.lock().unwrap().send(()).ok();
        self.stay_dead();
    }

    fn stay_dead(&self) {
        while self.dead.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

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

/// Runs the tour in a process of its own that ends there. Says what the process did; `None` when it came to its end in peace.
fn run_until(world: &World, promises: &Arc<Promises>, name: &str, end: End) -> (Arc<Doom>, bool) {
    let (doom, died) = Doom::new(name.to_owned(), end);
    let calls = Arc::clone(&doom);
    world.catalog.before_each(move |_| calls.call());
    let calls = Arc::clone(&doom);
    world.isolation.before_each(move |_| calls.call());
    let (world, promises, steps) = (world.clone(), Arc::clone(promises), Arc::clone(&doom));
    let (finished, finish) = channel();
    let process = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name(steps.name.clone())
            .build()
            .unwrap();
        runtime.block_on(async {
            let parts = world.parts(move |step| steps.pass(step));
            let engine = Engine::open(parts, world.settings.clone()).await.unwrap();
            engine.reconciled().await;
            tour(&world, &engine, &promises).await.unwrap();
            finished.send(()).ok();
        });
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(process).unwrap();
    let patience = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        match died.recv_timeout(Duration::from_millis(1)) {
            Ok(()) => return (doom, true),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the doom is held here"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        match finish.try_recv() {
            Ok(()) => return (doom, false),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                // It may have died at the last moment.
                assert!(died.try_recv().is_ok(), "the tour failed before {end:?}");
                return (doom, true);
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => {}
        }
        assert!(std::time::Instant::now() < patience, "the tour neither ended nor reached {end:?}");
    }
}

fn recover(world: &World, promises: &Promises, end: End) {
    world.catalog.before_each(|_| {});
    world.isolation.before_each(|_| {});
    // A call that was under way when the process ended still takes effect, as on a real machine.
    std::thread::sleep(Duration::from_millis(2));
    world.isolation.owner_ended();
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
    (doom.steps.lock().unwrap().clone(), doom.calls.load(Ordering::SeqCst))
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
        world.isolation.owner_ended();
        // The second process mends first, and ends at the first step of that, or of the tour that follows.
        let end = End::AtStep(0);
        assert!(run_until(&world, &promises, &format!("second {number}"), end).1);
        recover(&world, &promises, end);
    }
}
