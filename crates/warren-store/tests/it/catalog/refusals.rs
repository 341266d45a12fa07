use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;

use rusqlite::Connection;
use warren_core::Owner;
use warren_core::catalog::{SandboxCatalog as _, SandboxFilter};
use warren_store::{CatalogOpenError, SqliteCatalog};
use warren_testkit::sample_node;

use super::insert;

/// A data directory whose catalog has records in many pages, and was closed.
fn closed() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    for number in 1..=100 {
        insert(&catalog, number);
    }
    data
}

fn refusal(data: &Path) -> CatalogOpenError {
    SqliteCatalog::open(data).map(drop).expect_err("it must be refused")
}

fn alter(data: &Path, sql: &str) {
    Connection::open(data.join("catalog.db")).unwrap().execute_batch(sql).unwrap();
}

/// A start that was refused must not have changed anything: with the right file in place all is as
/// it was.
fn assert_whole(data: &Path) {
    let catalog = SqliteCatalog::open(data).unwrap();
    assert_eq!(catalog.unfinished_sandboxes(&sample_node()).unwrap().len(), 100);
}

#[test]
fn what_was_written_is_there_after_closing() {
    let data = closed();
    let instance = SqliteCatalog::open(data.path()).unwrap().instance().to_owned();
    assert_eq!(instance.len(), 32);
    assert_whole(data.path());
    assert_eq!(SqliteCatalog::open(data.path()).unwrap().instance(), instance);
}

#[test]
fn other_users_of_the_machine_cannot_read_it() {
    let data = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    insert(&catalog, 1);
    for name in ["catalog.db", "catalog.db-wal"] {
        let mode = fs::metadata(data.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

#[test]
fn a_second_server_is_refused_until_the_first_is_gone() {
    let data = closed();
    let first = SqliteCatalog::open(data.path()).unwrap();
    let error = refusal(data.path());
    assert!(matches!(error, CatalogOpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()));
    assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
    drop(first);
    assert_whole(data.path());
}

#[test]
fn a_newer_schema_is_refused_and_both_versions_are_named() {
    let data = closed();
    alter(data.path(), "PRAGMA user_version = 77");
    let text = refusal(data.path()).to_string();
    assert!(text.contains("has schema 77") && text.contains("knows up to 7"), "{text}");
    alter(data.path(), "PRAGMA user_version = 7");
    assert_whole(data.path());
}

#[test]
fn a_lost_database_is_refused_and_none_is_made_in_its_place() {
    let data = closed();
    let (database, aside) = (data.path().join("catalog.db"), data.path().join("aside"));
    fs::rename(&database, &aside).unwrap();
    for _ in 0..2 {
        let error = refusal(data.path());
        assert!(matches!(error, CatalogOpenError::Lost { .. }), "{error}");
        assert!(error.to_string().contains("put it back from a backup"), "{error}");
        assert!(!database.exists());
    }
    fs::rename(&aside, &database).unwrap();
    assert_whole(data.path());
}

#[test]
fn what_a_refusal_advises_works() {
    let data = closed();
    for name in ["catalog.db", "catalog.db-wal"] {
        fs::remove_file(data.path().join(name)).unwrap();
    }
    refusal(data.path());
    fs::remove_file(data.path().join("catalog.json")).unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    assert!(catalog.unfinished_sandboxes(&sample_node()).unwrap().is_empty());
}

#[test]
fn another_directorys_database_is_refused() {
    let (data, other) = (closed(), closed());
    fs::copy(other.path().join("catalog.db"), data.path().join("catalog.db")).unwrap();
    let error = refusal(data.path());
    assert!(matches!(error, CatalogOpenError::Replaced { .. }), "{error}");
    fs::remove_file(data.path().join("catalog.json")).unwrap();
    assert_whole(data.path());
}

#[test]
fn a_file_that_is_no_catalog_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let database = data.path().join("catalog.db");
    fs::write(&database, "").unwrap();
    assert!(matches!(refusal(data.path()), CatalogOpenError::NotACatalog { .. }));
    alter(data.path(), "CREATE TABLE theirs (x); PRAGMA user_version = 1");
    assert!(matches!(refusal(data.path()), CatalogOpenError::NotACatalog { .. }));
    fs::remove_file(&database).unwrap();
    fs::write(&database, "a text of somebody ".repeat(1000)).unwrap();
    assert!(matches!(refusal(data.path()), CatalogOpenError::Damaged { .. }));
}

#[test]
fn a_damaged_database_is_refused_wherever_the_damage_is() {
    let whole = closed();
    let bytes = fs::read(whole.path().join("catalog.db")).unwrap();
    let page = 4096;
    assert!(bytes.len() > 20 * page);
    let damage = |alter: &dyn Fn(&Path)| {
        let data = tempfile::tempdir().unwrap();
        for name in ["catalog.db", "catalog.json"] {
            fs::copy(whole.path().join(name), data.path().join(name)).unwrap();
        }
        alter(&data.path().join("catalog.db"));
        let error = refusal(data.path());
        assert!(
            matches!(error, CatalogOpenError::Damaged { .. } | CatalogOpenError::NotACatalog { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("from a backup"), "{error}");
    };
    let write = |file: &Path, at: usize| {
        OpenOptions::new().write(true).open(file).unwrap().write_all_at(&[0xa5; 512], at as u64).unwrap();
    };
    let truncate = |file: &Path, length: usize| {
        OpenOptions::new().write(true).open(file).unwrap().set_len(length as u64).unwrap();
    };
    damage(&|file| write(file, 0));
    for middle in [bytes.len() / 2 / page, bytes.len() / 4 / page] {
        damage(&|file| write(file, middle * page));
    }
    for length in [0, 1, 50, page, page + 1, bytes.len() / 2 / page * page, bytes.len() - page] {
        damage(&|file| truncate(file, length));
    }
}

#[test]
fn a_log_that_is_gone_after_a_kill_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    insert(&catalog, 1);
    // The files that a server killed now leaves behind.
    let left = tempfile::tempdir().unwrap();
    for name in ["catalog.db", "catalog.db-wal", "catalog.json", "catalog.lock"] {
        fs::copy(data.path().join(name), left.path().join(name)).unwrap();
    }
    let log = left.path().join("catalog.db-wal");
    fs::rename(&log, left.path().join("aside")).unwrap();
    let error = refusal(left.path());
    assert!(matches!(error, CatalogOpenError::LogLost { .. }), "{error}");
    fs::rename(left.path().join("aside"), &log).unwrap();

    let schema = |version: u32| {
        let connection = Connection::open(left.path().join("catalog.db")).unwrap();
        connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        connection.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
    };
    schema(77);
    assert!(matches!(refusal(left.path()), CatalogOpenError::NewerSchema { .. }));
    schema(7);
    let catalog = SqliteCatalog::open(left.path()).expect("a start that was refused left the log");
    assert_eq!(catalog.unfinished_sandboxes(&sample_node()).unwrap().len(), 1);
}

#[test]
fn a_damaged_identity_is_refused() {
    let data = closed();
    fs::write(data.path().join("catalog.json"), "{").unwrap();
    let error = refusal(data.path());
    assert!(matches!(error, CatalogOpenError::Identity { .. }), "{error}");
    fs::remove_file(data.path().join("catalog.json")).unwrap();
    assert_whole(data.path());
}

#[test]
fn a_record_that_cannot_be_read_is_damage_and_not_absence() {
    let data = closed();
    alter(data.path(), "UPDATE sandboxes SET record = '{\"id\": 1}' WHERE created = 5000");
    let catalog = SqliteCatalog::open(data.path()).unwrap();
    let damaged = warren_core::catalog::CatalogErrorKind::Damaged;
    let id = super::new(5).sandbox.id;
    assert_eq!(catalog.sandbox(&Owner::first(), &id).unwrap_err().kind, damaged);
    assert_eq!(catalog.unfinished_sandboxes(&sample_node()).unwrap_err().kind, damaged);
    let list = catalog.sandboxes(&Owner::first(), &SandboxFilter::default(), &Default::default());
    assert_eq!(list.unwrap_err().kind, damaged);
}
