//! The one connection that writes. Callers share its commits.
//!
//! A caller takes its turn at the connection, on its own thread, and runs its change in a savepoint
//! of the open transaction. If another caller waits, the transaction is left open for it; the last
//! in line commits for all. Every caller waits for that commit, so no change is acknowledged early,
//! and a failed change does not affect the others. With one caller every change is a commit; with
//! many, one commit (and one `fsync`) serves all that were waiting.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability};

use super::PATIENCE;
use super::failure::{JobError, kind_of};

/// Most changes in one transaction, so that the first callers do not wait for ever.
const MOST_JOBS: u32 = 256;

#[derive(Debug)]
pub(super) struct Writer {
    waiting: AtomicUsize,
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct Turn {
    connection: Connection,
    /// The present setting of `PRAGMA synchronous`.
    durability: Durability,
    batch: Option<Batch>,
    /// When a caller last waited in vain for the database. Callers that were in line then do not
    /// wait again.
    gave_up: Option<Instant>,
}

/// The transaction that is open.
#[derive(Debug)]
struct Batch {
    jobs: u32,
    outcome: Arc<Outcome>,
}

/// The outcome of a transaction, for all callers with a change in it.
#[derive(Debug, Default)]
struct Outcome {
    result: Mutex<Option<Result<(), Arc<rusqlite::Error>>>>,
    known: Condvar,
}

impl Writer {
    pub(super) fn new(connection: Connection) -> Self {
        // SQLite starts with FULL.
        let turn = Turn { connection, durability: Durability::Disk, batch: None, gave_up: None };
        Self { waiting: AtomicUsize::new(0), turn: Mutex::new(turn) }
    }

    /// Runs a change, and returns when it is committed as durably as asked. After an error nothing
    /// of it is left.
    pub(super) fn write<T>(
        &self,
        action: &str,
        durability: Durability,
        job: impl FnOnce(&Connection) -> Result<T, JobError>,
    ) -> Result<T, CatalogError> {
        let asked = Instant::now();
        let mut turn = self.take_turn();
        let outcome = turn.begin(durability, asked).map_err(|error| error.during(action))?;
        let result = turn.run(job);
        if turn.may_leave_open() && self.waiting.load(Ordering::SeqCst) > 0 {
            // The next in line goes on with this transaction.
            drop(turn);
        } else {
            turn.commit();
            drop(turn);
        }
        outcome.wait().map_err(|error| error.during(action))?;
        match result {
            Ok(result) => result.map_err(|error| error.during(action)),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Moves the log into the database, once nobody else uses it. Returns whether all was moved.
    pub(super) fn checkpoint(&self) -> bool {
        let turn = self.take_turn();
        let busy =
            turn.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        busy.is_ok_and(|busy| busy == 0)
    }

    fn take_turn(&self) -> MutexGuard<'_, Turn> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let turn = self.turn.lock();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        turn
    }
}

/// Settings of every connection: the time it waits for others, and foreign keys.
pub(super) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(128);
    // Otherwise a statement is compiled anew whenever it is given other values, to see whether
    // another plan would suit them better. No plan of ours depends on values.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA journal_size_limit = 67108864",
    )
}

impl Turn {
    /// Opens a transaction unless a suitable one is open. SQLite fixes a transaction's durability
    /// when it begins, so a less durable one is committed first.
    fn begin(&mut self, durability: Durability, asked: Instant) -> Result<Arc<Outcome>, JobError> {
        if durability > self.durability {
            self.commit();
        }
        if let Some(batch) = &mut self.batch {
            batch.jobs += 1;
            return Ok(Arc::clone(&batch.outcome));
        }
        if self.gave_up.is_some_and(|moment| moment > asked) {
            return Err(JobError::refused(CatalogErrorKind::Busy, "another program holds the database"));
        }
        self.synchronise(durability)?;
        if let Err(error) = execute(&self.connection, "BEGIN IMMEDIATE") {
            if kind_of(&error) == CatalogErrorKind::Busy {
                self.gave_up = Some(Instant::now());
            }
            return Err(error.into());
        }
        let outcome = Arc::<Outcome>::default();
        self.batch = Some(Batch { jobs: 1, outcome: Arc::clone(&outcome) });
        Ok(outcome)
    }

    fn synchronise(&mut self, durability: Durability) -> rusqlite::Result<()> {
        if durability != self.durability {
            // In WAL mode NORMAL hands each commit to the kernel, and FULL waits for the disk.
            let level = match durability {
                Durability::Process => "NORMAL",
                Durability::Disk => "FULL",
            };
            self.connection.execute_batch(&format!("PRAGMA synchronous = {level}"))?;
            self.durability = durability;
        }
        Ok(())
    }

    /// Runs one change in a savepoint. A panic in it is returned, so that the others are committed
    /// before it goes on.
    fn run<T>(
        &mut self,
        job: impl FnOnce(&Connection) -> Result<T, JobError>,
    ) -> thread::Result<Result<T, JobError>> {
        let connection = &self.connection;
        let result = catch_unwind(AssertUnwindSafe(|| {
            execute(connection, "SAVEPOINT job")?;
            job(connection)
        }));
        let settled = match &result {
            Ok(Ok(_)) => execute(connection, "RELEASE job"),
            // On a full or failing disk SQLite ends the whole transaction, so all callers get its
            // error.
            Ok(Err(JobError::Sqlite(rusqlite::Error::SqliteFailure(failure, text))))
                if connection.is_autocommit() =>
            {
                Err(rusqlite::Error::SqliteFailure(*failure, text.clone()))
            }
            _ => execute(connection, "ROLLBACK TO job").and_then(|()| execute(connection, "RELEASE job")),
        };
        if let Err(error) = settled {
            self.abandon(error);
        }
        result
    }

    fn may_leave_open(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.jobs < MOST_JOBS)
    }

    fn commit(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        match execute(&self.connection, "COMMIT") {
            Ok(()) => batch.outcome.settle(Ok(())),
            Err(error) => {
                self.batch = Some(batch);
                self.abandon(error);
            }
        }
    }

    fn abandon(&mut self, error: rusqlite::Error) {
        if !self.connection.is_autocommit() {
            // If even this fails the connection is unusable, and the next `BEGIN` says so.
            drop(execute(&self.connection, "ROLLBACK"));
        }
        if let Some(batch) = self.batch.take() {
            batch.outcome.settle(Err(Arc::new(error)));
        }
    }
}

impl Outcome {
    fn settle(&self, result: Result<(), Arc<rusqlite::Error>>) {
        *self.result.lock() = Some(result);
        self.known.notify_all();
    }

    fn wait(&self) -> Result<(), JobError> {
        let mut result = self.result.lock();
        loop {
            match &*result {
                Some(result) => return result.clone().map_err(JobError::Batch),
                None => self.known.wait(&mut result),
            }
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
