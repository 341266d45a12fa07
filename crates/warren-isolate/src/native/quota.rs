//! Where a sandbox's writable layers live, and what holds them to their limit.
//!
//! Three ways, the strongest that the host offers:
//!
//! * **project**: the data directory's file system has project quotas (ext4 or XFS mounted with `prjquota`). Each sandbox is a
//!   project; bytes and inodes are counted and refused by the kernel, at no cost.
//! * **image**: a sandbox whose spec asks for a disk limit gets an ext4 image of that size, on a loop device that clears
//!   itself. Exact as well, at a few milliseconds per create.
//! * **watched**: a default limit without project quotas. No file may be larger than the limit, and usage is reported.

mod image;
mod project;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};
use serde::{Deserialize, Serialize};
use warren_core::{DiskQuota, Limits};

pub(super) use self::image::FORMATTER;

/// What holds a sandbox's disk usage, as its record keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QuotaKind {
    Project { project: u32 },
    Image,
    Watched,
}

/// A sandbox's place for writable layers: a detached mount, and a path through which the host can still fill it.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) mount: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) kind: QuotaKind,
}

/// The limit could not be put in place.
#[derive(Debug, thiserror::Error)]
pub(super) enum QuotaError {
    #[error("{action} `{}`", path.display())]
    Place { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "a disk limit needs project quotas on the data directory or `{FORMATTER}`: install e2fsprogs, or leave the limit out"
    )]
    NoFormatter,
    #[error("format the disk image: {0}")]
    Format(String),
}

/// What the data directory's file system offers.
#[derive(Debug)]
pub(super) struct Quotas {
    project: bool,
    formatter: bool,
}

impl Quotas {
    pub(super) fn detect(data_dir: &Path) -> Self {
        Self { project: project::is_enforced(data_dir), formatter: image::formatter().is_some() }
    }

    pub(super) fn strongest(&self) -> DiskQuota {
        match (self.project, self.formatter) {
            (true, _) => DiskQuota::Project,
            (false, true) => DiskQuota::Image,
            (false, false) => DiskQuota::Watched,
        }
    }

    /// Makes the place in a sandbox's directory. `number` is unique among living sandboxes.
    pub(super) fn prepare(
        &self,
        directory: &Path,
        limits: &Limits,
        required: bool,
        number: u32,
    ) -> Result<Area, QuotaError> {
        if required && !self.project {
            return image::prepare(directory, limits);
        }
        let path = directory.to_owned();
        let failed = |action| {
            let path = path.clone();
            move |source| QuotaError::Place { action, path, source }
        };
        let kind = if self.project {
            project::assign(&path, number, limits).map_err(failed("set the project quota of"))?;
            QuotaKind::Project { project: number }
        } else {
            QuotaKind::Watched
        };
        let mount = open_tree(CWD, &path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
            .map_err(|errno| failed("clone the mount of")(errno.into()))?;
        Ok(Area { mount, path, kind })
    }

    /// Bytes and inodes that the sandbox alone holds.
    pub(super) fn used(&self, directory: &Path, kind: QuotaKind) -> (u64, u64) {
        match kind {
            QuotaKind::Project { project } => project::used(directory, project),
            QuotaKind::Image => {
                fs::metadata(image::file(directory)).map_or((0, 0), |found| (found.blocks() * 512, 0))
            }
            QuotaKind::Watched => count(directory),
        }
    }

    /// Lifts the limit of a sandbox that is being removed, so that its project number can be used again.
    pub(super) fn release(&self, directory: &Path, kind: QuotaKind) {
        if let QuotaKind::Project { project } = kind {
            project::clear(directory, project);
        }
    }
}

impl Area {
    fn detached(mount: OwnedFd, kind: QuotaKind) -> Self {
        let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Self { mount, path, kind }
    }
}

/// Walks a tree that sandbox code writes to: by descriptor, never through a link, and without getting lost in its depth.
fn count(tree: &Path) -> (u64, u64) {
    let (mut bytes, mut inodes) = (0, 0);
    let mut waiting = vec![tree.to_owned()];
    while let Some(directory) = waiting.pop() {
        // A path too deep to be opened is not counted: the figure is a report, not a limit.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            bytes += found.blocks() * 512;
            inodes += 1;
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    (bytes, inodes)
}
