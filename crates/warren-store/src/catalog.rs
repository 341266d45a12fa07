//! The catalog on SQLite: one database under the data directory, one server at a time.
//!
//! ```text
//! <data>/catalog.db      the records, in WAL mode (with catalog.db-wal and catalog.db-shm in use)
//! <data>/catalog.json    names the database that belongs here, so that its loss is noticed
//! <data>/catalog.lock    locked by the server, with its pid until it has closed the catalog
//! <data>/secrets.key     the key that secrets are sealed with, once there are any
//! ```
//!
//! Changes go through one connection, whose callers share commits (see `writer`). Queries have
//! connections of their own and never wait. docs/decisions/0013 gives the reasons.

mod documents;
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

/// All catalog ports over one SQLite database. Methods block and may be called from any number of
/// threads. A closure given to `update_session` must not itself change the catalog.
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
    /// Opens the data directory's catalog, making the first one. It refuses a second server, a
    /// newer schema, a damaged database, and one that is lost, replaced or without its log.
    pub fn open(data_dir: &Path) -> Result<Self, CatalogOpenError> {
        open::open(data_dir, &|_| {})
    }

    /// The unique name of this catalog: 32 hexadecimal digits.
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl Drop for SqliteCatalog {
    fn drop(&mut self) {
        self.readers.close();
        if self.writer.checkpoint() {
            // If this fails the next start requires a log, and there is one: SQLite is told to
            // leave it.
            drop(self.lock.mark_closed());
        }
    }
}

/// SQLite's integers have a sign. No time, count or number comes near the limit.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
