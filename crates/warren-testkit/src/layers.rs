//! A store of layers in memory, for the sandboxes of a fake backend.

mod archive;
mod content;
mod merge;
mod shelf;
mod store;
mod text;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use warren_core::{LayerDriver, LayerError, LayerErrorKind, LayerId, SandboxId};

use crate::FakeTemplates;
use crate::gate::{Bar, Gate};
use crate::guest::Tree;
use shelf::Shelf;
pub(crate) use store::lower;

/// The layers of a [`crate::FakeIsolation`]'s sandboxes, from [`crate::FakeIsolation::layers`]. It
/// is stricter than a store on a disk: a call that breaks a rule of [`warren_core::LayerStore`] is
/// noted, and [`crate::FakeIsolation::assert_clean`] fails.
///
/// Rules: a layer is made once; only files at rest are copied; no sandbox stands on a layer that is
/// removed; a template's name is used once. A layer that is not committed or is damaged cannot be
/// used.
///
/// Files differ if their bytes or their permissions do. Archives are JSON documents of its own.
#[derive(Default)]
pub struct FakeLayers {
    shelf: Mutex<Shelf>,
    gate: Gate<&'static str>,
}

impl FakeLayers {
    /// Makes the next call of this method fail, without any effect. Asked for twice, two calls
    /// fail.
    pub fn fail_next(&self, method: &'static str, kind: LayerErrorKind) {
        self.shelf().faults.push((method, kind));
    }

    /// Cancels failures that have not happened yet.
    pub fn forgive(&self) {
        self.shelf().faults.clear();
    }

    /// How often this method was called.
    pub fn calls(&self, method: &'static str) -> u64 {
        self.shelf().calls.get(method).copied().unwrap_or_default()
    }

    /// Sets a hook that gets the method's name before each call, on its thread. It may wait.
    pub fn before_each(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        self.gate.before_each(hook);
    }

    /// Blocks every thread for which `barred` returns true, for ever: its process has ended.
    /// Barring the backend bars its layers too.
    pub fn bar(&self, barred: impl Fn() -> bool + Send + Sync + 'static) {
        self.set_bar(Arc::new(barred));
    }

    pub(crate) fn set_bar(&self, barred: Arc<Bar>) {
        self.gate.bar(barred);
    }

    /// Sets the driver that the store reports; [`LayerDriver::Overlay`] by default.
    pub fn set_driver(&self, driver: LayerDriver) {
        self.shelf().driver = driver;
    }

    /// Adds templates that are made of layers to these.
    pub fn publish_templates(&self, templates: &Arc<FakeTemplates>) {
        self.shelf().publisher = Some(Arc::clone(templates));
    }

    /// True if a layer was synced to the disk.
    pub fn is_synced(&self, id: &LayerId) -> bool {
        self.shelf().layers.get(id).is_some_and(|layer| layer.synced)
    }

    /// Damages the content of a layer.
    pub fn damage(&self, id: &LayerId) {
        if let Some(layer) = self.shelf().layers.get_mut(id) {
            layer.damaged = true;
        }
    }

    /// The content of a file that is in this layer itself.
    pub fn file(&self, id: &LayerId, path: &str) -> Option<Vec<u8>> {
        let shelf = self.shelf();
        shelf.layers.get(id)?.delta.0.get(std::path::Path::new(path))?.as_ref()?.content.clone()
    }

    /// The rules broken so far.
    pub fn violations(&self) -> Vec<String> {
        self.shelf().violations.clone()
    }

    /// # Panics
    ///
    /// If a rule was broken.
    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "rules of the layers were broken: {violations:#?}");
    }

    /// The shelf, for the backend.
    pub(crate) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock()
    }

    /// A descriptor that stands for these files in [`warren_core::LayerStore::begin_copy`].
    pub(crate) fn hand_out(&self, sandbox: &SandboxId, tree: &Arc<Tree>) -> io::Result<OwnedFd> {
        let descriptor = OwnedFd::from(UnixStream::pair()?.0);
        let identity = identity(File::from(descriptor.try_clone()?))?;
        self.shelf().writables.insert(identity, (sandbox.clone(), Arc::clone(tree)));
        Ok(descriptor)
    }

    /// The shelf, for threads of living processes, unless the call is to fail.
    fn enter(&self, method: &'static str) -> Result<MutexGuard<'_, Shelf>, LayerError> {
        self.gate.announce(method);
        let mut shelf = self.gate.admit(&self.shelf);
        *shelf.calls.entry(method).or_default() += 1;
        match shelf.faults.iter().position(|(name, _)| *name == method) {
            Some(index) => {
                let (_, kind) = shelf.faults.remove(index);
                Err(LayerError::new(kind, format!("{method}, as the test asked")))
            }
            None => Ok(shelf),
        }
    }

    /// The files behind a descriptor that [`FakeLayers::hand_out`] gave.
    fn behind(shelf: &Shelf, descriptor: BorrowedFd<'_>) -> Option<(SandboxId, Arc<Tree>)> {
        let owned = descriptor.try_clone_to_owned().ok()?;
        shelf.writables.get(&identity(File::from(owned)).ok()?).cloned()
    }
}

impl fmt::Debug for FakeLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<LayerId> = self.shelf().layers.keys().cloned().collect();
        f.debug_struct("FakeLayers").field("layers", &layers).finish_non_exhaustive()
    }
}

/// A key that no other open descriptor has.
fn identity(file: File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Copies everything that was written, for tests.
#[cfg(test)]
pub(crate) fn copy_all(
    layers: &FakeLayers,
    writable: BorrowedFd<'_>,
    into: &LayerId,
) -> Result<warren_core::Copied, LayerError> {
    use warren_core::{CopyOrder, Draft, LayerStore as _, Settled};
    let order = CopyOrder { into, since: None, below: &[], bound: None };
    let Draft::Begun(mut copy) = layers.begin_copy(writable, &order)? else {
        panic!("there is nothing to be copied")
    };
    assert_eq!(copy.settle()?, Settled::Done);
    copy.place()
}

#[cfg(test)]
mod tests;
