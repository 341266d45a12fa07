//! A process that ends in the middle of its work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use warren_engine::EngineStep;

use crate::support::World;

/// Where a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// At the step of this number, counted from the start.
    AtStep(usize),
    /// Before the call to a port of this number.
    BeforeCall(usize),
    /// When somebody says so.
    Never,
}

/// A process that ends: from some moment on, its threads wait for ever wherever they would change
/// anything.
pub(crate) struct Doom {
    name: String,
    end: End,
    steps: Mutex<Vec<EngineStep>>,
    calls: AtomicUsize,
    dead: watch::Sender<bool>,
}

impl Doom {
    /// A process whose threads have this name, at the ports of a world.
    pub(crate) fn of(world: &World, name: String, end: End) -> Arc<Self> {
        let doom = Arc::new(Self {
            name,
            end,
            steps: Mutex::default(),
            calls: AtomicUsize::new(0),
            dead: watch::Sender::new(false),
        });
        let (one, two) = (Arc::clone(&doom), Arc::clone(&doom));
        world.catalog.before_each(move |_| one.call());
        world.isolation.before_each(move |_| two.call());
        if let Some(wall) = &world.wall {
            let (called, barred) = (Arc::clone(&doom), Arc::clone(&doom));
            wall.before_each(move |_| called.call());
            wall.bar(move || barred.is_mine() && barred.is_dead());
        }
        let three = Arc::clone(&doom);
        world.isolation.layers().before_each(move |_| three.call());
        let four = Arc::clone(&doom);
        world.networks.before_each(move |_| four.call());
        let three = Arc::clone(&doom);
        world.networks.bar(move || three.is_mine() && three.is_dead());
        let (one, two) = (Arc::clone(&doom), Arc::clone(&doom));
        world.catalog.bar(move || one.is_mine() && one.is_dead());
        world.isolation.bar(move || two.is_mine() && two.is_dead());
        doom
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn steps(&self) -> Vec<EngineStep> {
        self.steps.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.dead.borrow()
    }

    pub(crate) fn die(&self) {
        self.dead.send_replace(true);
    }

    /// Stops the whole runtime when the process ends: what only waits must not go on looking.
    pub(crate) async fn stop_at_end(&self) {
        drop(self.dead.subscribe().wait_for(|dead| *dead).await);
        self.stay_dead();
    }

    pub(crate) fn pass(&self, step: EngineStep) {
        self.stay_dead();
        let number = {
            let mut steps = self.steps.lock().unwrap();
            steps.push(step);
            steps.len() - 1
        };
        if self.end == End::AtStep(number) {
            self.die();
            self.stay_dead();
        }
    }

    fn call(&self) {
        if !self.is_mine() {
            return;
        }
        self.stay_dead();
        if self.end == End::BeforeCall(self.calls.fetch_add(1, Ordering::SeqCst)) {
            self.die();
            self.stay_dead();
        }
    }

    /// Other processes use the same ports: only this one's threads are meant.
    fn is_mine(&self) -> bool {
        std::thread::current().name() == Some(&self.name)
    }

    fn stay_dead(&self) {
        while self.is_dead() {
            std::thread::park();
        }
    }
}
