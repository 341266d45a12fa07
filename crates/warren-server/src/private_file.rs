//! Files for their owner's eyes alone.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Writes a file that only its owner can read, whole or not at all. An earlier one is replaced,
/// whatever its rights were.
pub fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut bits = [0; 8];
    getrandom::fill(&mut bits)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{:016x}", u64::from_ne_bytes(bits)));
    let staged = path.with_file_name(name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&staged)
        .and_then(|mut file| file.write_all(content.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&staged, path));
    if written.is_err() {
        drop(std::fs::remove_file(&staged));
    }
    written
}

/// Makes a directory for our own eyes; one that exists is left as it is.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_file_is_private_even_where_an_open_one_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.json");
        std::fs::write(&path, "old").unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("env"), directory.path().join("other"));
        std::fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "untouched");
    }
}
