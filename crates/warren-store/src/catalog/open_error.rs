use std::io;
use std::path::PathBuf;

use super::identity::IdentityError;
use super::migrations::LATEST;

/// The catalog could not be opened. Another attempt is safe.
#[derive(Debug, thiserror::Error)]
pub enum CatalogOpenError {
    #[error("make the data directory `{}`", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("lock `{}`", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error(
        "another server{} uses the data directory `{}`: stop that one first, or name another directory",
        pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(),
        data_dir.display()
    )]
    InUse { data_dir: PathBuf, pid: Option<u32> },
    #[error(
        "`{}` is damaged: if `catalog.db` beside it is the right one, remove the file and start again",
        path.display()
    )]
    Identity { path: PathBuf, source: IdentityError },
    #[error("write `{}`", path.display())]
    WriteIdentity { path: PathBuf, source: io::Error },
    #[error(
        "the database `{}` is gone, though there was one: put it back from a backup; or, if all records may be forgotten and \
         their sandboxes left behind, remove `catalog.json` and `catalog.db-wal` beside it and start again",
        path.display()
    )]
    Lost { path: PathBuf },
    #[error(
        "the database's log `{}` is gone, and with it the latest changes: put both back from one backup; or, if \
         nothing is missing (the program sqlite3 empties and removes the log of a catalog whose server was killed), remove \
         `catalog.lock` beside it and start again",
        path.display()
    )]
    LogLost { path: PathBuf },
    #[error(
        "the database `{}` is not the one that was here (it is {found}, `catalog.json` names {expected}): put that back; \
         or, if this one is to be used, remove `catalog.json` beside it and start again",
        path.display()
    )]
    Replaced { path: PathBuf, found: String, expected: String },
    #[error("`{}` is empty or another program's database: put the catalog back from a backup", path.display())]
    NotACatalog { path: PathBuf },
    #[error(
        "the database `{}` has schema {found} and this version of Warren knows up to {LATEST}: \
         use the version that wrote it, or a newer one",
        path.display()
    )]
    NewerSchema { path: PathBuf, found: i64 },
    #[error("the database `{}` is damaged: put it back from a backup", path.display())]
    Damaged { path: PathBuf, source: DamageFound },
    #[error("another program holds the database `{}`: end it and start again", path.display())]
    Busy { path: PathBuf, source: rusqlite::Error },
    #[error("there is no room on the disk for the database `{}`: make some and start again", path.display())]
    Full { path: PathBuf, source: rusqlite::Error },
    #[error("the database `{}` cannot have a write-ahead log: is its file system a local one?", path.display())]
    NoLog { path: PathBuf },
    #[error("make the database `{}`", path.display())]
    Make { path: PathBuf, source: MakeError },
    #[error("open the database `{}`", path.display())]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("bring the database `{}` up to date", path.display())]
    Migrate { path: PathBuf, source: rusqlite::Error },
}

/// The sign of damage.
#[derive(Debug, thiserror::Error)]
pub enum DamageFound {
    #[error("SQLite cannot read it")]
    Unreadable(#[source] rusqlite::Error),
    #[error("{0}")]
    Check(String),
}

/// The first database of a data directory could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("draw a name for it")]
    Random(#[source] getrandom::Error),
    #[error("put the file in place")]
    File(#[source] io::Error),
    #[error("fill it")]
    Fill(#[source] rusqlite::Error),
}
