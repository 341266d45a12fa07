use std::path::Path;

use rusqlite::{Connection, params};
use warren_core::catalog::{
    Durability, JournalCatalog as _, SandboxCatalog as _, SessionCatalog as _, SnapshotCatalog as _,
};
use warren_core::{History, Owner};
use warren_store::SqliteCatalog;
use warren_testkit::{sample_entry, sample_snapshot};

use super::new;

const VERSION_1: &str = include_str!("../../../src/catalog/migrations/0001-records.sql");

/// A catalog as the first version left it, with some sandboxes and a session of each.
fn first_version(data: &Path, count: u32) {
    let connection = Connection::open(data.join("catalog.db")).unwrap();
    connection.execute_batch(VERSION_1).unwrap();
    connection.execute_batch("PRAGMA user_version = 1; PRAGMA journal_mode = WAL").unwrap();
    connection.execute("INSERT INTO identity (one, instance) VALUES (1, ?1)", ["0".repeat(32)]).unwrap();
    for number in 1..=count {
        let new = new(number);
        let mut sandbox = serde_json::to_value(&new.sandbox).unwrap();
        sandbox.as_object_mut().unwrap().remove("history").expect("the first version knew of none");
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
}

#[test]
fn a_catalog_of_the_first_version_keeps_its_records_and_takes_new_ones() {
    let data = tempfile::tempdir().unwrap();
    first_version(data.path(), 20);
    for round in 1..=2 {
        let catalog = SqliteCatalog::open(data.path()).unwrap();
        assert_eq!(catalog.instance(), "0".repeat(32));
        for number in 1..=20 {
            let new = new(number);
            let found = catalog.sandbox(&Owner::first(), &new.sandbox.id).unwrap().unwrap();
            assert_eq!(found.history, History::default());
            assert_eq!(found, new.sandbox);
            assert_eq!(catalog.session(&Owner::first(), &new.session.id).unwrap(), Some(new.session));
        }
        assert_eq!(catalog.setting("name").unwrap().as_deref(), Some("value"));
        let snapshot = sample_snapshot(&Owner::first(), round);
        catalog.insert_snapshots(&[snapshot], Durability::Disk).unwrap();
        assert_eq!(catalog.layers_of_snapshots().unwrap().len(), round as usize);
        let entry = sample_entry(&new(1).sandbox, round);
        assert_eq!(catalog.append_entry(&entry, Durability::Process).unwrap(), u64::from(round));
    }
    let connection = Connection::open(data.path().join("catalog.db")).unwrap();
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 4);
}
