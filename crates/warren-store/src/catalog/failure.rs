use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};
use warren_core::catalog::{CatalogError, CatalogErrorKind};

use super::secrets::KeyError;

/// The reason why a query or a change failed. The caller adds what was being done.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobError {
    #[error("SQLite failed")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the transaction failed")]
    Batch(#[source] Arc<rusqlite::Error>),
    #[error("the record is not one")]
    Record(#[from] serde_json::Error),
    #[error("{source}")]
    Key { kind: CatalogErrorKind, source: KeyError },
    #[error("{reason}")]
    Refused { kind: CatalogErrorKind, reason: &'static str },
}

impl JobError {
    pub(super) fn refused(kind: CatalogErrorKind, reason: &'static str) -> Self {
        Self::Refused { kind, reason }
    }

    /// The error for the port's caller: what was being done, and why it failed.
    pub(super) fn during(self, action: &str) -> CatalogError {
        match self {
            Self::Sqlite(error) => CatalogError::caused(kind_of(&error), action, error),
            Self::Batch(error) => CatalogError::caused(kind_of(&error), action, error),
            Self::Record(error) => CatalogError::caused(CatalogErrorKind::Damaged, action, error),
            Self::Key { kind, source } => CatalogError::caused(kind, action, source),
            refused @ Self::Refused { kind, .. } => CatalogError::caused(kind, action, refused),
        }
    }
}

/// The meaning of an SQLite failure to a caller.
pub(super) fn kind_of(error: &rusqlite::Error) -> CatalogErrorKind {
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        return match error {
            // A column has a value that no version ever wrote there.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => CatalogErrorKind::Damaged,
            _ => CatalogErrorKind::Host,
        };
    };
    match (failure.code, failure.extended_code) {
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => CatalogErrorKind::Busy,
        (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => CatalogErrorKind::Full,
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => CatalogErrorKind::Damaged,
        (_, ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_UNIQUE) => {
            CatalogErrorKind::AlreadyExists
        }
        (_, ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => CatalogErrorKind::NotFound,
        _ => CatalogErrorKind::Host,
    }
}
