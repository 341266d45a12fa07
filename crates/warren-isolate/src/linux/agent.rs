//! The embedded agent, put on disk once so that all sandboxes share its pages.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::data::OpenError;
use super::sys;

/// The name of the agent's binary in [`install_alone`].
pub(crate) const PROGRAM: &str = "warren-guest";

pub(crate) static BINARY: &[u8] = include_bytes!(env!("WARREN_GUEST"));

/// Opens the agent's binary in the data directory, writing it first if this version's is missing.
/// The result is a read-only mount of that one file. It has no path, so sandboxes see none, and
/// nothing can write through it.
pub(super) fn install(root: &Path) -> Result<OwnedFd, OpenError> {
    let path = root.join(concat!("agent-", env!("WARREN_GUEST_DIGEST")));
    let open = || open_complete(&path).or_else(|_| place(&path).and_then(|()| open_complete(&path)));
    open().map_err(|source| OpenError::Directory { path: path.clone(), source })
}

/// A file of another size was cut short by a full disk or a crash.
fn open_complete(path: &Path) -> io::Result<OwnedFd> {
    if fs::metadata(path)?.len() != BINARY.len() as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mount = open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
    sys::set_mount(mount.as_fd(), libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID, None)?;
    Ok(mount)
}

/// Puts the agent's binary into a directory that holds nothing else, unless it is there, and
/// answers the directory. Everybody who gets there may execute it.
pub(crate) fn install_alone(above: &Path) -> io::Result<PathBuf> {
    let directory = above.join(concat!("agent-", env!("WARREN_GUEST_DIGEST")));
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&directory)?;
    let path = directory.join(PROGRAM);
    if !fs::metadata(&path).is_ok_and(|found| found.len() == BINARY.len() as u64) {
        place(&path)?;
    }
    Ok(directory)
}

fn place(path: &Path) -> io::Result<()> {
    let staging = path.with_extension(format!("{:x}", getrandom::u64().map_err(io::Error::other)?));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o555).open(&staging)?;
    let written = file.write_all(BINARY).and_then(|()| file.sync_all());
    // A file that is open for writing cannot be executed.
    drop(file);
    let placed = written.and_then(|()| fs::rename(&staging, path));
    placed.inspect_err(|_| drop(fs::remove_file(&staging)))
}

impl super::Backend {
    /// Puts a copy of the agent's binary where a runtime finds it by name.
    pub(crate) fn copy_agent(&self, path: &Path) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o555).open(path)?;
        file.write_all(BINARY)
    }
}
