//! `catalog.json` names the database that belongs to this data directory. So a lost database is
//! noticed, and no server starts empty on a machine full of sandboxes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// The same word is in the database.
    pub(super) instance: String,
}

/// `catalog.json` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("the file cannot be read")]
    Read(#[source] io::Error),
    #[error("it is not what Warren wrote there")]
    Malformed(#[source] serde_json::Error),
}

impl Identity {
    /// `None` if there is no file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, IdentityError> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(IdentityError::Malformed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(IdentityError::Read(error)),
        }
    }

    /// Writes the file whole or not at all, and syncs it to the disk.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let draft = path.with_extension("json.new");
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        sync_directory(path)
    }
}

/// Makes the names beside this file durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or_else(|| Path::new("/")))?.sync_all()
}
