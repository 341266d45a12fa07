//! A store of layers without a disk, in one world with the sandboxes of a fake backend.

mod archive;
mod content;
mod merge;
mod shelf;
mod store;
mod text;

use std::fmt;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::{io, thread};

use parking_lot::{Mutex, MutexGuard};
use warren_core::{LayerDriver, LayerError, LayerErrorKind, LayerId, RootTree, SandboxId};

use crate::FakeTemplates;
use crate::guest::Tree;
use shelf::Shelf;
pub(crate) use store::lower;

/// The layers of a [`crate::FakeIsolation`]'s sandboxes, which gives its store with [`crate::FakeIsolation::layers`]. It is stricter
/// than one on a disk: whoever breaks a rule of [`warren_core::LayerStore`] is written down, and
/// [`crate::FakeIsolation::assert_clean`] tells.
///
/// Rules: a layer is made once; what is copied is at rest; nothing stands on a layer that is removed; a template's name is
/// used once. A layer that was not committed, or is damaged, is an error where it is to be used.
///
/// Files differ if their bytes or their permissions do. Archives are JSON documents of its own.
pub struct FakeLayers {
    shelf: Mutex<Shelf>,
    before: Mutex<Option<Arc<Before>>>,
    bar: Mutex<Option<Arc<Bar>>>,
}

type Before = dyn Fn(&'static str) + Send + Sync;
type Bar = dyn Fn() -> bool + Send + Sync;

impl FakeLayers {
    pub fn new() -> Self {
        Self { shelf: Mutex::default(), before: Mutex::default(), bar: Mutex::default() }
    }

    /// The next call of this method fails so, without any effect. Asked for twice, two calls fail.
    pub fn fail_next(&self, method: &'static str, kind: LayerErrorKind) {
        self.shelf().faults.push((method, kind));
    }

    /// Calls that were to fail and have not been made no longer are.
    pub fn forgive(&self) {
        self.shelf().faults.clear();
    }

    /// How often this method was called.
    pub fn calls(&self, method: &'static str) -> u64 {
        self.shelf().calls.get(method).copied().unwrap_or_default()
    }

    /// Called with the method's name before each call, on its thread: it may wait.
    pub fn before_each(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        *self.before.lock() = Some(Arc::new(hook));
    }

    /// A thread for which this says yes gets no further than the door, for ever: it belongs to a process that has ended. Who
    /// bars the backend bars its layers too.
    pub fn bar(&self, barred: impl Fn() -> bool + Send + Sync + 'static) {
        self.set_bar(Arc::new(barred));
    }

    pub(crate) fn set_bar(&self, barred: Arc<Bar>) {
        *self.bar.lock() = Some(barred);
    }

    /// Which driver the store says it is; [`LayerDriver::Overlay`] unless told.
    pub fn set_driver(&self, driver: LayerDriver) {
        self.shelf().driver = driver;
    }

    /// Templates that are made of layers are added to these.
    pub fn publish_templates(&self, templates: &Arc<FakeTemplates>) {
        self.shelf().publisher = Some(Arc::clone(templates));
    }

    /// Whether a layer has been brought to the disk.
    pub fn is_synced(&self, id: &LayerId) -> bool {
        self.shelf().layers.get(id).is_some_and(|layer| layer.synced)
    }

    /// The content of a layer is no longer what it was.
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

    /// Which rules were broken so far.
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

    /// The world, for the backend.
    pub(crate) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock()
    }

    /// A descriptor by which [`warren_core::LayerStore::begin_copy`] knows these files.
    pub(crate) fn hand_out(&self, sandbox: &SandboxId, tree: &Arc<Tree>) -> io::Result<OwnedFd> {
        let descriptor = OwnedFd::from(UnixStream::pair()?.0);
        let identity = identity(File::from(descriptor.try_clone()?))?;
        self.shelf().writables.insert(identity, (sandbox.clone(), Arc::clone(tree)));
        Ok(descriptor)
    }

    /// The world, for threads of living processes, unless the call is to fail. Looked at with the world in hand, so that nothing slips
    /// through.
    fn enter(&self, method: &'static str) -> Result<MutexGuard<'_, Shelf>, LayerError> {
        let before = self.before.lock().clone();
        if let Some(before) = before {
            before(method);
        }
        let bar = self.bar.lock().clone();
        let mut shelf = loop {
            let shelf = self.shelf();
            if !bar.as_ref().is_some_and(|barred| barred()) {
                break shelf;
            }
            drop(shelf);
            thread::park();
        };
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

impl Default for FakeLayers {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<LayerId> = self.shelf().layers.keys().cloned().collect();
        f.debug_struct("FakeLayers").field("layers", &layers).finish_non_exhaustive()
    }
}

/// A root that [`FakeTemplates`] gives for a template.
pub(crate) fn template_root(name: &warren_core::TemplateName) -> Vec<RootTree> {
    vec![RootTree {
        at: "/".into(),
        lowers: vec![shelf::template_place(name)],
        access: warren_core::MountAccess::ReadWrite,
    }]
}

/// Tells a descriptor from every other that is open.
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
