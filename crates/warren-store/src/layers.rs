//! Layers on disk.
//!
//! ```text
//! <data>/layers/<layer-id>/upper-<n>/       its changes of tree n of a root, as overlayfs has them
//! <data>/layers/<layer-id>/manifest.json    written last: without it there is no layer
//! <data>/layers/<layer-id>/space.json       its size, once that was counted
//! <data>/layers/.staging-<random>/layer/    a layer in the making, locked by its maker
//! <data>/layers/.trash-<word>/              removed, but not yet gone
//! ```
//!
//! A layer comes to its place in one of two ways. A sandbox's own writable directories are moved
//! there by the backend that holds them, and then committed. All others are made in staging and get
//! their name by a rename. Of a committed layer nothing ever changes, so what its manifest says is
//! read once and kept in memory.

mod btrfs;
mod content;
mod copy;
mod failure;
mod manifest;
pub mod pool;
mod remove;
mod space;
mod squash;
mod staging;
mod stand;
mod sweep;
mod sync;
mod sys;
mod walk;

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use rustix::fs::{CWD, Dir, Mode};
use rustix::io::Errno;
use warren_core::{
    CopyOrder, Draft, LayerDriver, LayerError, LayerErrorKind, LayerId, LayerInfo, LayerStore, NewLayer,
    RootTree, Space, Stack, TemplateName,
};

use crate::TemplateStore;
use crate::digest::Digest;
use crate::manifest::SourceKind;
use failure::failed;
use manifest::{Manifest, ManifestError};
use staging::{DIRECTORY, Staged};
use sweep::Reclaimer;
use sync::Durability;

pub use squash::fill;

/// The layers under one data directory.
#[derive(Debug)]
pub struct LayerDirectory {
    layers: PathBuf,
    directory: OwnedFd,
    templates: TemplateStore,
    driver: LayerDriver,
    known: RwLock<HashMap<LayerId, Arc<Known>>>,
    durability: Durability,
    reclaimer: Reclaimer,
    /// True if files here can share data, once that was tried.
    shares_data: OnceLock<bool>,
}

/// The facts about a committed layer.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    trees: Vec<u32>,
    created_unix_ms: u64,
}

impl LayerDirectory {
    /// The content of a template that is an image. Of other templates the digest says how they were
    /// packed, which may be different where they are the same.
    fn digest_of(&self, template: &TemplateName) -> Option<Digest> {
        let found = self.templates.get(template).ok()?.manifest;
        (found.source == SourceKind::OciImage).then_some(found.digest)
    }

    /// As [`LayerContent::import`](warren_core::LayerContent::import), within bounds that an input
    /// can reach in no time.
    #[cfg(fuzzing)]
    pub fn import_within(
        &self,
        limits: crate::ImportLimits,
        root: &[RootTree],
        from: &mut dyn std::io::Read,
        format: warren_core::ImportFormat,
        draw: &dyn Fn() -> LayerId,
    ) -> Result<warren_core::ImportedHistory, LayerError> {
        content::import::within(limits, self, root, from, format, draw)
    }

    /// Opens the directory of layers, making it if need be, and reclaims what was left half made or
    /// half removed.
    pub fn open(data: &Path, templates: TemplateStore) -> Result<Self, LayerError> {
        Self::with_driver(data, templates, LayerDriver::Overlay)
    }

    /// As [`open`](Self::open), with a driver of the caller's choice. One that the file system
    /// cannot serve is refused here.
    pub fn with_driver(
        data: &Path,
        templates: TemplateStore,
        driver: LayerDriver,
    ) -> Result<Self, LayerError> {
        let layers = data.join("layers");
        let directory = private_directory(&layers).map_err(failed("make the directory of layers"))?;
        let clone = directory.try_clone().map_err(failed("open the directory of layers"))?;
        let reclaimer = Reclaimer::start(clone).map_err(failed("start what removes layers"))?;
        reclaimer.adopt(&layers)?;
        let store = Self {
            layers,
            directory,
            templates,
            driver,
            known: RwLock::default(),
            durability: Durability::default(),
            reclaimer,
            shares_data: OnceLock::new(),
        };
        store.check_driver()?;
        Ok(store)
    }

    /// Waits until the files of removed layers are gone, at most `patience`. Says whether they are.
    pub fn settle(&self, patience: Duration) -> bool {
        self.reclaimer.settle(patience)
    }

    fn check_driver(&self) -> Result<(), LayerError> {
        let refused = |what: &str| LayerError::new(LayerErrorKind::Invalid, what.to_owned());
        match self.driver {
            LayerDriver::Overlay => Ok(()),
            LayerDriver::Reflink if self.shares_data() => Ok(()),
            LayerDriver::Reflink => Err(refused(
                "the data directory's file system cannot share data between files: set `snapshots.driver` to `overlay`, or put \
                 the data directory on a btrfs or XFS that can, which `warren storage create` makes",
            )),
            LayerDriver::Btrfs if btrfs::is_btrfs(self.directory()) => Ok(()),
            LayerDriver::Btrfs => Err(refused(
                "the data directory is not on btrfs: set `snapshots.driver` to `overlay`, or put the data directory on a btrfs, \
                 which `warren storage create` makes",
            )),
        }
    }

    /// True if files here can share data, found by trying.
    fn shares_data(&self) -> bool {
        let tried = || Staged::begin(self).and_then(|staged| copy::can_share(&staged)).unwrap_or(false);
        *self.shares_data.get_or_init(tried)
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The facts in the manifest of a layer.
    fn known(&self, id: &LayerId) -> Result<Arc<Known>, LayerError> {
        let known = self.known.read().get(id).map(Arc::clone);
        if let Some(known) = known {
            return Ok(known);
        }
        let directory = self.place_of(id)?;
        let manifest = Manifest::read(directory.as_fd(), id).map_err(|error| error.of(id))?;
        Ok(self.remember(&manifest))
    }

    fn remember(&self, manifest: &Manifest) -> Arc<Known> {
        let known =
            Arc::new(Known { trees: manifest.trees.clone(), created_unix_ms: manifest.created_unix_ms });
        let mut all = self.known.write();
        all.insert(manifest.layer.clone(), Arc::clone(&known));
        known
    }

    fn all_known(&self) -> Vec<LayerId> {
        self.known.read().keys().cloned().collect()
    }

    /// The directory of a committed layer.
    fn directory_of(&self, id: &LayerId) -> Result<OwnedFd, LayerError> {
        self.known(id)?;
        self.place_of(id)
    }

    /// The directory of a layer, committed or not.
    fn place_of(&self, id: &LayerId) -> Result<OwnedFd, LayerError> {
        match rustix::fs::openat(&self.directory, id.as_str(), DIRECTORY, Mode::empty()) {
            Ok(directory) => Ok(directory),
            Err(Errno::NOENT) => Err(ManifestError::Absent.of(id)),
            Err(error) => Err(failed(format!("open {id}"))(error)),
        }
    }

    /// The manifest of a layer as it lies in a directory.
    fn describe(&self, directory: BorrowedFd<'_>, layer: &NewLayer) -> Result<Manifest, LayerError> {
        let mut trees = Vec::new();
        for_each_upper(directory, |number, _| {
            trees.push(number);
            Ok(())
        })
        .map_err(failed(format!("look at {}", layer.id)))?;
        Ok(Manifest::new(layer.id.clone(), layer.sandbox.clone(), layer.created_unix_ms, trees))
    }

    fn discard(&self, name: &str) -> Result<bool, LayerError> {
        self.reclaimer.discard(name)
    }
}

impl LayerStore for LayerDirectory {
    fn driver(&self) -> LayerDriver {
        self.driver
    }

    fn place(&self, id: &LayerId) -> PathBuf {
        self.layers.join(id.as_str())
    }

    fn stand_on(&self, stack: &Stack, root: &mut [RootTree]) -> Result<(), LayerError> {
        stand::stand_on(self, stack, root)
    }

    fn stack_of(&self, root: &[RootTree]) -> Stack {
        stand::stack_of(self, root)
    }

    fn begin_copy<'a>(
        &'a self,
        writable: BorrowedFd<'a>,
        order: &CopyOrder<'_>,
    ) -> Result<Draft<'a>, LayerError> {
        copy::begin(self, writable, order)
    }

    fn commit(&self, layer: &NewLayer) -> Result<(), LayerError> {
        let id = &layer.id;
        let directory = self.place_of(id)?;
        match Manifest::read(directory.as_fd(), id) {
            Ok(manifest) => {
                self.remember(&manifest);
                return Ok(());
            }
            Err(error @ (ManifestError::NewerFormat { .. } | ManifestError::OtherLayer(_))) => {
                return Err(error.of(id));
            }
            Err(_) => {}
        }
        rustix::fs::fchmod(&directory, Mode::RWXU).map_err(failed(format!("close {id} to others")))?;
        let manifest = self.describe(directory.as_fd(), layer)?;
        manifest.write(directory.as_fd())?;
        self.remember(&manifest);
        Ok(())
    }

    fn sync(&self, layers: &[LayerId]) -> Result<(), LayerError> {
        sync::sync(self, layers)
    }

    fn space(&self, id: &LayerId, most_entries: Option<u64>) -> Result<Option<Space>, LayerError> {
        space::space(self, id, most_entries)
    }

    fn squash(&self, layers: &[LayerId], into: &LayerId) -> Result<(), LayerError> {
        squash::squash(self, layers, into)
    }

    fn layers(&self) -> Result<Vec<LayerInfo>, LayerError> {
        let listing = || failed("list layers");
        let mut layers = Vec::new();
        for entry in Dir::read_from(&self.directory).map_err(listing())? {
            let entry = entry.map_err(listing())?;
            // Staging, trash and the lock have names that no layer can have.
            let Some(id) = entry.file_name().to_str().ok().and_then(|name| name.parse::<LayerId>().ok())
            else {
                continue;
            };
            let committed = match self.known(&id) {
                Ok(_) => true,
                // Removed since the directory was read, or never finished.
                Err(error) if error.kind == LayerErrorKind::NotFound => match self.place_of(&id) {
                    Ok(_) => false,
                    Err(_) => continue,
                },
                // One of a newer version is whole for all we know.
                Err(error) => error.kind == LayerErrorKind::Invalid,
            };
            layers.push(LayerInfo { id, committed });
        }
        Ok(layers)
    }

    fn remove(&self, id: &LayerId) -> Result<(), LayerError> {
        self.discard(id.as_str())?;
        self.known.write().remove(id);
        self.durability.forget(id);
        Ok(())
    }
}

/// Calls `act` with the number and the name of each `upper-<n>` in a directory.
fn for_each_upper(
    directory: BorrowedFd<'_>,
    mut act: impl FnMut(u32, &str) -> Result<(), Errno>,
) -> Result<(), Errno> {
    // Opened anew: the descriptor may be one that only names the directory.
    for entry in Dir::new(walk::open(directory, c".")?)? {
        let entry = entry?;
        let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
        if let (Some(number), Some(name)) = (stand::tree_number(name), name.to_str()) {
            act(number, name)?;
        }
    }
    Ok(())
}

/// Layers hold set-id files and other people's data: no user but root may come near them.
fn private_directory(path: &Path) -> std::io::Result<OwnedFd> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    Ok(rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?)
}
