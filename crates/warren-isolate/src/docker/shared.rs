//! The one directory that a sandbox shares with the machine: the agent's plan and socket.
//!
//! ```text
//! open ──► the agent binds its socket ──► sealed ──► open, for another start or the removal
//! ```
//!
//! Root inside can write wherever the machine's root can, so rights do not keep him from filling
//! the directory or from putting something in the place of the socket. The file system does: it is
//! immutable from the moment when the agent answers, and nobody inside has the right to change
//! that.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;

use crate::linux::remove_tree;

/// Its name in the sandbox's directory.
pub(super) const DIRECTORY: &str = "shared";
const PLAN: &str = "plan";

/// Makes the directory anew with the plan in it.
pub(super) fn make(sandbox: &Path, plan: &[u8]) -> io::Result<()> {
    remove(sandbox)?;
    let shared = sandbox.join(DIRECTORY);
    fs::DirBuilder::new().mode(0o700).create(&shared)?;
    fs::write(shared.join(PLAN), plan)
}

pub(super) fn seal(sandbox: &Path) -> io::Result<()> {
    set_immutable(&sandbox.join(DIRECTORY), true)
}

/// Removes it, in whatever state it is.
pub(super) fn remove(sandbox: &Path) -> io::Result<()> {
    let shared = sandbox.join(DIRECTORY);
    match set_immutable(&shared, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // What cannot be sealed was not.
        Ok(()) | Err(_) => {}
    }
    if remove_tree(&shared, || {}) { Ok(()) } else { Err(io::ErrorKind::DirectoryNotEmpty.into()) }
}

fn set_immutable(directory: &Path, immutable: bool) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut known = ioctl_getflags(&directory).map_err(unable)?;
    known.set(IFlags::IMMUTABLE, immutable);
    Ok(ioctl_setflags(&directory, known).map_err(unable)?)
}

fn unable(errno: Errno) -> Errno {
    if errno == Errno::NOTTY { Errno::OPNOTSUPP } else { errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_or_removed_in_a_sealed_directory_and_it_can_be_made_anew() {
        let place = tempfile::tempdir().unwrap();
        make(place.path(), b"plan").unwrap();
        if !rustix::process::geteuid().is_root() || seal(place.path()).is_err() {
            return;
        }
        let shared = place.path().join(DIRECTORY);
        assert!(fs::write(shared.join("more"), "").is_err());
        assert!(fs::remove_file(shared.join(PLAN)).is_err());
        assert_eq!(fs::read(shared.join(PLAN)).unwrap(), b"plan");
        make(place.path(), b"another").unwrap();
        assert_eq!(fs::read(shared.join(PLAN)).unwrap(), b"another");
        remove(place.path()).unwrap();
        remove(place.path()).unwrap();
        assert!(!shared.exists());
    }
}
