use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::json;
use warren_core::catalog::{
    Durability, ImageCatalog as _, JournalCatalog as _, NodeCatalog as _, SandboxCatalog as _,
    SessionCatalog as _, SnapshotCatalog as _,
};
use warren_core::{
    BuildOutcome, ByteSize, Cpus, History, ImageOrigin, Owner, PauseKeeps, SandboxRecord, SnapshotRecord,
    StartCommands, Traffic, Wake,
};
use warren_store::SqliteCatalog;
use warren_testkit::{sample_entry, sample_node, sample_snapshot};

use super::new;

const VERSION_1: &str = include_str!("../../../src/catalog/migrations/0001-records.sql");

/// How many events the catalog of [`first_version`] had. The last ones were forgotten.
pub(super) const FIRST_VERSION_EVENTS: u64 = 5;

/// A catalog as the first version left it, with some sandboxes and a session of each.
pub(super) fn first_version(data: &Path, count: u32) {
    let mut connection = Connection::open(data.join("catalog.db")).unwrap();
    connection.execute_batch(VERSION_1).unwrap();
    connection.execute_batch("PRAGMA user_version = 1; PRAGMA journal_mode = WAL").unwrap();
    connection.execute("INSERT INTO identity (one, instance) VALUES (1, ?1)", ["0".repeat(32)]).unwrap();
    let connection = connection.transaction().unwrap();
    for number in 1..=count {
        let new = new(number);
        let mut sandbox = serde_json::to_value(&new.sandbox).unwrap();
        for field in ["history", "node"] {
            sandbox.as_object_mut().unwrap().remove(field).expect("the first version knew of none");
        }
        connection
            .execute(
                "INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record)
                 VALUES (?1, ?2, ?3, 1, 'creating', 0, ?3, ?4)",
                params![
                    new.sandbox.id.as_str(),
                    new.sandbox.owner.as_str(),
                    i64::from(number) * 1000,
                    sandbox.to_string()
                ],
            )
            .unwrap();
        connection
            .execute(
                "INSERT INTO sessions (id, owner, sandbox, client, created, open, record)
                 VALUES (?1, ?2, ?3, 'client', ?4, 1, ?5)",
                params![
                    new.session.id.as_str(),
                    new.session.owner.as_str(),
                    new.sandbox.id.as_str(),
                    i64::from(number) * 1000,
                    serde_json::to_string(&new.session).unwrap()
                ],
            )
            .unwrap();
    }
    connection.execute("INSERT INTO settings (name, value) VALUES ('name', 'value')", []).unwrap();
    let event = "INSERT INTO events (at, owner, event) VALUES (1, 'ann', '{}')";
    for _ in 0..FIRST_VERSION_EVENTS {
        connection.execute(event, []).unwrap();
    }
    connection.execute("DELETE FROM events WHERE number > 2", []).unwrap();
    connection.commit().unwrap();
}

#[test]
fn a_catalog_of_the_first_version_keeps_its_records_and_takes_new_ones() {
    let data = tempfile::tempdir().unwrap();
    first_version(data.path(), 20);
    for round in 1..=2 {
        let catalog = SqliteCatalog::open(data.path()).unwrap();
        assert_eq!((catalog.instance(), catalog.node().as_str()), (&*"0".repeat(32), &*"0".repeat(32)));
        for number in 1..=20 {
            let new = new(number);
            let found = catalog.sandbox(&Owner::first(), &new.sandbox.id).unwrap().unwrap();
            assert_eq!(found.history, History::default());
            assert_eq!(found, SandboxRecord { node: catalog.node().clone(), ..new.sandbox });
            assert_eq!(catalog.session(&Owner::first(), &new.session.id).unwrap(), Some(new.session));
        }
        let snapshot = sample_snapshot(&Owner::first(), round);
        catalog.insert_snapshots(&[snapshot], Durability::Disk).unwrap();
        assert_eq!(catalog.layers_of_snapshots(&sample_node()).unwrap().len(), round as usize);
        let entry = sample_entry(&new(1).sandbox, round);
        assert_eq!(catalog.append_entry(&entry, Durability::Process).unwrap(), u64::from(round));
    }
    let connection = Connection::open(data.path().join("catalog.db")).unwrap();
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 7);
}

const VERSION_4: [&str; 4] = [
    VERSION_1,
    include_str!("../../../src/catalog/migrations/0002-snapshots.sql"),
    include_str!("../../../src/catalog/migrations/0003-secrets.sql"),
    include_str!("../../../src/catalog/migrations/0004-nodes.sql"),
];

/// A catalog as version 4 left it, with what E2B's face remembered: a book of templates, the
/// snapshots of it, and annotations of a sandbox.
fn fourth_version(data: &Path, book: &str) {
    let connection = Connection::open(data.join("catalog.db")).unwrap();
    connection.execute_batch(&VERSION_4.concat()).unwrap();
    connection.execute_batch("PRAGMA user_version = 4; PRAGMA journal_mode = WAL").unwrap();
    let node = sample_node();
    let identity = "INSERT INTO identity (one, instance, node) VALUES (1, ?1, ?2)";
    connection.execute(identity, params!["0".repeat(32), node.as_str()]).unwrap();
    let mut sandbox = new(1).sandbox;
    for (name, value) in [
        (
            "e2b",
            r#"{"template":"t","timeout_s":60,"auto_resume":true,"cold_pause":true,"traffic":{"public":true,"https_ports":[8443]}}"#,
        ),
        ("e2b_start", r#"{"command":"serve"}"#),
        ("e2b_build", "00000000-0000-4000-8000-000000000001"),
    ] {
        sandbox.annotations.insert(name.to_owned(), value.to_owned());
    }
    connection
        .execute(
            "INSERT INTO sandboxes (id, owner, created, generation, status, over, ended, record, node)
             VALUES (?1, ?2, 1, 1, 'creating', 0, 1, ?3, ?4)",
            params![
                sandbox.id.as_str(),
                sandbox.owner.as_str(),
                serde_json::to_string(&sandbox).unwrap(),
                node.as_str()
            ],
        )
        .unwrap();
    for (number, name) in [(1, "e2b template a"), (2, "e2b template b"), (3, "mine")] {
        let snapshot = sample_snapshot(&Owner::first(), number);
        let record = SnapshotRecord { name: Some(name.to_owned()), ..snapshot };
        connection
            .execute(
                "INSERT INTO snapshots
                     (id, owner, sandbox, name, template, created, durable, damaged, record, node)
                 VALUES (?1, ?2, ?3, ?4, 'host', 1, 1, 0, ?5, ?6)",
                params![
                    record.id.as_str(),
                    record.owner.as_str(),
                    record.sandbox.as_str(),
                    name,
                    serde_json::to_string(&record).unwrap(),
                    node.as_str()
                ],
            )
            .unwrap();
    }
    let note = "INSERT INTO settings (name, value) VALUES (?1, ?2)";
    connection.execute(note, params![format!("server.e2b.templates.{}", Owner::first()), book]).unwrap();
}

/// A template with builds of every outcome, and one that is the snapshot of a sandbox.
fn book() -> String {
    let build = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
    let built = |number: u32| {
        let snapshot = sample_snapshot(&Owner::first(), number);
        json!({"ready": {"snapshot": snapshot.id, "sandbox": snapshot.sandbox, "template": "host",
            "env": {"A": "b"}, "user": null, "workdir": "/srv", "start": {"command": "serve"}}})
    };
    let layers = ["k2", "k1"].map(|key| {
        json!({"key": key, "snapshot": sample_snapshot(&Owner::first(), 2).id, "template": "host",
            "env": {}, "user": "root", "workdir": null})
    });
    json!({
        "templates": {
            "abcdefghij": {
                "name": "web", "kind": "steps", "created_unix_ms": 1, "updated_unix_ms": 2, "cpus": 2,
                "memory_mb": 512, "build_count": 4, "tags": {"v1": {"build": build(1), "since_unix_ms": 2}},
                "builds": {
                    (build(1)): {"created_unix_ms": 1, "outcome": built(1)},
                    (build(2)): {"created_unix_ms": 2, "outcome": {"failed": {"message": "no", "step": "2"}}},
                    (build(3)): {"created_unix_ms": 3, "outcome": "waiting", "tags": ["next"]},
                    (build(4)): {"created_unix_ms": 4, "outcome": "begun"},
                },
            },
            "klmnopqrst": {
                "name": null, "kind": "sandbox", "created_unix_ms": 5, "updated_unix_ms": 5, "cpus": null,
                "memory_mb": null, "build_count": 0, "tags": {}, "builds": {},
            },
        },
        "layers": layers,
    })
    .to_string()
}

#[test]
fn templates_of_e2b_are_images_after_the_upgrade() {
    let data = tempfile::tempdir().unwrap();
    fourth_version(data.path(), &book());
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    let images = catalog.images(&Owner::first()).unwrap();
    let [taken, web] = images.as_slice() else { panic!("{images:?}") };
    assert_eq!((taken.origin, &taken.name, taken.cpus), (ImageOrigin::Sandbox, &None, None));
    assert_eq!((web.id.as_str(), web.name.as_deref(), web.generation), ("abcdefghij", Some("web"), 1));
    assert_eq!((web.cpus, web.memory), (Some(Cpus::from_milli(2000)), Some(ByteSize::mib(512))));
    let built = web.built("v1").expect("it is ready");
    assert_eq!(built.snapshot, sample_snapshot(&Owner::first(), 1).id);
    assert_eq!(built.start, StartCommands::new(Some("serve".to_owned()), None));
    assert_eq!(built.context.env["A"], "b");
    let outcomes: Vec<_> = web.builds.values().map(|build| build.outcome.clone()).collect();
    assert!(matches!(&outcomes[1], BuildOutcome::Failed(failure) if failure.step == "2"), "{outcomes:?}");
    assert_eq!(outcomes[2], BuildOutcome::Waiting);
    let stopped = "the server stopped while it was built: build it again";
    assert!(matches!(&outcomes[3], BuildOutcome::Failed(failure) if failure.message == stopped));
    assert_eq!(catalog.image(&Owner::first(), "web").unwrap().as_ref(), Some(web));
    let steps = catalog.kept_steps(&Owner::first()).unwrap();
    assert_eq!(steps.iter().map(|step| step.key.as_str()).collect::<Vec<_>>(), ["k2", "k1"]);
    let of_images: Vec<_> =
        catalog.snapshots_of_images(&sample_node()).unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(of_images, [1, 2].map(|number| sample_snapshot(&Owner::first(), number).id));
    let sandbox = catalog.sandbox(&Owner::first(), &new(1).sandbox.id).unwrap().unwrap();
    assert_eq!(sandbox.start, built.start);
    assert_eq!(sandbox.build, Some("00000000-0000-4000-8000-000000000001".parse().unwrap()));
    let wake = Some(Wake { lifetime_s: 60 });
    let traffic = Traffic { public: true, mask_host: None, https_ports: vec![8443], wake };
    assert_eq!((sandbox.traffic, sandbox.pause_keeps), (traffic, PauseKeeps::Files));
    let annotations = BTreeMap::from([("e2b".to_owned(), r#"{"template":"t"}"#.to_owned())]);
    assert_eq!(sandbox.annotations, annotations);
}

#[test]
fn a_book_that_cannot_be_read_stays_with_its_snapshots() {
    let data = tempfile::tempdir().unwrap();
    fourth_version(data.path(), "{");
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    assert_eq!(catalog.images(&Owner::first()).unwrap(), []);
    assert_eq!(catalog.snapshots_of_images(&sample_node()).unwrap(), []);
    drop(catalog);
    let connection = Connection::open(data.path().join("catalog.db")).unwrap();
    let kept: i64 = connection.query_row("SELECT count(*) FROM settings", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1);
}
