//! Where a sandbox's writable layers live, and how their size is limited.
//!
//! There are three ways; the strongest that the host offers is used:
//!
//! * **project**: the data directory's file system has project quotas (ext4 or XFS mounted with
//!   `prjquota`). Each sandbox is a project as long as it has files; the kernel counts and refuses
//!   bytes and inodes, at no cost.
//! * **image**: a sandbox whose spec asks for a disk limit gets an ext4 image of that size, on a
//!   loop device that clears itself. Exact as well, at a few milliseconds per create.
//! * **watched**: a default limit without project quotas. No file may be larger than the limit, and
//!   usage is reported.
//!
//! The way is chosen when a sandbox's files are first made, and never changes.

mod image;
mod project;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use warren_core::{DiskQuota, Limits, SandboxId};

pub(super) use self::image::FORMATTER;
use super::claims::{ClaimError, Claims};
use super::layers;
use super::starter::Place;

/// The way a sandbox's disk usage is limited, as its record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QuotaKind {
    Project { project: u32 },
    Image,
    Watched,
}

/// A sandbox's place for writable layers: a detached mount, and a path by which the host can still
/// write to it.
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
    #[error("check the disk image: {0}")]
    Check(String),
    #[error("take a project number")]
    Project(#[source] ClaimError),
    #[error("the files are held by no hard limit, and one is asked for")]
    NotHard,
}

/// The kinds of disk limit that the data directory's file system offers.
#[derive(Debug)]
pub(super) struct Quotas {
    strongest: DiskQuota,
    projects: Claims,
}

impl Quotas {
    /// For the backend that has this place.
    pub(super) fn detect(data_dir: &Path, place: &Place) -> Self {
        Self { strongest: strongest(data_dir), projects: Claims::projects(data_dir.join("projects"), place) }
    }

    pub(super) fn strongest(&self) -> DiskQuota {
        self.strongest
    }

    /// Makes the place in a sandbox's directory.
    pub(super) fn prepare(
        &self,
        id: &SandboxId,
        directory: &Path,
        limits: &Limits,
        required: bool,
    ) -> Result<Area, QuotaError> {
        if self.strongest == DiskQuota::Project {
            let project = self.projects.claim(id).map_err(QuotaError::Project)?;
            project::mark(directory, project).map_err(place("make a project of", directory))?;
            return limited(directory, project, limits);
        }
        if required { image::prepare(directory, limits) } else { plain(directory, QuotaKind::Watched) }
    }

    /// Opens the place of a sandbox that ran before, and limits it again.
    pub(super) fn reopen(
        &self,
        directory: &Path,
        kind: QuotaKind,
        limits: &Limits,
        required: bool,
    ) -> Result<Area, QuotaError> {
        match kind {
            QuotaKind::Project { project } => limited(directory, project, limits),
            QuotaKind::Image => image::reopen(directory),
            QuotaKind::Watched if required => Err(QuotaError::NotHard),
            QuotaKind::Watched => plain(directory, QuotaKind::Watched),
        }
    }

    /// Bytes and inodes that only this sandbox holds. Layers that it wrote earlier are included
    /// only with project quotas.
    pub(super) fn used(&self, directory: &Path, kind: QuotaKind) -> (u64, u64) {
        match kind {
            QuotaKind::Project { project } => project::used(directory, project),
            QuotaKind::Image => {
                fs::metadata(image::file(directory)).map_or((0, 0), |found| (found.blocks() * 512, 0))
            }
            QuotaKind::Watched => count(directory),
        }
    }

    /// Lifts the limit of a sandbox whose files are about to be removed.
    pub(super) fn lift(&self, directory: &Path, kind: Option<QuotaKind>) {
        if let Some(QuotaKind::Project { project }) = kind {
            project::clear(directory, project);
        }
    }

    /// Frees the project number of a sandbox whose files are gone. If the kind is not known, the
    /// number is looked up.
    pub(super) fn release(&self, id: &SandboxId, kind: Option<QuotaKind>) {
        match kind {
            Some(QuotaKind::Project { project }) => self.projects.release(Some(project), id),
            Some(QuotaKind::Image | QuotaKind::Watched) => {}
            None => self.projects.release(None, id),
        }
    }
}

/// The strongest kind that a data directory's file system offers.
pub(super) fn strongest(data_dir: &Path) -> DiskQuota {
    match (project::is_enforced(data_dir), image::formatter().is_some()) {
        (true, _) => DiskQuota::Project,
        (false, true) => DiskQuota::Image,
        (false, false) => DiskQuota::Watched,
    }
}

fn limited(directory: &Path, project: u32, limits: &Limits) -> Result<Area, QuotaError> {
    project::limit(directory, project, limits).map_err(place("set the project quota of", directory))?;
    plain(directory, QuotaKind::Project { project })
}

fn plain(directory: &Path, kind: QuotaKind) -> Result<Area, QuotaError> {
    let mount = layers::clone_mount(directory)
        .map_err(|errno| place("clone the mount of", directory)(errno.into()))?;
    Ok(Area { mount, path: directory.to_owned(), kind })
}

/// The directory in which a sandbox's writable layers are, mounted or not.
pub(super) fn view(directory: &Path, kind: QuotaKind) -> Result<OwnedFd, QuotaError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match kind {
        QuotaKind::Image => rustix::fs::openat(&image::view(directory)?, ".", flags, Mode::empty()),
        QuotaKind::Project { .. } | QuotaKind::Watched => rustix::fs::open(directory, flags, Mode::empty()),
    };
    opened.map_err(|errno| place("open", directory)(errno.into()))
}

/// Makes an error of a failed action on a path.
fn place(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> QuotaError {
    let path = path.to_owned();
    move |source| QuotaError::Place { action, path, source }
}

impl Area {
    fn detached(mount: OwnedFd, kind: QuotaKind) -> Self {
        let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Self { mount, path, kind }
    }
}

/// The sizes of layers, each counted once: they never change.
#[derive(Debug, Default)]
pub(super) struct LayerSizes(Mutex<HashMap<PathBuf, (u64, u64)>>);

impl LayerSizes {
    /// The sum of these layers. Counting an unknown one blocks nobody else.
    pub(super) fn sizes(&self, layers: &[PathBuf]) -> (u64, u64) {
        layers.iter().map(|layer| self.size(layer)).fold((0, 0), |sum, size| {
            (u64::saturating_add(sum.0, size.0), u64::saturating_add(sum.1, size.1))
        })
    }

    fn size(&self, layer: &Path) -> (u64, u64) {
        let known = self.0.lock().get(layer).copied();
        known.unwrap_or_else(|| {
            let size = count(layer);
            self.0.lock().insert(layer.to_owned(), size);
            size
        })
    }

    /// Forgets layers that no longer exist.
    pub(super) fn forget_removed(&self) {
        self.0.lock().retain(|layer, _| layer.exists());
    }
}

/// Bytes and inodes of a tree that sandbox code writes to. No link is followed.
fn count(tree: &Path) -> (u64, u64) {
    let (mut bytes, mut inodes) = (0, 0);
    let mut waiting = vec![tree.to_owned()];
    while let Some(directory) = waiting.pop() {
        // A path too deep to be opened is not counted: the figure is a report, no limit.
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
