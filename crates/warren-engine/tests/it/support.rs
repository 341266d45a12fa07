//! A small world with an engine in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use warren_core::catalog::{EventFilter, SandboxFilter, SessionFilter};
use warren_core::{
    Caller, Capabilities, EventRecord, Isolation as _, IsolationKind, Limits, NetworkPolicy, NewRun, Owner,
    PageRequest, SandboxId, SandboxRecord, SandboxSpec, SessionId, SessionRecord, SessionState, Status,
    TemplateName, Timeouts,
};
use warren_engine::{
    Access, Acquire, Acquired, Attach, Engine, EngineError, EngineStep, ExecResult, NewSandbox, OutputCaps,
    Parts, ProcessSpec, Settings, ShutdownPolicy,
};
use warren_testkit::{
    FakeBuildFiles, FakeClock, FakeIsolation, FakeNetworks, FakeRandom, FakeTemplates, MemoryCatalog,
    Standing,
};

pub(crate) const ACTIVE_S: u64 = 300;
pub(crate) const DETACHED_S: u64 = 3600;
pub(crate) const SUSPENDED_S: u64 = 86_400;
/// So long that no other limit is hidden by it.
pub(crate) const LIFETIME_S: u64 = 300 * 86_400;

/// Longer than anything takes on the busiest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The ports of an engine, which outlive it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) isolation: Arc<FakeIsolation>,
    /// A second backend on the same layers, with a stronger wall.
    pub(crate) wall: Option<Arc<FakeIsolation>>,
    pub(crate) catalog: Arc<MemoryCatalog>,
    pub(crate) templates: Arc<FakeTemplates>,
    pub(crate) build_files: Arc<FakeBuildFiles>,
    pub(crate) networks: Arc<FakeNetworks>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) random: Arc<FakeRandom>,
    pub(crate) settings: Settings,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::seeded(1)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        let timeouts = Timeouts { active_s: ACTIVE_S, detached_s: DETACHED_S, suspended_s: SUSPENDED_S };
        Self {
            isolation: FakeIsolation::new(),
            wall: None,
            catalog: Arc::new(MemoryCatalog::new()),
            templates: Arc::new(FakeTemplates::new()),
            build_files: Arc::default(),
            networks: FakeNetworks::new(),
            clock: Arc::new(FakeClock::new()),
            random: Arc::new(FakeRandom::new(seed)),
            settings: Settings {
                timeouts,
                pause_drain_ms: 20,
                most_limits: Limits { lifetime_s: LIFETIME_S, ..Settings::default().most_limits },
                ..Settings::default()
            },
        }
    }

    /// One with two backends: `fake`, and `wall` with a kernel of its own.
    pub(crate) fn walled() -> Self {
        let mut world = Self::new();
        let able = Capabilities { isolation: IsolationKind::UserKernel, ..FakeIsolation::everything() };
        world.wall = Some(world.isolation.beside("wall", able));
        world.settings.away_retry = Duration::from_millis(5);
        world
    }

    /// The second backend.
    pub(crate) fn wall(&self) -> &Arc<FakeIsolation> {
        self.wall.as_ref().expect("a world with two backends")
    }

    pub(crate) fn isolations(&self) -> impl Iterator<Item = &Arc<FakeIsolation>> {
        std::iter::once(&self.isolation).chain(&self.wall)
    }

    pub(crate) fn parts(&self, passed: impl Fn(EngineStep) + Send + Sync + 'static) -> Parts {
        Parts {
            backends: self.isolations().map(|backend| Arc::clone(backend) as _).collect(),
            absent: Vec::new(),
            catalog: self.catalog.clone(),
            templates: self.templates.clone(),
            layers: self.isolation.layers(),
            build_files: self.build_files.clone(),
            networks: self.networks.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            passed: Arc::new(passed),
        }
    }

    /// An engine that has looked at everything that was there.
    pub(crate) async fn open(&self) -> Engine {
        let engine = Engine::open(self.parts(|_| {}), self.settings.clone()).await.expect("open the engine");
        engine.reconciled().await;
        engine
    }

    /// The engine ends in good order, sandboxes run on, and another one opens.
    pub(crate) async fn restart(&self, engine: Engine) -> Engine {
        engine.shutdown(ShutdownPolicy::Leave).await;
        drop(engine);
        self.open().await
    }

    /// The engine ends without a word, and another one opens.
    pub(crate) async fn reopen(&self, engine: Engine) -> Engine {
        crash(self, engine).await;
        self.open().await
    }

    /// Lets time pass, and the engine notice.
    pub(crate) async fn pass(&self, engine: &Engine, seconds: u64) {
        self.clock.advance_s(seconds);
        engine.sweep().await;
    }

    /// Lets an idle sandbox pause: the first look takes the figures with which the second compares.
    pub(crate) async fn fall_idle(&self, engine: &Engine) {
        self.pass(engine, 1).await;
        self.pass(engine, ACTIVE_S + 1).await;
    }

    /// Takes over after a process that has ended. A call of it that was under way still takes
    /// effect, as on a real machine.
    pub(crate) fn inherit(&self) {
        while self.isolations().any(|backend| backend.is_busy()) || self.networks.is_busy() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.isolations().for_each(|backend| backend.owner_ended());
    }

    pub(crate) fn standing(&self, record: &SandboxRecord) -> Option<Standing> {
        self.isolation.standing(&record.id)
    }
}

/// Asks as an owner does.
pub(crate) trait AsOwner {
    fn of(&self, owner: &Owner) -> Access;
}

impl AsOwner for Engine {
    fn of(&self, owner: &Owner) -> Access {
        self.as_(&Caller::new(owner.clone(), "tester"))
    }
}

/// The engine ends without a word.
pub(crate) async fn crash(world: &World, engine: Engine) {
    drop(engine);
    tokio::task::yield_now().await;
    world.isolations().for_each(|backend| backend.owner_ended());
}

/// An owner's events, the oldest first.
pub(crate) async fn all_events(engine: &Engine, owner: &Owner) -> Vec<EventRecord> {
    events_after(engine, owner, 0).await
}

pub(crate) async fn events_after(engine: &Engine, owner: &Owner, after: u64) -> Vec<EventRecord> {
    engine.of(owner).events().find(EventFilter::default(), after, u32::MAX).await.expect("a query").0
}

pub(crate) fn owner() -> Owner {
    Owner::first()
}

pub(crate) fn stranger() -> Owner {
    "stranger".parse().expect("an owner")
}

pub(crate) fn new_sandbox() -> NewSandbox {
    let mut spec = SandboxSpec::new(TemplateName::host());
    spec.limits.lifetime_s = LIFETIME_S;
    spec.network = NetworkPolicy::public();
    NewSandbox::new(spec)
}

pub(crate) fn acquire() -> Acquire {
    Acquire { fresh: true, ..Acquire::new("tester", new_sandbox()) }
}

/// As [`acquire`], for a sandbox without a network.
pub(crate) fn without_network() -> Acquire {
    let mut acquire = acquire();
    acquire.sandbox.spec.network = warren_core::NetworkPolicy::none();
    acquire
}

pub(crate) fn attach(id: &SandboxId) -> Attach {
    Attach {
        sandbox: id.clone().into(),
        client: "second".to_owned(),
        create_if_missing: None,
        timeouts: None,
    }
}

pub(crate) async fn make(engine: &Engine) -> Acquired {
    engine.of(&owner()).sessions().acquire(acquire()).await.expect("acquire a sandbox")
}

pub(crate) fn program(line: &str) -> ProcessSpec {
    ProcessSpec { argv: line.split(' ').map(Into::into).collect(), ..ProcessSpec::default() }
}

pub(crate) const CAPS: OutputCaps = OutputCaps { stdout: 1 << 20, stderr: 1 << 20 };

pub(crate) async fn exec(engine: &Engine, id: &SandboxId, line: &str) -> Result<ExecResult, EngineError> {
    engine.of(&owner()).sandbox(id).exec(program(line), Bytes::new(), CAPS).await
}

/// The output of a program that must succeed.
pub(crate) async fn output(engine: &Engine, id: &SandboxId, line: &str) -> String {
    let result = exec(engine, id, line).await.unwrap_or_else(|error| panic!("{line}: {error:?}"));
    assert_eq!(result.exit.code, 0, "{line}");
    String::from_utf8(result.stdout.bytes).expect("text")
}

pub(crate) async fn record(engine: &Engine, id: &SandboxId) -> SandboxRecord {
    engine.of(&owner()).sandbox(id).record().await.expect("a record")
}

pub(crate) async fn status(engine: &Engine, id: &SandboxId) -> Status {
    record(engine, id).await.status
}

pub(crate) async fn state(engine: &Engine, id: &SessionId) -> SessionState {
    engine.of(&owner()).session(id).view().await.expect("a session").session.state
}

/// Waits for something that happens in the background.
pub(crate) async fn eventually(what: &str, mut happened: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        if happened().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("it never happened: {what}");
}

pub(crate) fn run_of(tokens: u64) -> NewRun {
    NewRun {
        task: "look".to_owned(),
        result: None,
        duration_ms: 1000,
        tokens,
        screenshots: Vec::new(),
        provider: None,
    }
}

/// All records of all sandboxes of an owner, ended ones too.
pub(crate) async fn all_sandboxes(engine: &Engine, owner: &Owner) -> Vec<SandboxRecord> {
    let filter = SandboxFilter { ended: true, ..SandboxFilter::default() };
    let page = PageRequest { limit: PageRequest::MOST, after: None };
    engine.of(owner).sandboxes().list(&filter, &page).await.expect("list sandboxes").items
}

pub(crate) async fn all_sessions(engine: &Engine, owner: &Owner) -> Vec<SessionRecord> {
    let filter = SessionFilter { ended: true, ..SessionFilter::default() };
    let page = PageRequest { limit: PageRequest::MOST, after: None };
    engine.of(owner).sessions().list(&filter, &page).await.expect("list sessions").items
}

/// Checks that the machine has exactly what the records say, and that nothing is half done.
pub(crate) async fn assert_consistent(world: &World, engine: &Engine) {
    // What commands left is captured in the background.
    eventually("calls return", async || !world.isolations().any(|backend| backend.is_busy())).await;
    for backend in world.isolations() {
        assert_eq!(backend.violations(), Vec::<String>::new());
    }
    world.networks.assert_clean();
    world.isolation.layers().assert_clean();
    if let Err(disagreement) = compare(world, engine).await {
        panic!("{disagreement}");
    }
}

/// Tasks of the runtime. An engine has some of its own, one for each sandbox that lives, and those
/// that finish what callers began.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// As [`assert_consistent`], once everything that was begun is over: `idle` are the tasks of an
/// engine without sandboxes.
pub(crate) async fn assert_comes_to_rest(world: &World, engine: &Engine, idle: usize) {
    let mut last = String::new();
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        let live = all_sandboxes(engine, &owner()).await.iter().filter(|record| record.is_live()).count();
        let busy = tasks();
        last = match compare(world, engine).await {
            // A state may be captured in the background at any time after that.
            Ok(()) if busy == idle + live && !world.isolation.is_busy() => {
                return assert_eq!(world.isolation.violations(), Vec::<String>::new());
            }
            Ok(()) => format!("{busy} tasks are alive, {idle} are the engine's and {live} the sandboxes'"),
            Err(disagreement) => disagreement,
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never comes to rest: {last}");
}

async fn compare(world: &World, engine: &Engine) -> Result<(), String> {
    let records = all_sandboxes(engine, &owner()).await;
    let named = |backend: &Arc<FakeIsolation>| {
        let name = backend.name();
        backend.standings().into_iter().map(move |(id, standing)| ((name, id), standing))
    };
    let mut standings: BTreeMap<(&str, SandboxId), Standing> = world.isolations().flat_map(named).collect();
    for record in &records {
        let standing = standings.remove(&(record.backend.as_str(), record.id.clone()));
        let expected = match record.status {
            Status::Stopped | Status::Failed if record.unplaced => None,
            Status::Ready => Some(Standing::Running),
            Status::Paused => Some(Standing::Frozen),
            Status::Stopped | Status::Failed if record.files_kept() => Some(Standing::Halted),
            Status::Stopped | Status::Failed => None,
            Status::Creating | Status::Stopping => {
                return Err(format!("half done: {standing:?}, {record:?}"));
            }
        };
        let ended = record.death.is_some() == record.status.is_terminal();
        let paused = record.paused.is_some() == (record.status == Status::Paused);
        if standing != expected || !ended || !paused {
            return Err(format!("it is {standing:?} and not {expected:?}: {record:?}"));
        }
    }
    compare_links(world, &records)?;
    if !standings.is_empty() {
        return Err(format!("nobody knows of {standings:?}"));
    }
    for session in all_sessions(engine, &owner()).await {
        let sandbox = records.iter().find(|record| record.id == session.sandbox);
        if session.state.is_open() && !sandbox.is_some_and(SandboxRecord::is_live) {
            return Err(format!("{session:?} holds what has ended: {sandbox:?}"));
        }
    }
    Ok(())
}

/// Exactly those have a link that run and may go somewhere, and each link obeys its record.
fn compare_links(world: &World, records: &[SandboxRecord]) -> Result<(), String> {
    let runs = |record: &&SandboxRecord| matches!(record.status, Status::Ready | Status::Paused);
    let mut attached = world.networks.attached();
    for record in records {
        let expected = Some(record).filter(runs).map(|record| vec![record.spec.network.clone()]);
        let expected = expected.filter(|policies| !policies[0].is_none());
        let (found, addresses) = (world.networks.policies(&record.id), !record.addresses.is_empty());
        if found != expected || addresses != expected.is_some() {
            return Err(format!("its link obeys {found:?} and not {expected:?}: {record:?}"));
        }
        attached.remove(&record.id);
    }
    if attached.is_empty() { Ok(()) } else { Err(format!("nobody knows of the links of {attached:?}")) }
}
