//! Several backends beside each other: each refuses by its capabilities, and none is in another's
//! way.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use warren_core::{
    Capabilities, DiskQuota, ImportFormat, Isolation as _, IsolationErrorKind, Mount, NetworkSupport,
    RootKind, SnapshotSupport,
};
use warren_engine::{Acquire, Acquired, Engine, EngineError, Parts, Point, StoppedFiles, TakeSnapshot};
use warren_testkit::{Call, FakeIsolation};

use crate::support::*;
use crate::travel::forks;

/// More than a backend starts at once.
const MANY: usize = 80;
/// The threads that one of two backends may hold.
const THREADS_OF_ONE: usize = 128;
/// More than that.
const FEW: usize = 200;
/// More than there are threads that may wait.
const FLOOD: usize = 700;

async fn open(world: &World, others: &[&Arc<FakeIsolation>]) -> Engine {
    let parts = world.parts(|_| {});
    let others = others.iter().map(|other| Arc::clone(other) as _);
    let backends = parts.backends.iter().cloned().chain(others).collect();
    let engine = Engine::open(Parts { backends, ..parts }, world.settings.clone()).await.unwrap();
    engine.reconciled().await;
    engine
}

fn on(backend: &str) -> Acquire {
    Acquire { backend: Some(backend.to_owned()), ..acquire() }
}

fn start(engine: &Engine, backend: &str) -> JoinHandle<Result<Acquired, EngineError>> {
    let (engine, request) = (engine.clone(), on(backend));
    tokio::spawn(async move { engine.of(&owner()).sessions().acquire(request).await })
}

fn reasons(error: EngineError) -> Vec<(String, String)> {
    match error {
        EngineError::NothingFits { reasons, .. } => reasons,
        other => panic!("{other:?}"),
    }
}

/// All that one sandbox can go through, on a backend that is well.
async fn live_through_everything(engine: &Engine) {
    let id = engine.of(&owner()).sessions().acquire(on("fake")).await.unwrap().sandbox.id;
    assert_eq!(output(engine, &id, "echo well").await, "well\n");
    engine.of(&owner()).sandbox(&id).usage().await.unwrap();
    engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Keep).await.unwrap();
    engine.of(&owner()).sandbox(&id).resume().await.unwrap();
    engine.of(&owner()).sandbox(&id).stop(StoppedFiles::Delete).await.unwrap();
    assert!(engine.health().await.disk.is_some());
}

#[tokio::test]
async fn a_backend_whose_starts_hang_keeps_nobody_from_another() {
    starts_hang().await;
}

/// Work is done where tasks are served, as in the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_whose_starts_hang_keeps_nobody_from_another_on_several_threads() {
    starts_hang().await;
}

async fn starts_hang() {
    let (world, slow) = (World::new(), FakeIsolation::named("slow"));
    let engine = open(&world, &[&slow]).await;
    let hold = slow.hold(Call::Create);
    let hanging: Vec<_> = (0..MANY).map(|_| start(&engine, "slow")).collect();
    let most = std::thread::available_parallelism().map_or(1, usize::from).max(8);
    eventually("as many are started as may be", async || slow.held(Call::Create) == most).await;
    live_through_everything(&engine).await;
    assert_eq!(slow.held(Call::Create), most, "no more than that are started at once");
    drop(hold);
    for made in hanging {
        made.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_does_not_answer_is_not_waited_for() {
    let (mut world, slow) = (World::new(), FakeIsolation::named("slow"));
    world.settings.health_ms = 0;
    let engine = open(&world, &[&slow]).await;
    engine.of(&owner()).sessions().acquire(on("slow")).await.unwrap();
    let holds = [Call::Probe, Call::Usage].map(|call| slow.hold(call));
    let asking: Vec<_> = (0..FEW)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.health().await })
        })
        .collect();
    let sweeping = engine.clone();
    let swept = tokio::spawn(async move { sweeping.sweep().await });
    for asked in asking {
        let health = timeout(PATIENCE, asked).await.expect("an answer").unwrap();
        assert_eq!((health.backends["fake"], health.backends["slow"]), (true, false), "{health:?}");
        assert!(health.problems.iter().any(|problem| problem.contains("slow (it does not answer)")));
    }
    timeout(PATIENCE, swept).await.expect("the sweep ends").unwrap();
    assert!(slow.held(Call::Probe) <= THREADS_OF_ONE, "those that hang keep their threads");
    drop(holds);
    assert_eq!(engine.health().await.problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_backend_that_answers_nothing_keeps_nobody_from_another() {
    answers_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_answers_nothing_keeps_nobody_from_another_on_several_threads() {
    answers_nothing().await;
}

async fn answers_nothing() {
    let (mut world, slow) = (World::new(), FakeIsolation::named("slow"));
    (world.settings.calls_per_sandbox, world.settings.calls_per_owner) = (2 * FLOOD, 2 * FLOOD);
    let engine = open(&world, &[&slow]).await;
    let id = engine.of(&owner()).sessions().acquire(on("slow")).await.unwrap().sandbox.id;
    let calls = [Call::Dial, Call::Usage, Call::Seal, Call::Halt];
    let holds: Vec<_> = calls.map(|call| slow.hold(call)).into_iter().collect();
    let call = || {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move { drop(exec(&engine, &id, "true").await) })
    };
    let mut hanging: Vec<_> = (0..FLOOD).map(|_| call()).collect();
    let (asking, at) = (engine.clone(), id.clone());
    hanging.push(tokio::spawn(async move { drop(asking.of(&owner()).sandbox(&at).usage().await) }));
    let (asking, at) = (engine.clone(), id.clone());
    hanging.push(tokio::spawn(async move {
        drop(asking.of(&owner()).sandbox(&at).stop(StoppedFiles::Keep).await);
    }));
    eventually("many wait for the agent", async || slow.held(Call::Dial) > MANY).await;
    live_through_everything(&engine).await;
    assert!(slow.held(Call::Dial) < FLOOD / 2, "most wait without a thread");
    drop(holds);
    for ended in hanging {
        ended.await.unwrap();
    }
}

/// All of a test's tasks share one thread: if dialing blocked it, nothing else would go on.
#[tokio::test]
async fn dialing_blocks_no_thread_that_serves_whatever_the_guest_does() {
    let (world, other) = (World::new(), FakeIsolation::named("other"));
    let engine = open(&world, &[&other]).await;
    let frozen = engine.of(&owner()).sessions().acquire(on("other")).await.unwrap().sandbox.id;
    let full = engine.of(&owner()).sessions().acquire(on("other")).await.unwrap().sandbox.id;
    let silent = engine.of(&owner()).sessions().acquire(on("other")).await.unwrap().sandbox.id;
    let (asking, flood) = (engine.clone(), Bytes::from(vec![b'x'; 32 << 20]));
    let (at, unread) = (full.clone(), program("sleep 1000"));
    let mut stuck = vec![tokio::spawn(async move {
        drop(asking.of(&owner()).sandbox(&at).exec(unread, flood, CAPS).await);
    })];
    eventually("it runs", async || other.running(&full) == 1).await;
    other.freeze(&frozen).unwrap();
    let stick = |id: &warren_core::SandboxId| {
        let (engine, id) = (engine.clone(), id.clone());
        tokio::spawn(async move { drop(exec(&engine, &id, "true").await) })
    };
    stuck.push(stick(&frozen));
    live_through_everything(&engine).await;
    let calls = other.calls(Call::Dial);
    other.fail_always(Call::Dial, Some(IsolationErrorKind::Busy));
    stuck.push(stick(&silent));
    eventually("it is dialed again and again", async || other.calls(Call::Dial) > calls + 3).await;
    live_through_everything(&engine).await;
    other.fail_always(Call::Dial, None);
    let hold = other.hold(Call::Dial);
    stuck.push(stick(&silent));
    eventually("dialing hangs", async || other.held(Call::Dial) > 0).await;
    live_through_everything(&engine).await;
    drop(hold);
    other.thaw(&frozen).unwrap();
    stuck.into_iter().for_each(|task| task.abort());
}

#[tokio::test]
async fn the_answer_says_for_each_backend_which_capability_is_missing() {
    let able = FakeIsolation::everything;
    let plain = |name, can| FakeIsolation::able(name, can);
    let world = World {
        isolation: plain("a", Capabilities { network: NetworkSupport::None, ..able() }),
        ..World::new()
    };
    let own = NetworkSupport::Own { modes: vec!["bridge".to_owned()] };
    let others = [
        plain("b", Capabilities { roots: vec![RootKind::Image], ..able() }),
        plain("c", Capabilities { host_mounts: false, ..able() }),
        plain("d", Capabilities { disk_quota: DiskQuota::Watched, ..able() }),
        plain("e", Capabilities { network: own, ..able() }),
    ];
    let engine = open(&world, &others.each_ref()).await;
    let mut request = acquire();
    request.sandbox.disk_limit_required = true;
    let mount = Mount { source: "/srv".into(), target: "/srv".into(), access: Default::default() };
    request.sandbox.spec.mounts = vec![mount];
    let answer = reasons(engine.of(&owner()).sessions().acquire(request).await.unwrap_err());
    let expected =
        [("a", "network"), ("b", "roots"), ("c", "host_mounts"), ("d", "disk_quota"), ("e", "network")];
    assert_eq!(answer.len(), expected.len(), "{answer:?}");
    for ((name, why), (backend, capability)) in answer.iter().zip(expected) {
        assert_eq!(name, backend);
        assert!(why.contains(&format!("`{capability}`")), "{why}");
    }
    for backend in others.iter().chain([&world.isolation]) {
        assert_eq!(backend.calls(Call::Create), 0, "nothing was built");
    }
    let made = engine.of(&owner()).sessions().acquire(acquire()).await.unwrap().sandbox;
    assert_eq!(made.backend, "c", "the first that can");
}

#[tokio::test]
async fn a_backend_without_layers_refuses_snapshots_forks_and_going_back_by_name() {
    for snapshots in [SnapshotSupport::None, SnapshotSupport::Scanned] {
        let able = Capabilities { snapshots, ..FakeIsolation::everything() };
        let world = World { isolation: FakeIsolation::able("plain", able), ..World::new() };
        let engine = world.open().await;
        let id = make(&engine).await.sandbox.id;
        output(&engine, &id, "write /root/work one").await;
        let empty = Box::new(std::io::empty());
        let refused = [
            engine.of(&owner()).sandbox(&id).history().take(TakeSnapshot::default()).await.map(drop),
            engine.of(&owner()).snapshots().fork(&Point::Sandbox(id.clone()), forks(1)).await.map(drop),
            engine.of(&owner()).sandbox(&id).history().undo(1, true).await.map(drop),
            engine.of(&owner()).snapshots().import(ImportFormat::History, None, None, empty).await.map(drop),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert!(matches!(error, EngineError::SnapshotsUnavailable(_)), "{error:?}");
            assert!(error.to_string().contains("`snapshots`"), "{error}");
        }
        assert_eq!(world.isolation.calls(Call::Create), 1, "nothing else was built");
        assert_eq!(output(&engine, &id, "read /root/work").await, "one");
        assert_consistent(&world, &engine).await;
    }
}

#[tokio::test]
async fn a_backend_that_cannot_freeze_refuses_a_pause_by_name() {
    let able = Capabilities { freeze: false, ..FakeIsolation::everything() };
    let world = World { isolation: FakeIsolation::able("plain", able), ..World::new() };
    let engine = world.open().await;
    let id = make(&engine).await.sandbox.id;
    let answer = reasons(engine.of(&owner()).sandbox(&id).pause().await.unwrap_err());
    assert!(answer[0].1.contains("`freeze`"), "{answer:?}");
    assert_eq!(output(&engine, &id, "echo on").await, "on\n");
}
