//! Opening a catalog: the lock, checks of what is found, migrations, and the first database.
//!
//! The first database is filled under another name and appears by a rename, so `catalog.db` is
//! whole or absent. Only then is it named in `catalog.json`. A process may end after any step: the
//! next start uses what it left or makes it again.

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
use super::migrations::{self, LATEST, MIGRATIONS, MigrationStep};
use super::open_error::{CatalogOpenError, DamageFound, MakeError};
use super::readers::Readers;
use super::secrets::KeyFile;
use super::writer::{self, Writer};

/// A step of opening, after which a test ends the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenStep {
    Locked,
    Filled,
    Published,
    Migration(MigrationStep, usize),
    Migrated,
    Named,
}

/// The catalog's files in a data directory.
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
        // SQLite would remove the log of an empty database.
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
    let migrating = |step, version| passed(OpenStep::Migration(step, version));
    migrations::migrate(&mut connection, MIGRATIONS, &migrating)
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

/// Records that this is the database and that it is in use. From now on a start without it, or
/// without its log, is refused.
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
    // Specs contain secrets of tenants, which no other user of the machine may read.
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
    migrations::migrate(&mut connection, MIGRATIONS, &|_, _| {})?;
    connection.execute("INSERT INTO identity (one, instance, node) VALUES (1, ?1, ?1)", [instance])?;
    connection.close().map_err(|(_, error)| error)
}

fn connect(files: &Files) -> Result<Connection, CatalogOpenError> {
    let failed = |source| unreadable(files, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&files.database, flags).map_err(failed)?;
    writer::configure(&connection).map_err(failed)?;
    // Otherwise a refused start would remove the log of a killed server, and the next start would
    // take it for lost.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    Ok(connection)
}

/// Checks everything before anything is changed. Returns the catalog's name.
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

/// A query on a missing table gives SQLite's general error.
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
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};
    use std::thread;

    use warren_core::catalog::{EventLog as _, NodeCatalog as _};
    use warren_core::{Event, EventRecord, Owner};

    use super::*;

    const STEP: &str = "WARREN_TEST_OPEN_STEP";
    const DATA: &str = "WARREN_TEST_OPEN_DATA";
    const REACHED: &str = "the step is reached";
    const OLDEST: &str = include_str!("../../tests/it/catalog/golden/schema-3.sql");
    /// The numbers that the oldest catalog gave its events, of which the last two were forgotten.
    const GIVEN: u64 = 10;

    /// Not a test of its own: the process that [`kill_after`] starts and kills.
    #[test]
    fn a_child_opens_the_catalog() {
        let (Ok(step), Some(data)) = (env::var(STEP), env::var_os(DATA)) else { return };
        let stop_at = |at: OpenStep| {
            if format!("{at:?}") == step {
                writeln!(io::stdout(), "{REACHED}").unwrap();
                loop {
                    thread::park();
                }
            }
        };
        drop(open(Path::new(&data), &stop_at).unwrap());
    }

    /// Opens the catalog in a child, and kills that after one step. Returns whether it came there.
    fn kill_after(step: OpenStep, data: &Path) -> bool {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "catalog::open::tests::a_child_opens_the_catalog", "--nocapture"])
            .env(STEP, format!("{step:?}"))
            .env(DATA, data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reached = lines.any(|line| line.unwrap().ends_with(REACHED));
        child.kill().unwrap();
        assert!(child.wait().unwrap().success() != reached, "{step:?}");
        reached
    }

    #[test]
    fn a_start_that_ends_after_any_step_leaves_what_the_next_one_accepts() {
        let steps =
            [OpenStep::Locked, OpenStep::Filled, OpenStep::Published, OpenStep::Migrated, OpenStep::Named];
        for step in steps {
            let data = tempfile::tempdir().unwrap();
            assert!(kill_after(step, data.path()), "{step:?}");
            // A database is published once only.
            assert_eq!(kill_after(step, data.path()), step != OpenStep::Published);
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

    #[test]
    fn a_migration_that_is_killed_after_any_step_is_done_by_the_next_start() {
        use MigrationStep::{Applied, Begun, Committed, Numbered};
        for version in 4..=MIGRATIONS.len() {
            for step in [Begun, Applied, Numbered, Committed] {
                let data = tempfile::tempdir().unwrap();
                let connection = Connection::open(data.path().join("catalog.db")).unwrap();
                connection.execute_batch(OLDEST).unwrap();
                drop(connection);
                let killed = OpenStep::Migration(step, version);
                assert!(kill_after(killed, data.path()), "{killed:?}");
                // Only a migration that was committed is not begun again.
                assert_eq!(kill_after(killed, data.path()), step != Committed, "{killed:?}");
                check_numbers(data.path());
            }
        }
    }

    /// The events are there, and a new one gets a number that none had.
    fn check_numbers(data: &Path) {
        let catalog = SqliteCatalog::open(data).unwrap();
        let owner: Owner = "ann".parse().unwrap();
        let numbers = |after| -> Vec<u64> {
            catalog
                .events(&owner, &warren_core::catalog::EventFilter::default(), after, 100)
                .unwrap()
                .into_iter()
                .map(|event| event.number)
                .collect()
        };
        assert_eq!((numbers(0), catalog.last_event().unwrap()), (vec![1, 2, 4, 5, 6, 7, 8], GIVEN));
        let event = EventRecord {
            number: 0,
            at_unix_ms: 1,
            owner: owner.clone(),
            sandbox: None,
            session: None,
            event: Event::SandboxRemoved,
        };
        assert_eq!(catalog.append_events(&[event]).unwrap(), [GIVEN + 1]);
        assert_eq!((numbers(8), catalog.last_event().unwrap()), (vec![GIVEN + 1], GIVEN + 1));
    }
}
