//! Opening: who may, whether what is found is what should be there, and how the first database comes to be.
//!
//! The first database is filled under another name and appears by a rename, so `catalog.db` is whole or absent. Only then is
//! it named in `catalog.json`. A process may end after any step: what it leaves is either used or made again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use warren_core::catalog::CatalogErrorKind;
use warren_core::{NodeId, NodeIdError};

use super::SqliteCatalog;
use super::failure::kind_of;
use super::identity::{self, Identity};
use super::lock::{LockError, ServerLock};
use super::migrations::{self, LATEST, MIGRATIONS};
use super::open_error::{CatalogOpenError, DamageFound, MakeError};
use super::readers::Readers;
use super::secrets::KeyFile;
use super::writer::{self, Writer};

/// After what the process may end while it opens a catalog, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenStep {
    Locked,
    Filled,
    Published,
    Migrated,
    Named,
}

/// Where things are in a data directory.
struct Files {
    data_dir: PathBuf,
    lock: PathBuf,
    identity: PathBuf,
    database: PathBuf,
    /// SQLite's write-ahead log.
    log: PathBuf,
    draft: PathBuf,
}

impl Files {
    fn of(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            lock: data_dir.join("catalog.lock"),
            identity: data_dir.join("catalog.json"),
            database: data_dir.join("catalog.db"),
            log: data_dir.join("catalog.db-wal"),
            draft: data_dir.join("catalog.db.new"),
        }
    }
}

pub(super) fn open(data_dir: &Path, passed: &dyn Fn(OpenStep)) -> Result<SqliteCatalog, CatalogOpenError> {
    let files = Files::of(data_dir);
    let lock = lock(&files)?;
    passed(OpenStep::Locked);
    let known = Identity::read(&files.identity)
        .map_err(|source| CatalogOpenError::Identity { path: files.identity.clone(), source })?;
    if files.database.exists() {
        let lock_failed = |source| CatalogOpenError::Lock { path: files.lock.clone(), source };
        if lock.was_left_open().map_err(lock_failed)? && !files.log.exists() {
            return Err(CatalogOpenError::LogLost { path: files.log });
        }
        // SQLite would remove the log of a database that has nothing in it.
        if fs::metadata(&files.database).is_ok_and(|metadata| metadata.len() == 0) {
            return Err(CatalogOpenError::NotACatalog { path: files.database });
        }
    } else if known.is_some() || files.log.exists() {
        return Err(CatalogOpenError::Lost { path: files.database });
    } else {
        make(&files, passed)
            .map_err(|source| CatalogOpenError::Make { path: files.database.clone(), source })?;
    }
    let mut connection = connect(&files)?;
    let instance = examine(&connection, &files, known.as_ref())?;
    migrations::migrate(&mut connection, MIGRATIONS)
        .map_err(|source| CatalogOpenError::Migrate { path: files.database.clone(), source })?;
    passed(OpenStep::Migrated);
    let node = node(&connection, &files)?;
    name(&files, known.as_ref(), &lock, &instance)?;
    passed(OpenStep::Named);
    let readers = Readers::new(&files.database);
    let key_file = KeyFile::of(data_dir);
    Ok(SqliteCatalog { readers, writer: Writer::new(connection), instance, node, key_file, lock })
}

/// The node that the catalog belongs to.
fn node(connection: &Connection, files: &Files) -> Result<NodeId, CatalogOpenError> {
    let found: String = connection
        .query_row("SELECT node FROM identity", [], |row| row.get(0))
        .map_err(|source| unreadable(files, source))?;
    found.parse().map_err(|error: NodeIdError| {
        let source = DamageFound::Check(error.to_string());
        CatalogOpenError::Damaged { path: files.database.clone(), source }
    })
}

/// Writes down that this is the database, and that it is in use: from here on it must not get lost, nor its log.
fn name(
    files: &Files,
    known: Option<&Identity>,
    lock: &ServerLock,
    instance: &str,
) -> Result<(), CatalogOpenError> {
    if known.is_none() {
        let identity = Identity { instance: instance.to_owned() };
        identity
            .write(&files.identity)
            .map_err(|source| CatalogOpenError::WriteIdentity { path: files.identity.clone(), source })?;
    }
    lock.mark_open(&files.lock).map_err(|source| CatalogOpenError::Lock { path: files.lock.clone(), source })
}

fn lock(files: &Files) -> Result<ServerLock, CatalogOpenError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&files.data_dir)
        .map_err(|source| CatalogOpenError::Directory { path: files.data_dir.clone(), source })?;
    ServerLock::acquire(&files.lock).map_err(|error| match error {
        LockError::Held(pid) => CatalogOpenError::InUse { data_dir: files.data_dir.clone(), pid },
        LockError::Io(source) => CatalogOpenError::Lock { path: files.lock.clone(), source },
    })
}

fn make(files: &Files, passed: &dyn Fn(OpenStep)) -> Result<(), MakeError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(MakeError::Random)?;
    let instance = format!("{:032x}", u128::from_be_bytes(bits));
    remove_draft(&files.draft).map_err(MakeError::File)?;
    // Specs hold what tenants keep secret from each other and from other users of the machine.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&files.draft)
        .map_err(MakeError::File)?;
    fill(&files.draft, &instance).map_err(MakeError::Fill)?;
    passed(OpenStep::Filled);
    File::open(&files.draft)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&files.draft, &files.database))
        .and_then(|()| identity::sync_directory(&files.database))
        .map_err(MakeError::File)?;
    passed(OpenStep::Published);
    Ok(())
}

fn remove_draft(draft: &Path) -> io::Result<()> {
    for path in [draft.to_owned(), draft.with_extension("new-journal")] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn fill(draft: &Path, instance: &str) -> rusqlite::Result<()> {
    let mut connection = Connection::open(draft)?;
    migrations::migrate(&mut connection, MIGRATIONS)?;
    connection.execute("INSERT INTO identity (one, instance, node) VALUES (1, ?1, ?1)", [instance])?;
    connection.close().map_err(|(_, error)| error)
}

fn connect(files: &Files) -> Result<Connection, CatalogOpenError> {
    let failed = |source| unreadable(files, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&files.database, flags).map_err(failed)?;
    writer::configure(&connection).map_err(failed)?;
    // Otherwise a start that is refused would remove the log of a server that was killed, and look like its loss.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    Ok(connection)
}

/// Looks at everything before anything is changed. Says which catalog it is.
fn examine(
    connection: &Connection,
    files: &Files,
    known: Option<&Identity>,
) -> Result<String, CatalogOpenError> {
    let path = || files.database.clone();
    let failed = |source| unreadable(files, source);
    let found = migrations::version(connection).map_err(failed)?;
    if found > LATEST {
        return Err(CatalogOpenError::NewerSchema { path: path(), found });
    }
    let verdict: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if verdict != "ok" {
        return Err(CatalogOpenError::Damaged { path: path(), source: DamageFound::Check(verdict) });
    }
    if found < 1 {
        return Err(CatalogOpenError::NotACatalog { path: path() });
    }
    let instance: Option<String> = connection
        .query_row("SELECT instance FROM identity", [], |row| row.get(0))
        .optional()
        .or_else(|error| if is_missing_table(&error) { Ok(None) } else { Err(failed(error)) })?;
    let instance = instance.ok_or_else(|| CatalogOpenError::NotACatalog { path: path() })?;
    if let Some(known) = known.filter(|known| known.instance != instance) {
        let expected = known.instance.clone();
        return Err(CatalogOpenError::Replaced { path: path(), found: instance, expected });
    }
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
    if mode == "wal" { Ok(instance) } else { Err(CatalogOpenError::NoLog { path: path() }) }
}

/// SQLite's general error is what a query about a table that is not there gives.
fn is_missing_table(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::Unknown)
}

fn unreadable(files: &Files, source: rusqlite::Error) -> CatalogOpenError {
    let path = files.database.clone();
    match kind_of(&source) {
        CatalogErrorKind::Damaged => {
            CatalogOpenError::Damaged { path, source: DamageFound::Unreadable(source) }
        }
        CatalogErrorKind::Busy => CatalogOpenError::Busy { path, source },
        CatalogErrorKind::Full => CatalogOpenError::Full { path, source },
        _ => CatalogOpenError::Open { path, source },
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use warren_core::catalog::NodeCatalog as _;

    use super::*;

    const STEP: &str = "WARREN_TEST_OPEN_STEP";
    const DATA: &str = "WARREN_TEST_OPEN_DATA";
    const STEPS: [OpenStep; 5] =
        [OpenStep::Locked, OpenStep::Filled, OpenStep::Published, OpenStep::Migrated, OpenStep::Named];

    /// The test starts itself as a child that ends after one step, as if it were killed there.
    #[test]
    fn a_start_that_ends_after_any_step_leaves_what_the_next_one_accepts() {
        if let (Ok(step), Some(data)) = (env::var(STEP), env::var_os(DATA)) {
            let end_at = |at: OpenStep| {
                if format!("{at:?}") == step {
                    std::process::abort();
                }
            };
            open(Path::new(&data), &end_at).unwrap();
            panic!("step {step} was not passed");
        }
        for step in STEPS {
            let data = tempfile::tempdir().unwrap();
            for _ in 0..2 {
                end_after(step, data.path());
            }
            let catalog =
                SqliteCatalog::open(data.path()).unwrap_or_else(|error| panic!("{step:?}: {error}"));
            let boot = Some("boot".to_owned());
            catalog.update_node(&mut |record| record.snapshots_boot.clone_from(&boot)).unwrap();
            drop(catalog);
            let catalog = SqliteCatalog::open(data.path()).unwrap();
            assert_eq!(catalog.node_record().unwrap().snapshots_boot, boot);
            let mut names: Vec<String> = fs::read_dir(data.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            let wanted = ["catalog.db", "catalog.db-shm", "catalog.db-wal", "catalog.json", "catalog.lock"];
            assert_eq!(names, wanted, "{step:?}");
        }
    }

    /// The first steps are passed once only: then the child gets further than asked for, and is not ended.
    fn end_after(step: OpenStep, data: &Path) {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "catalog::open::tests::a_start_that_ends_after_any_step_leaves_what_the_next_one_accepts",
            ])
            .env(STEP, format!("{step:?}"))
            .env(DATA, data)
            .output()
            .unwrap();
        let repeated = matches!(step, OpenStep::Published) && data.join("catalog.json").exists();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(repeated || output.status.code().is_none(), "{step:?}: {text}");
    }
}
