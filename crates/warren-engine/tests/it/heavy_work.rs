//! Heavy work: how much of it there may be, and that nothing else waits for it.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use warren_core::{DiffOptions, Owner, SnapshotId};
use warren_engine::{Engine, EngineError, HeavyWorkLimits, Point, Share, WorkKind};

use crate::support::*;
use crate::travel::*;

/// A door at which diffs wait.
#[derive(Default)]
struct Door {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    open: bool,
    inside: usize,
    most_inside: usize,
}

impl Door {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.inside += 1;
        state.most_inside = state.most_inside.max(state.inside);
        self.moved.notify_all();
        let (mut state, waited) =
            self.moved.wait_timeout_while(state, PATIENCE, |state| !state.open).unwrap();
        assert!(!waited.timed_out(), "nobody opened the door");
        state.inside -= 1;
    }

    fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.moved.notify_all();
    }

    fn until_inside(&self, count: usize) {
        let state = self.state.lock().unwrap();
        let waited = self.moved.wait_timeout_while(state, PATIENCE, |state| state.inside < count).unwrap();
        assert!(!waited.1.timed_out(), "fewer than {count} came");
    }

    fn most_inside(&self) -> usize {
        self.state.lock().unwrap().most_inside
    }
}

async fn world(limits: HeavyWorkLimits) -> (World, Engine, Arc<Door>) {
    let mut world = World::new();
    world.settings.heavy_work = limits;
    let engine = world.open().await;
    let door = Arc::new(Door::default());
    let hook = Arc::clone(&door);
    world.isolation.layers().before_each(move |method| {
        if method == "diff" {
            hook.pass();
        }
    });
    (world, engine, door)
}

fn two_of_three() -> HeavyWorkLimits {
    HeavyWorkLimits { comparisons: Share { all: 3, each_owner: 2 }, waiting: 4, ..HeavyWorkLimits::default() }
}

async fn states(engine: &Engine) -> (SnapshotId, SnapshotId) {
    let id = make(engine).await.sandbox.id;
    (write_and_snap(engine, &id, "one").await, write_and_snap(engine, &id, "two").await)
}

async fn diff(
    engine: &Engine,
    owner: &Owner,
    (from, to): (SnapshotId, SnapshotId),
) -> Result<usize, EngineError> {
    let (from, to) = (Point::Snapshot(from), Point::Snapshot(to));
    engine.of(owner).snapshots().diff(&from, &to, DiffOptions::default()).await.map(|diff| diff.changes.len())
}

/// Begins diffs of one owner, and waits until two of them are at work.
async fn begin_diffs(
    count: usize,
    engine: &Engine,
    states: &(SnapshotId, SnapshotId),
    door: &Arc<Door>,
) -> Vec<JoinHandle<Result<usize, EngineError>>> {
    let begin = |_| {
        let (engine, states) = (engine.clone(), states.clone());
        tokio::spawn(async move { diff(&engine, &owner(), states).await })
    };
    let diffs = (0..count).map(begin).collect();
    let watched = Arc::clone(door);
    tokio::task::spawn_blocking(move || watched.until_inside(2)).await.unwrap();
    diffs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_diffs_of_one_owner_take_two_places_and_the_rest_is_refused_at_once() {
    let (_, engine, door) = world(two_of_three()).await;
    let states = states(&engine).await;
    let diffs = begin_diffs(100, &engine, &states, &door).await;
    // Two work and four wait: all others have their answer while those still do.
    let waited = async {
        while diffs.iter().filter(|diff| diff.is_finished()).count() < 94 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.expect("refusals do not wait");
    let busy = make(&engine).await.sandbox.id;
    assert_eq!(output(&engine, &busy, "echo there").await.trim(), "there", "what is not heavy goes on");
    door.open();
    let (mut done, mut refused) = (0, 0);
    for diff in diffs {
        match diff.await.unwrap() {
            Ok(_) => done += 1,
            Err(EngineError::MaxHeavyWork { kind: WorkKind::Comparison, each_owner: 2, all: 3 }) => {
                refused += 1
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!((done, refused, door.most_inside()), (6, 94, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_owner_finds_a_place() {
    let (_, engine, door) = world(two_of_three()).await;
    let states = states(&engine).await;
    let held = begin_diffs(6, &engine, &states, &door).await;
    let place = tokio::time::timeout(PATIENCE, engine.of(&stranger()).place_for(WorkKind::Comparison)).await;
    assert!(place.expect("it is not waited for").is_ok());
    door.open();
    for diff in held {
        assert!(diff.await.unwrap().is_ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_away_gives_the_place_back() {
    let limits =
        HeavyWorkLimits { comparisons: Share { all: 1, each_owner: 1 }, ..HeavyWorkLimits::default() };
    let (_, engine, door) = world(limits).await;
    let states = states(&engine).await;
    let gone = {
        let (engine, states) = (engine.clone(), states.clone());
        tokio::spawn(async move { diff(&engine, &owner(), states).await })
    };
    let watched = Arc::clone(&door);
    tokio::task::spawn_blocking(move || watched.until_inside(1)).await.unwrap();
    gone.abort();
    door.open();
    let next = tokio::time::timeout(PATIENCE, diff(&engine, &owner(), states)).await;
    assert!(next.expect("the place is free").is_ok());
}
