use std::path::{Path, PathBuf};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};
use warren_core::catalog::CatalogError;

use super::failure::JobError;
use super::writer;

/// Enough to keep every processor busy; a query takes microseconds.
const MOST: usize = 16;

/// Connections that only read. Each sees the last commit, and never waits for the writer.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    pool: Mutex<Pool>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Connection>,
    lent: usize,
}

/// A connection on loan, given back when dropped.
struct Loan<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), pool: Mutex::default(), freed: Condvar::new() }
    }

    pub(super) fn read<T>(
        &self,
        action: &str,
        query: impl FnOnce(&Connection) -> Result<T, JobError>,
    ) -> Result<T, CatalogError> {
        let mut loan = Loan { connection: self.take(), readers: self };
        let answer = match &mut loan.connection {
            Some(connection) => query(connection),
            empty => self.open().map_err(JobError::from).and_then(|opened| query(empty.insert(opened))),
        };
        answer.map_err(|error| error.during(action))
    }

    /// Waits while all are lent. If it returns `None`, the caller opens a new one.
    fn take(&self) -> Option<Connection> {
        let mut pool = self.pool.lock();
        self.freed.wait_while(&mut pool, |pool| pool.lent == MOST);
        pool.lent += 1;
        pool.idle.pop()
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        writer::configure(&connection)?;
        Ok(connection)
    }

    /// Closes idle connections: all of them, once nobody reads.
    pub(super) fn close(&self) {
        self.pool.lock().idle.clear();
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut pool = self.readers.pool.lock();
        pool.lent -= 1;
        pool.idle.extend(self.connection.take());
        self.readers.freed.notify_one();
    }
}
