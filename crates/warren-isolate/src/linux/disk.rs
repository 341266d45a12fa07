use std::fs::File;
use std::io;
use std::path::Path;

use warren_core::DiskSpace;

/// The disk that holds a data directory.
#[derive(Debug)]
pub(super) struct DataDisk {
    directory: File,
}

impl DataDisk {
    /// The directory has to exist. It stays open, so a later mount over it has no effect.
    pub(super) fn of(data_dir: &Path) -> io::Result<Self> {
        Ok(Self { directory: File::open(data_dir)? })
    }

    pub(super) fn space(&self) -> io::Result<DiskSpace> {
        let disk = rustix::fs::fstatvfs(&self.directory)?;
        // Some file systems have no fixed number of inodes and report none.
        let free_inodes = if disk.f_files == 0 { u64::MAX } else { disk.f_favail };
        Ok(DiskSpace {
            free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            free_inodes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_disk_has_room_and_a_missing_one_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let space = DataDisk::of(directory.path()).unwrap().space().unwrap();
        assert!(space.total_bytes > space.free_bytes, "{space:?}");
        assert!(space.free_bytes > 0 && space.free_inodes > 0, "{space:?}");
        assert!(DataDisk::of(&directory.path().join("gone")).is_err());
    }
}
