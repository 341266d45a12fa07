//! The embedded agent, put on disk once so that all sandboxes share its pages.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::data::OpenError;

static BINARY: &[u8] = include_bytes!(env!("WARREN_GUEST"));

/// Opens the agent's binary in the data directory, writing it first if this version's is not there.
pub(super) fn install(root: &Path) -> Result<OwnedFd, OpenError> {
    let path = root.join(concat!("agent-", env!("WARREN_GUEST_DIGEST")));
    let open = || open_complete(&path).or_else(|_| place(&path).and_then(|()| open_complete(&path)));
    open().map_err(|source| OpenError::Directory { path: path.clone(), source })
}

/// A file of another size was cut short by a full disk or a crash.
fn open_complete(path: &Path) -> io::Result<OwnedFd> {
    let file = fs::File::open(path)?;
    if file.metadata()?.len() == BINARY.len() as u64 {
        Ok(file.into())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn place(path: &Path) -> io::Result<()> {
    let staging = path.with_extension(format!("{:x}", getrandom::u64().map_err(io::Error::other)?));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o555).open(&staging)?;
    let placed =
        file.write_all(BINARY).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&staging, path));
    placed.inspect_err(|_| drop(fs::remove_file(&staging)))
}
