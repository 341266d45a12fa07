use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use warren_core::{DiskSpace, IsolationError, IsolationErrorKind, MountRefusal, MountSource};

/// The machine of a fake backend: a disk with the free room that a test sets, and the directories
/// that may be mounted.
#[derive(Debug)]
pub(super) struct Host {
    space: Mutex<Option<DiskSpace>>,
    allowed: Mutex<Vec<PathBuf>>,
}

impl Host {
    /// Plenty of room, and no allowed mounts.
    pub(super) fn new() -> Self {
        Self { space: Mutex::new(Some(with_free(100 << 30))), allowed: Mutex::default() }
    }

    pub(super) fn set_free(&self, free_bytes: Option<u64>) {
        *self.space.lock() = free_bytes.map(with_free);
    }

    pub(super) fn allow(&self, directories: Vec<PathBuf>) {
        let real = directories.into_iter().filter_map(|directory| directory.canonicalize().ok());
        *self.allowed.lock() = real.collect();
    }

    pub(super) fn space(&self) -> Result<DiskSpace, IsolationError> {
        self.space
            .lock()
            .ok_or_else(|| IsolationError::new(IsolationErrorKind::Host, "the disk does not answer"))
    }

    pub(super) fn mount_source(&self, asked: &Path) -> Result<MountSource, MountRefusal> {
        let allowed = self.allowed.lock();
        match asked.canonicalize() {
            Ok(real) if allowed.iter().any(|root| real.starts_with(root)) => {
                Ok(MountSource { is_directory: real.is_dir(), path: real })
            }
            Err(_) if allowed.iter().any(|root| asked.starts_with(root)) => Err(MountRefusal::Missing),
            Ok(_) | Err(_) => Err(MountRefusal::NotAllowed),
        }
    }
}

fn with_free(free_bytes: u64) -> DiskSpace {
    DiskSpace { free_bytes, total_bytes: 200 << 30, free_inodes: 10_000_000 }
}
