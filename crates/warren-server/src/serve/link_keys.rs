//! The keys that sign links to ports: made at the first start, and kept in a file beside the
//! catalog. A copy of the catalog, as in a backup, must let nobody make links, and an operator
//! replaces a key without a server. To replace the key, put a new one before it in the file; once
//! no link of the old one is needed any more, take that away.

use std::io;
use std::path::Path;

use warren_face::link_keys::LinkKeys;

use super::ServeError;
use crate::private_file;
use crate::world::MachineRandom;

/// In the data directory, which only root can enter.
const FILE: &str = "link-keys.json";

/// Reads the keys, or makes one where there is none.
pub(super) fn settle(data_dir: &Path) -> Result<LinkKeys, ServeError> {
    let path = data_dir.join(FILE);
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|_| ServeError::LinkKeys { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let keys = LinkKeys::random(&MachineRandom);
            let text = serde_json::to_string_pretty(&keys).unwrap_or_default();
            let written = private_file::write(&path, &format!("{text}\n"));
            written.map(|()| keys).map_err(|source| ServeError::Write { path, source })
        }
        // A key that cannot be read must not be replaced by another.
        Err(source) => Err(ServeError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let first = settle(directory.path()).unwrap();
        let second = settle(directory.path()).unwrap();
        assert_eq!(serde_json::to_string(&first).unwrap(), serde_json::to_string(&second).unwrap());
        let path = directory.path().join(FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, "{}").unwrap();
        assert!(matches!(settle(directory.path()), Err(ServeError::LinkKeys { .. })));
    }
}
