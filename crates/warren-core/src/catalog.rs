//! The catalog: what should be, as against what is. Ports only; see `warren-store` for the one on
//! SQLite and `warren-testkit` for the one in memory.
//!
//! Methods block and may be called from any number of threads at once. Every query about one
//! owner's things takes the owner, and answers for another owner's things as for what does not
//! exist. The few that take none serve the engine's own start and its sweeps; those take the node,
//! and tell nothing of what another node holds.

mod events;
mod images;
mod journal;
mod keys;
mod networks;
mod nodes;
mod ports;
mod sandboxes;
mod secrets;
mod sessions;
mod snapshots;

use crate::failure::Failure;

pub use events::{EventFilter, EventLog};
pub use images::{ImageCatalog, ImageRoom};
pub use journal::JournalCatalog;
pub use keys::KeyCatalog;
pub use networks::NetworkCatalog;
pub use nodes::{ChangeNode, NodeCatalog};
pub use ports::PortCatalog;
pub use sandboxes::{Idempotency, InsertError, NewRecords, SandboxCatalog, SandboxFilter};
pub use secrets::SecretCatalog;
pub use sessions::{ChangeSession, SessionCatalog, SessionFilter, UpdateSessionError};
pub use snapshots::{SnapshotCatalog, SnapshotFilter};

/// All that lasts. Opening one refuses a newer schema, a damaged file, a second server and an
/// unexpectedly empty place.
pub trait Catalog:
    NodeCatalog
    + SandboxCatalog
    + SessionCatalog
    + SnapshotCatalog
    + JournalCatalog
    + PortCatalog
    + NetworkCatalog
    + KeyCatalog
    + SecretCatalog
    + ImageCatalog
    + EventLog
{
}

impl<T> Catalog for T where
    T: NodeCatalog
        + SandboxCatalog
        + SessionCatalog
        + SnapshotCatalog
        + JournalCatalog
        + PortCatalog
        + NetworkCatalog
        + KeyCatalog
        + SecretCatalog
        + ImageCatalog
        + EventLog
{
}

/// How safe a change is when the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// It survives the end of this process at any moment; a power cut may undo it. Enough for what
    /// dies with the power anyway.
    Process,
    /// It survives a power cut.
    Disk,
}

/// The catalog could not do what was asked.
pub type CatalogError = Failure<CatalogErrorKind>;

/// The kind of a [`CatalogError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CatalogErrorKind {
    /// Somebody else changed the record since it was read.
    Stale,
    /// A record of that id exists.
    AlreadyExists,
    /// Another sandbox of the owner has the name.
    NameTaken,
    /// No record of that id.
    NotFound,
    /// Somebody holds the database for too long; the same call may work in a moment.
    Busy,
    /// There is no room on the disk.
    Full,
    /// A record cannot be read: it is damaged.
    Damaged,
    /// The key that secrets' values are sealed with is gone, or is not the one they were sealed
    /// with.
    WrongKey,
    /// The host failed.
    Host,
}
