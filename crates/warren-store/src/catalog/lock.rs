use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::identity::sync_directory;

/// A server that was killed is survived by its clones until they execute, and they have copies of its descriptors. Far longer than
/// that takes.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

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
        let deadline = Instant::now() + PATIENCE;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { file }),
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(LockError::Io(error.into())),
            }
            let holder = pid_in(&file);
            let is_gone = holder.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
            if !is_gone || Instant::now() > deadline {
                return Err(LockError::Held(holder));
            }
            std::thread::sleep(PAUSE);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has such a number.
    const GONE: &str = " 999999999\n";

    #[test]
    fn what_a_server_that_is_gone_left_locked_is_waited_for_and_nobody_else() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let held = ServerLock::acquire(&path).unwrap();
        held.mark_open(&path).unwrap();
        let own = std::process::id();
        assert!(matches!(ServerLock::acquire(&path), Err(LockError::Held(Some(pid))) if pid == own));
        held.file.write_all_at(GONE.as_bytes(), 0).unwrap();
        let clone = std::thread::spawn(move || {
            std::thread::sleep(PAUSE * 4);
            drop(held);
        });
        ServerLock::acquire(&path).unwrap();
        clone.join().unwrap();
    }
}
