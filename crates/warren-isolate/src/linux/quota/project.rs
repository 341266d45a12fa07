//! Project quotas of ext4 and XFS.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use warren_core::Limits;

use crate::linux::sys::{self, ProjectLimit};

/// True if the data directory's file system enforces project limits, not only counts.
pub(super) fn is_enforced(data_dir: &Path) -> bool {
    let place = data_dir.ancestors().find_map(|path| fs::metadata(path).ok());
    let Some(device) = place.map(|found| found.dev()) else { return false };
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| {
        let on_device = line.split(' ').nth(2) == Some(device.as_str());
        on_device
            && line
                .rsplit(' ')
                .next()
                .is_some_and(|options| options.split(',').any(|word| word == "prjquota"))
    })
}

/// Makes a fresh directory the root of a project.
pub(super) fn mark(directory: &Path, project: u32) -> io::Result<()> {
    Ok(sys::set_project(fs::File::open(directory)?.as_fd(), project)?)
}

/// Limits the bytes and inodes of a project.
pub(super) fn limit(directory: &Path, project: u32, limits: &Limits) -> io::Result<()> {
    let limit = ProjectLimit { bytes: limits.disk.0, inodes: limits.inodes };
    Ok(sys::limit_project(fs::File::open(directory)?.as_fd(), project, limit)?)
}

/// Removes the limit: zero means none.
pub(super) fn clear(directory: &Path, project: u32) {
    if let Ok(directory) = fs::File::open(directory) {
        let _ = sys::limit_project(directory.as_fd(), project, ProjectLimit { bytes: 0, inodes: 0 });
    }
}

pub(super) fn used(directory: &Path, project: u32) -> (u64, u64) {
    let usage =
        fs::File::open(directory).ok().and_then(|file| sys::project_usage(file.as_fd(), project).ok());
    usage.map_or((0, 0), |usage| (usage.bytes, usage.inodes))
}
