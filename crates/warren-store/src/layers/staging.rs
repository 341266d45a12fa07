//! Layers under construction.
//!
//! A layer is made in `.staging-<random>/layer`, where no reader looks, and gets its name by one
//! rename. The outer directory is locked by the process that fills the inner one; the kernel drops
//! the lock when that process dies, however it dies, so one that can be locked is left over.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use warren_core::{LayerError, LayerErrorKind, LayerId, NewLayer};

use super::LayerDirectory;
use super::failure::failed;
use crate::staging::NamesLock;

pub(super) const PREFIX: &str = ".staging-";
pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const LAYER: &str = "layer";

/// A layer that is being made. Dropped before it has a place, it goes.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    store: &'a LayerDirectory,
    holder: Holder<'a>,
    directory: OwnedFd,
}

impl<'a> Staged<'a> {
    /// An empty layer. Its maker adds an `upper-<n>` for each tree that it changes, with
    /// ids as seen inside.
    pub(super) fn begin(store: &'a LayerDirectory) -> Result<Self, LayerError> {
        let holder = Holder::make(store)?;
        rustix::fs::mkdirat(&holder.directory, LAYER, Mode::RWXU).map_err(failed("begin a layer"))?;
        Self::held(store, holder)
    }

    /// A layer whose directory `make` makes, under the given name in the given directory.
    pub(super) fn begin_with(
        store: &'a LayerDirectory,
        make: impl FnOnce(BorrowedFd<'_>, &str) -> Result<(), LayerError>,
    ) -> Result<Self, LayerError> {
        let holder = Holder::make(store)?;
        make(holder.directory.as_fd(), LAYER)?;
        Self::held(store, holder)
    }

    fn held(store: &'a LayerDirectory, holder: Holder<'a>) -> Result<Self, LayerError> {
        let directory = rustix::fs::openat(&holder.directory, LAYER, DIRECTORY, Mode::empty())
            .map_err(failed("open a layer in the making"))?;
        Ok(Self { store, holder, directory })
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// A directory on the same file system for things that do not become part of the layer.
    pub(super) fn beside(&self) -> BorrowedFd<'_> {
        self.holder.directory.as_fd()
    }

    /// Writes the manifest and gives the layer its name: from here on it exists.
    pub(super) fn commit(self, layer: &NewLayer) -> Result<(), LayerError> {
        let manifest = self.store.describe(self.directory(), layer)?;
        manifest.write(self.directory())?;
        let store = self.store;
        self.place(&layer.id)?;
        store.remember(&manifest);
        Ok(())
    }

    /// Gives the layer its name without declaring it complete.
    pub(super) fn place(self, id: &LayerId) -> Result<(), LayerError> {
        let from = &self.holder.directory;
        match rustix::fs::renameat_with(
            from,
            LAYER,
            &self.store.directory,
            id.as_str(),
            RenameFlags::NOREPLACE,
        ) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                Err(LayerError::new(LayerErrorKind::Invalid, format!("{id} exists already")))
            }
            Err(error) => Err(failed(format!("put {id} into its place"))(error)),
        }
    }
}

/// The locked directory that holds a layer in the making.
#[derive(Debug)]
struct Holder<'a> {
    store: &'a LayerDirectory,
    name: String,
    directory: OwnedFd,
}

impl<'a> Holder<'a> {
    fn make(store: &'a LayerDirectory) -> Result<Self, LayerError> {
        let name = format!("{PREFIX}{}", random_word()?);
        let make = || {
            rustix::fs::mkdirat(&store.directory, &name, Mode::RWXU)?;
            let directory = rustix::fs::openat(&store.directory, &name, DIRECTORY, Mode::empty())?;
            rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
            Ok(directory)
        };
        // Without it, a sweep could take the directory for a dead process's before it is locked.
        let _names = lock_names(&store.layers)?;
        let directory = make().map_err(|error: Errno| failed("begin a layer")(error))?;
        Ok(Self { store, name, directory })
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        if rustix::fs::unlinkat(&self.store.directory, &self.name, AtFlags::REMOVEDIR).is_err() {
            // What cannot be moved is swept at the next start; there is nobody to tell here.
            drop(self.store.discard(&self.name));
        }
    }
}

pub(super) fn lock_names(layers: &Path) -> Result<NamesLock, LayerError> {
    NamesLock::acquire(layers)
        .map_err(|error| LayerError::caused(LayerErrorKind::Host, "lock the directory of layers", error))
}

pub(super) fn random_word() -> Result<String, LayerError> {
    let random = getrandom::u64()
        .map_err(|error| LayerError::caused(LayerErrorKind::Host, "draw a random name", error))?;
    Ok(format!("{random:016x}"))
}
