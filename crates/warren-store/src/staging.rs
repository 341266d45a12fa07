//! Directories under construction, and who may touch them.
//!
//! A staging directory is locked (`flock` on the directory itself) by the process that fills it.
//! The kernel drops the lock when that process dies, however it dies, so a directory that can be
//! locked is left over. The store's own lock is held for moments only: while a staging directory is
//! made and locked, and while names change.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};

use crate::name::TemplateName;

const PREFIX: &str = ".staging-";
const LOCK_NAME: &str = ".lock";

/// A staging directory could not be made, or what lies in it could not be published.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    #[error("draw a random name for a staging directory")]
    Random(#[source] getrandom::Error),
    #[error("make staging directory `{}`", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("lock `{}`", path.display())]
    Lock { path: PathBuf, source: io::Error },
    #[error("write `{}` to the disk", path.display())]
    Sync { path: PathBuf, source: io::Error },
    #[error("rename `{}` to `{}`", from.display(), to.display())]
    Rename { from: PathBuf, to: PathBuf, source: io::Error },
    #[error("remove `{}`", path.display())]
    Remove { path: PathBuf, source: io::Error },
    #[error("look for left-over staging directories in `{}`", path.display())]
    List { path: PathBuf, source: io::Error },
}

/// Templates hold set-id files and other people's data: no user but root may come near them.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Held while names in the directory change; released when dropped.
#[derive(Debug)]
pub(crate) struct NamesLock {
    _file: File,
}

impl NamesLock {
    pub(crate) fn acquire(parent: &Path) -> Result<Self, StagingError> {
        let path = parent.join(LOCK_NAME);
        let lock = || -> io::Result<File> {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)?;
            rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
            Ok(file.into())
        };
        match lock() {
            Ok(file) => Ok(Self { _file: file }),
            Err(source) => Err(StagingError::Lock { path, source }),
        }
    }
}

/// A directory being filled. It is removed when dropped, unless it was published.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    directory: File,
    published: bool,
}

impl Staging {
    pub(crate) fn create(parent: &Path) -> Result<Self, StagingError> {
        let path = unused_path(parent)?;
        let _names = NamesLock::acquire(parent)?;
        let make = || DirBuilder::new().mode(0o700).create(&path).and_then(|()| File::open(&path));
        let directory = make().map_err(|source| StagingError::Make { path: path.clone(), source })?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| StagingError::Lock { path: path.clone(), source: error.into() })?;
        Ok(Self { path, directory, published: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes everything written so far durable. One call for the whole filesystem: an `fsync` for
    /// each of a hundred thousand files would take minutes.
    pub(crate) fn sync(&self) -> Result<(), StagingError> {
        rustix::fs::syncfs(&self.directory)
            .map_err(|error| StagingError::Sync { path: self.path.clone(), source: error.into() })
    }

    /// Gives the directory its name. The caller holds the names lock, and makes the change durable
    /// if it matters.
    pub(crate) fn publish(mut self, to: &Path) -> Result<(), StagingError> {
        self.rename(to, RenameFlags::NOREPLACE)?;
        self.published = true;
        Ok(())
    }

    /// Swaps the directory with the one that has the name: at no moment is the name without a
    /// template. What was there before is now this staging directory, and goes when it is dropped.
    pub(crate) fn exchange(&self, to: &Path) -> Result<(), StagingError> {
        self.rename(to, RenameFlags::EXCHANGE)
    }

    fn rename(&self, to: &Path, flags: RenameFlags) -> Result<(), StagingError> {
        rustix::fs::renameat_with(CWD, &self.path, CWD, to, flags).map_err(|error| StagingError::Rename {
            from: self.path.clone(),
            to: to.to_owned(),
            source: error.into(),
        })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published {
            // A failure leaves a directory that the next start sweeps; there is nobody to tell
            // here.
            drop(remove_tree(&self.path));
        }
    }
}

/// Takes `name` away at once, then removes its tree. The caller holds the names lock and gives it
/// up here, because the removal may take long.
pub(crate) fn discard(parent: &Path, name: &TemplateName, names: NamesLock) -> Result<(), StagingError> {
    let from = parent.join(name.as_str());
    let to = unused_path(parent)?;
    rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE)
        .map_err(|error| StagingError::Rename { from: from.clone(), to: to.clone(), source: error.into() })?;
    sync_names(parent)?;
    drop(names);
    remove_tree(&to)
}

/// Removes the staging directories that no living process holds.
pub(crate) fn sweep(parent: &Path) -> Result<(), StagingError> {
    let listing = |source| StagingError::List { path: parent.to_owned(), source };
    let _names = NamesLock::acquire(parent)?;
    for entry in fs::read_dir(parent).map_err(listing)? {
        let entry = entry.map_err(listing)?;
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let Ok(directory) = File::open(&path) else { continue };
        if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_tree(&path)?;
        }
    }
    Ok(())
}

fn unused_path(parent: &Path) -> Result<PathBuf, StagingError> {
    let random = getrandom::u64().map_err(StagingError::Random)?;
    Ok(parent.join(format!("{PREFIX}{random:016x}")))
}

/// Makes the names in `parent` durable.
pub(crate) fn sync_names(parent: &Path) -> Result<(), StagingError> {
    let sync = || File::open(parent)?.sync_all();
    sync().map_err(|source| StagingError::Sync { path: parent.to_owned(), source })
}

fn remove_tree(path: &Path) -> Result<(), StagingError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StagingError::Remove { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}
