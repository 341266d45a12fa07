use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::identity::sync_directory;

/// Held by the one server of a data directory; the kernel gives it back however that server ends. The file holds the pid of
/// the last one from its first change on, until it has closed the database in good order.
#[derive(Debug)]
pub(super) struct ServerLock {
    file: File,
}

/// The lock could not be taken.
#[derive(Debug)]
pub(super) enum LockError {
    /// By whom, if they said so.
    Held(Option<u32>),
    Io(io::Error),
}

impl ServerLock {
    pub(super) fn acquire(path: &Path) -> Result<Self, LockError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)
            .map(File::from)
            .map_err(|error| LockError::Io(error.into()))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held(pid_in(&file))),
            Err(error) => Err(LockError::Io(error.into())),
        }
    }

    /// Whether the last server ended without closing: then changes may be in the database's log alone.
    pub(super) fn was_left_open(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() > 0)
    }

    /// Says who holds it, in one write, so that the file is at no moment empty. It is on the disk when this returns.
    pub(super) fn mark_open(&self, path: &Path) -> io::Result<()> {
        self.file.write_all_at(format!("{:>10}\n", std::process::id()).as_bytes(), 0)?;
        self.file.sync_all()?;
        sync_directory(path)
    }

    /// Nothing is left in the log. This needs no room on the disk.
    pub(super) fn mark_closed(&self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

fn pid_in(file: &File) -> Option<u32> {
    let mut text = [0; 16];
    let length = file.read_at(&mut text, 0).ok()?;
    str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
}
