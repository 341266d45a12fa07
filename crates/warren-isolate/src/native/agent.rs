//! The embedded agent, put on disk once so that all sandboxes share its pages.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::data::OpenError;
use super::sys;

static BINARY: &[u8] = include_bytes!(env!("WARREN_GUEST"));

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

fn place(path: &Path) -> io::Result<()> {
    let staging = path.with_extension(format!("{:x}", getrandom::u64().map_err(io::Error::other)?));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o555).open(&staging)?;
    let written = file.write_all(BINARY).and_then(|()| file.sync_all());
    // A file that is open for writing cannot be executed.
    drop(file);
    let placed = written.and_then(|()| fs::rename(&staging, path));
    placed.inspect_err(|_| drop(fs::remove_file(&staging)))
}
