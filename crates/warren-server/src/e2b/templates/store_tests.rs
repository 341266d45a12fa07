use std::sync::Arc;

use warren_core::{SandboxSpec, TemplateName};
use warren_engine::{Acquire, Engine, NewSandbox, Parts, Settings, TakeSnapshot};
use warren_store::TemplateStore;
use warren_testkit::{FakeClock, FakeIsolation, FakeNetworks, FakeRandom, FakeTemplates, MemoryCatalog};

use super::super::book::{Context, Image, NewBuild};
use super::*;
use crate::config::Config;
use crate::server::{Server, ServerParts};

/// What outlives a server.
struct Machine {
    catalog: Arc<MemoryCatalog>,
    engine: Engine,
    directory: tempfile::TempDir,
}

impl Machine {
    async fn new() -> Self {
        let (isolation, catalog) = (FakeIsolation::new(), Arc::new(MemoryCatalog::new()));
        let parts = Parts {
            backends: vec![isolation.clone()],
            catalog: catalog.clone(),
            templates: Arc::new(FakeTemplates::new()),
            layers: isolation.layers(),
            networks: FakeNetworks::new(),
            clock: Arc::new(FakeClock::new()),
            random: Arc::new(FakeRandom::new(1)),
            passed: Arc::new(|_| {}),
        };
        let engine = Engine::open(parts, Settings::default()).await.unwrap();
        Self { catalog, engine, directory: tempfile::tempdir().unwrap() }
    }

    /// A server that has just begun.
    fn serve(&self) -> AppState {
        let mut config = Config::default();
        config.server.data_dir = self.directory.path().to_owned();
        let server = Server::new(ServerParts {
            engine: self.engine.clone(),
            catalog: self.catalog.clone(),
            templates: TemplateStore::open(self.directory.path()).unwrap(),
            clock: Arc::new(FakeClock::new()),
            link_keys: crate::proxy::LinkKeys::random(&FakeRandom::new(2)),
            random: Arc::new(FakeRandom::new(3)),
            config,
            networks: FakeNetworks::new(),
        })
        .unwrap();
        server.state().clone()
    }

    async fn sandbox(&self, annotations: &[(&str, &str)], labels: &[(&str, &str)]) -> SandboxRecord {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let spec = SandboxSpec { labels: pairs(labels), ..SandboxSpec::new(TemplateName::host()) };
        let sandbox = NewSandbox { annotations: pairs(annotations), ..NewSandbox::new(spec) };
        let request = Acquire { fresh: true, ..Acquire::new("test", sandbox) };
        self.engine.acquire(&Owner::first(), request).await.unwrap().sandbox
    }

    async fn snapshot(&self, sandbox: &SandboxRecord, name: &str) -> SnapshotId {
        let take = TakeSnapshot { name: Some(name.to_owned()), durable: true, session: None };
        self.engine.take_snapshot(&Owner::first(), &sandbox.id, take).await.unwrap().snapshot.id
    }

    async fn has(&self, snapshot: &SnapshotId) -> bool {
        self.engine.snapshot(&Owner::first(), snapshot).await.is_ok()
    }

    /// Waits for what is done in the background.
    async fn until_gone(&self, snapshot: &SnapshotId) {
        let gone = async {
            while self.has(snapshot).await {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.expect("it goes");
    }
}

async fn keep(state: &AppState, sandbox: &SandboxRecord, snapshot: &SnapshotId) {
    let context =
        Context { template: TemplateName::host(), env: Default::default(), user: None, workdir: None };
    let image = Image { snapshot: snapshot.clone(), sandbox: sandbox.id.clone(), context, start: None };
    let new = NewBuild {
        template: "t".to_owned(),
        build: "b".to_owned(),
        name: Some("saved".to_owned()),
        tags: vec!["default".to_owned()],
        cpus: None,
        memory_mb: None,
        now: 1,
    };
    Books::change(state, &Owner::first(), move |book| book.keep(new, image)).await.unwrap();
}

#[tokio::test]
async fn what_a_crash_left_is_cleared_away_and_the_rest_is_there() {
    let machine = Machine::new().await;
    let (owner, sandbox) = (Owner::first(), machine.sandbox(&[], &[]).await);
    let first = machine.serve();
    let name = Books::snapshot_name(&first, &owner).await.unwrap();
    let kept = machine.snapshot(&sandbox, &name).await;
    keep(&first, &sandbox, &kept).await;
    // The server stops between the snapshot and the book, and in the middle of a build.
    let orphan = machine.snapshot(&sandbox, &Books::snapshot_name(&first, &owner).await.unwrap()).await;
    let own = machine.snapshot(&sandbox, "before the upgrade").await;
    let building = machine.sandbox(&[(BUILD_NOTE, "b")], &[BUILD_LABEL]).await;
    let looks_alike = machine.sandbox(&[], &[BUILD_LABEL]).await;
    machine.engine.stop(&owner, &sandbox.id, StoppedFiles::Delete, "test").await.unwrap();
    assert!(machine.has(&kept).await, "a snapshot with a name stays when its sandbox goes");

    let second = machine.serve();
    let book = Books::of(&second, &owner).await.unwrap();
    assert_eq!(book.snapshots(), [&kept].into());
    machine.until_gone(&orphan).await;
    let ended = async {
        while machine.engine.sandbox(&owner, &building.id).await.is_ok_and(|record| record.is_live()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), ended).await.expect("it ends");
    assert!(machine.has(&kept).await && machine.has(&own).await);
    assert!(machine.engine.sandbox(&owner, &looks_alike.id).await.unwrap().is_live());

    let reference = super::super::reference::Reference::parse("saved").unwrap();
    Books::change(&second, &owner, move |book| book.delete(&reference, 2)).await.unwrap();
    machine.until_gone(&kept).await;
}

#[tokio::test]
async fn a_book_that_cannot_be_read_loses_nothing() {
    let machine = Machine::new().await;
    let (owner, sandbox) = (Owner::first(), machine.sandbox(&[], &[]).await);
    let first = machine.serve();
    let name = Books::snapshot_name(&first, &owner).await.unwrap();
    let kept = machine.snapshot(&sandbox, &name).await;
    keep(&first, &sandbox, &kept).await;
    let text = first.catalog.setting(&note(&owner)).unwrap().unwrap();
    first.catalog.set_setting(&note(&owner), Some("{")).unwrap();
    let second = machine.serve();
    assert!(Books::of(&second, &owner).await.is_err());
    assert!(machine.has(&kept).await);
    second.catalog.set_setting(&note(&owner), Some(&text)).unwrap();
    assert_eq!(Books::of(&second, &owner).await.unwrap().snapshots(), [&kept].into());
}

#[tokio::test]
async fn a_change_that_cannot_be_written_did_not_happen() {
    let machine = Machine::new().await;
    let (owner, state) = (Owner::first(), machine.serve());
    let before = Books::of(&state, &owner).await.unwrap();
    let failed = Books::change(&state, &owner, |book| {
        let new = NewBuild {
            template: "t".to_owned(),
            build: "b".to_owned(),
            name: Some("x".repeat(MOST_BYTES)),
            tags: Vec::new(),
            cpus: None,
            memory_mb: None,
            now: 1,
        };
        book.announce(new)
    });
    assert_eq!(failed.await.unwrap_err().status().as_u16(), 400);
    assert_eq!(Books::of(&state, &owner).await.unwrap(), before);
}
