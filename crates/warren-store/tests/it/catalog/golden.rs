//! Catalogs of earlier builds with every kind of record, and what the ports read from each after
//! its migration.
//!
//! `golden/schema-N.sql` is a dump of a catalog of schema N, written by the build that had it;
//! `golden/schema-N.json` is what this build reads from it. After adding a migration, run
//! `WARREN_BLESS=1 cargo test -p warren-store golden` once: it writes the dump of the new schema
//! and all readings again. The diff of the readings must show only the intended changes.

mod dump;
mod fill;
mod read;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use warren_store::SqliteCatalog;

/// The key that the secrets of all dumps are sealed with.
const SECRETS_KEY: [u8; 32] = *b"a key that only tests have to do";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/catalog/golden")
}

fn is_blessing() -> bool {
    std::env::var_os("WARREN_BLESS").is_some()
}

/// The dumps, the oldest first, with the schemas they are of.
fn dumps() -> Vec<(i64, PathBuf)> {
    let mut found: Vec<(i64, PathBuf)> = fs::read_dir(directory())
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?;
            let schema = name.strip_prefix("schema-")?.strip_suffix(".sql")?.parse().ok()?;
            Some((schema, path))
        })
        .collect();
    found.sort();
    found
}

fn empty() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let mut options = fs::OpenOptions::new();
    let mut key =
        options.write(true).create_new(true).mode(0o600).open(data.path().join("secrets.key")).unwrap();
    key.write_all(&SECRETS_KEY).unwrap();
    data
}

/// A data directory with the catalog of a dump.
fn restored(dump: &Path) -> tempfile::TempDir {
    let data = empty();
    let connection = Connection::open(data.path().join("catalog.db")).unwrap();
    connection.execute_batch(&fs::read_to_string(dump).unwrap()).unwrap();
    data
}

fn database(data: &Path) -> Connection {
    Connection::open(data.join("catalog.db")).unwrap()
}

#[test]
fn every_earlier_catalog_is_read_whole_once_it_is_migrated() {
    let dumps = dumps();
    assert!(!dumps.is_empty());
    for (schema, path) in dumps {
        let data = restored(&path);
        let catalog = SqliteCatalog::open(data.path()).unwrap();
        let first = read::everything(&catalog);
        drop(catalog);
        let expected = path.with_extension("json");
        if is_blessing() {
            fs::write(&expected, &first).unwrap();
        }
        assert!(
            first == fs::read_to_string(&expected).unwrap(),
            "schema {schema} is read in another way; if that is meant, run with WARREN_BLESS=1 and read the diff"
        );
        assert!(
            read::everything(&SqliteCatalog::open(data.path()).unwrap()) == first,
            "it is not changed again"
        );
    }
}

/// The next migration needs the dump for its test.
#[test]
fn the_schema_of_this_build_has_its_dump() {
    let data = empty();
    fill::every_kind_of_record(&SqliteCatalog::open(data.path()).unwrap());
    let connection = database(data.path());
    let schema = dump::version(&connection);
    let path = directory().join(format!("schema-{schema}.sql"));
    if is_blessing() && !path.exists() {
        fs::write(&path, dump::of(&connection)).unwrap();
    }
    assert!(path.exists(), "run with WARREN_BLESS=1 to write the dump of schema {schema}");
    let dumped = restored(&path);
    assert_eq!(
        dump::statements(&database(dumped.path())),
        dump::statements(&connection),
        "schema {schema} was changed after it was dumped"
    );
}
