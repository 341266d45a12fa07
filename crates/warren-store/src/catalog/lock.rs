use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::identity::sync_directory;

/// Far longer than a child takes from clone to exec. A child of a killed server holds a copy of the
/// lock until then.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// The lock of the one server of a data directory. The kernel releases it however that server ends.
/// The file has the server's pid from its first change on until it has closed the database
/// properly.
#[derive(Debug)]
pub(super) struct ServerLock {
    file: File,
}

/// The lock could not be taken.
#[derive(Debug)]
pub(super) enum LockError {
    /// Held by this process, if it has written its pid.
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

    /// True if the last server did not close the database. Then some changes may be only in its
    /// log.
    pub(super) fn was_left_open(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() > 0)
    }

    /// Writes this process's pid, in one write so that the file is never empty, and syncs it.
    pub(super) fn mark_open(&self, path: &Path) -> io::Result<()> {
        self.file.write_all_at(format!("{:>10}\n", std::process::id()).as_bytes(), 0)?;
        self.file.sync_all()?;
        sync_directory(path)
    }

    /// Notes that nothing is left in the log. This works on a full disk too.
    pub(super) fn mark_closed(&self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

impl Drop for ServerLock {
    /// Closing is not enough: a child that another thread is just cloning has copies of all
    /// descriptors until it executes.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
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

    #[test]
    fn a_copy_of_the_descriptor_in_a_child_does_not_keep_the_lock() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let held = ServerLock::acquire(&path).unwrap();
        held.mark_open(&path).unwrap();
        let _copy = held.file.try_clone().unwrap();
        drop(held);
        ServerLock::acquire(&path).unwrap();
    }
}
