//! Sessions over strict ports. What is shared with the tests of runs and chats stands first.

mod acquiring;
mod changing;
mod ending;

use std::sync::Arc;

use warren_core::{Owner, RunLimits, SandboxRecord, SandboxSpec, SessionRecord, SessionState, TemplateName};
use warren_testkit::{
    FakeBuildFiles, FakeClock, FakeIsolation, FakeNetworks, FakeRandom, FakeTemplates, MemoryCatalog,
    Standing,
};

use crate::{Acquire, Acquired, Engine, EngineError, NewSandbox, Parts, Requirements, Settings};

/// An engine on fakes.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) backend: Arc<FakeIsolation>,
    pub(crate) clock: Arc<FakeClock>,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let (backend, clock) = (FakeIsolation::new(), Arc::new(FakeClock::new()));
        let parts = Parts {
            backends: vec![backend.clone()],
            absent: Vec::new(),
            catalog: Arc::new(MemoryCatalog::new()),
            templates: Arc::new(FakeTemplates::new()),
            layers: backend.layers(),
            build_files: Arc::new(FakeBuildFiles::default()),
            networks: FakeNetworks::new(),
            clock: clock.clone(),
            random: Arc::new(FakeRandom::new(7)),
            passed: Arc::new(|_| {}),
        };
        let engine = Engine::open(parts, settings).await.unwrap();
        engine.reconciled().await;
        Self { engine, backend, clock }
    }

    pub(crate) async fn acquire(&self) -> Acquired {
        self.engine.of(&owner()).sessions().acquire(request()).await.unwrap()
    }

    /// A session as the catalog has it.
    pub(crate) async fn look(&self, session: &SessionRecord) -> SessionRecord {
        self.engine.session_record(&session.owner, &session.id).await.unwrap()
    }

    pub(crate) async fn state(&self, session: &SessionRecord) -> SessionState {
        self.look(session).await.state
    }

    pub(crate) fn standing(&self, sandbox: &SandboxRecord) -> Option<Standing> {
        self.backend.standing(&sandbox.id)
    }

    /// Lets time pass, and the engine notice.
    pub(crate) async fn pass_s(&self, seconds: u64) {
        self.clock.advance_s(seconds);
        self.engine.sweep_sessions().await;
    }
}

pub(crate) fn owner() -> Owner {
    Owner::first()
}

pub(crate) fn stranger() -> Owner {
    "stranger".parse().unwrap()
}

pub(crate) fn new_sandbox() -> NewSandbox {
    NewSandbox::new(SandboxSpec::new(TemplateName::host()))
}

pub(crate) fn request() -> Acquire {
    Acquire::new("tests", new_sandbox())
}

pub(crate) fn limits(runs: u32) -> RunLimits {
    RunLimits { runs, ..RunLimits::default() }
}

/// The field that an error is about.
pub(crate) fn field<T: std::fmt::Debug>(result: Result<T, EngineError>) -> String {
    match result {
        Err(EngineError::Invalid { field, .. }) => field.to_string(),
        other => panic!("expected an invalid field, got {other:?}"),
    }
}

/// Asks until it is so, since something goes on in the background.
pub(crate) async fn eventually<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    for _ in 0..6000 {
        if so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it did not come to pass within a minute");
}
