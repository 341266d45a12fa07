//! The catalog on SQLite: one database under the data directory, one server at a time.
//!
//! ```text
//! <data>/catalog.db      the records, in WAL mode (beside it catalog.db-wal and catalog.db-shm while in use)
//! <data>/catalog.json    names the database that belongs here, so that a lost or exchanged one is noticed
//! <data>/catalog.lock    held by the server that has it open; says its pid until that has closed it
//! <data>/secrets.key     what secrets' values are sealed with, once there are any
//! ```
//!
//! Changes go through one connection, whose callers share commits (see `writer`). Queries have connections of their own and
//! wait for nobody. docs/decisions/0013 gives the reasons.

mod events;
mod failure;
mod idempotency;
mod identity;
mod images;
mod journal;
mod keys;
mod lock;
mod migrations;
mod networks;
mod nodes;
mod open;
mod open_error;
mod page;
mod ports;
mod readers;
mod sandboxes;
mod secrets;
mod sessions;
mod snapshots;
mod writer;

use std::path::Path;
use std::time::Duration;

use warren_core::NodeId;

pub use identity::IdentityError;
pub use open_error::{CatalogOpenError, DamageFound, MakeError};

use lock::ServerLock;
use readers::Readers;
use secrets::KeyFile;
use writer::Writer;

/// How long a call waits for another program that holds the database.
const PATIENCE: Duration = Duration::from_secs(5);

/// All catalog ports over one SQLite database. Methods block and may be called from any number of threads; a change that
/// is handed to `update_session` must not itself change the catalog.
#[derive(Debug)]
pub struct SqliteCatalog {
    readers: Readers,
    writer: Writer,
    instance: String,
    node: NodeId,
    key_file: KeyFile,
    /// Released last.
    lock: ServerLock,
}

impl SqliteCatalog {
    /// Opens the data directory's catalog, making it if there never was one. It refuses a second server, a newer schema, a
    /// damaged database, one whose log is gone, and one that is missing or exchanged where another was.
    pub fn open(data_dir: &Path) -> Result<Self, CatalogOpenError> {
        open::open(data_dir, &|_| {})
    }

    /// Names this catalog among all that ever were: 32 hexadecimal digits.
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl Drop for SqliteCatalog {
    fn drop(&mut self) {
        self.readers.close();
        if self.writer.checkpoint() {
            // If this fails the next start insists on a log, and there is one: SQLite is told to leave it.
            drop(self.lock.mark_closed());
        }
    }
}

/// SQLite's integers have a sign. No time, count or number comes near the difference.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
