use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use warren_core::{
    Copied, CopiedData, CopyOrder, Draft, LayerCopy, LayerDriver, LayerError, LayerErrorKind, LayerId,
    LayerInfo, LayerStore, NewLayer, RootTree, SandboxId, Settled, Space, Stack, TooMuch,
};

use super::FakeLayers;
use super::shelf::{layer_at, layers_place};
use crate::delta::Delta;
use crate::guest::Tree;

/// Where a layer belongs.
pub(super) fn place(id: &LayerId) -> PathBuf {
    layers_place().join(id.as_str())
}

/// The directory of a layer that sandboxes use: a fake sandbox has one writable tree.
pub(crate) fn lower(place: &std::path::Path) -> PathBuf {
    place.join("upper-0")
}

impl LayerStore for FakeLayers {
    fn driver(&self) -> LayerDriver {
        self.shelf().driver
    }

    fn place(&self, id: &LayerId) -> PathBuf {
        place(id)
    }

    fn stand_on(&self, stack: &Stack, root: &mut [RootTree]) -> Result<(), LayerError> {
        let shelf = self.enter("stand_on")?;
        for id in &stack.0 {
            shelf.usable(id)?;
        }
        drop(shelf);
        if stack.0.is_empty() {
            return Ok(());
        }
        let tree = root.first_mut().ok_or_else(|| {
            LayerError::new(LayerErrorKind::Invalid, "stand on layers: the root has no tree to put them on")
        })?;
        tree.lowers.splice(0..0, stack.0.iter().map(|id| lower(&place(id))));
        Ok(())
    }

    fn stack_of(&self, root: &[RootTree]) -> Stack {
        let first = root.first().map(|tree| tree.lowers.as_slice()).unwrap_or_default();
        Stack(first.iter().filter_map(|lower| layer_at(lower)).collect())
    }

    fn begin_copy<'a>(
        &'a self,
        writable: BorrowedFd<'a>,
        order: &CopyOrder<'_>,
    ) -> Result<Draft<'a>, LayerError> {
        let shelf = self.enter("begin_copy")?;
        let Some((sandbox, tree)) = Self::behind(&shelf, writable) else {
            let action = format!("copy into {}: nobody's writable layers", order.into);
            return Err(LayerError::new(LayerErrorKind::Invalid, action));
        };
        let last = order.since.and_then(|since| shelf.layers.get(since)?.copied.clone());
        let copy = Copy { layers: self, sandbox, tree, into: order.into.clone(), last, made: None };
        Ok(match order.bound {
            _ if copy.is_unchanged() => Draft::Unchanged,
            Some(bound) if copy.delta().0.len() as u64 > bound.entries => {
                Draft::TooMuch(TooMuch::Entries(bound.entries))
            }
            Some(bound) if copy.delta().bytes() > bound.bytes => Draft::TooMuch(TooMuch::Bytes(bound.bytes)),
            _ => Draft::Begun(Box::new(copy)),
        })
    }

    fn commit(&self, layer: &NewLayer) -> Result<(), LayerError> {
        let mut shelf = self.enter("commit")?;
        match shelf.layers.get_mut(&layer.id) {
            Some(found) => {
                found.committed = true;
                Ok(())
            }
            None => {
                let action = format!("commit {}: nothing is in its place", layer.id);
                Err(LayerError::new(LayerErrorKind::NotFound, action))
            }
        }
    }

    fn sync(&self, layers: &[LayerId]) -> Result<(), LayerError> {
        let mut shelf = self.enter("sync")?;
        for id in layers {
            shelf.usable(id)?;
        }
        for id in layers {
            if let Some(layer) = shelf.layers.get_mut(id) {
                layer.synced = true;
            }
        }
        Ok(())
    }

    fn space(&self, id: &LayerId, most_entries: Option<u64>) -> Result<Option<Space>, LayerError> {
        let shelf = self.enter("space")?;
        let delta = &shelf.usable(id)?.delta;
        let inodes = delta.0.len() as u64;
        let counted = most_entries.is_none_or(|most| inodes <= most);
        Ok(counted.then(|| Space { bytes: delta.bytes(), inodes }))
    }

    fn squash(&self, layers: &[LayerId], into: &LayerId) -> Result<(), LayerError> {
        let mut shelf = self.enter("squash")?;
        let flat = shelf.flatten(layers)?;
        shelf.put(into, flat, true)
    }

    fn layers(&self) -> Result<Vec<LayerInfo>, LayerError> {
        let shelf = self.enter("layers")?;
        let info = |(id, layer): (&LayerId, &super::shelf::Layer)| LayerInfo {
            id: id.clone(),
            committed: layer.committed && !layer.damaged,
        };
        Ok(shelf.layers.iter().map(info).collect())
    }

    fn remove(&self, id: &LayerId) -> Result<(), LayerError> {
        let mut shelf = self.enter("remove")?;
        if let Some(sandbox) = shelf.who_stands_on(id) {
            let text = format!("{id} is removed while {sandbox} stands on it");
            shelf.violations.push(text);
        }
        shelf.layers.remove(id);
        Ok(())
    }
}

/// A copy on its way.
struct Copy<'a> {
    layers: &'a FakeLayers,
    sandbox: SandboxId,
    tree: Arc<Tree>,
    into: LayerId,
    /// All that was written when it was last copied.
    last: Option<Delta>,
    /// The layer's content, and all that was written then.
    made: Option<(Delta, Delta)>,
}

impl Copy<'_> {
    fn is_unchanged(&self) -> bool {
        match &self.last {
            Some(last) => *last == self.tree.upper(),
            None => self.tree.is_pristine(),
        }
    }

    fn delta(&self) -> Delta {
        match &self.last {
            Some(last) => self.tree.since(last),
            None => self.tree.upper(),
        }
    }
}

impl LayerCopy for Copy<'_> {
    fn settle(&mut self) -> Result<Settled, LayerError> {
        let mut shelf = self.layers.enter("settle")?;
        if self.tree.is_lively() {
            let text = format!("copy of {}, which is neither frozen nor halted", self.sandbox);
            shelf.violations.push(text);
        }
        if self.is_unchanged() {
            return Ok(Settled::Unchanged);
        }
        self.made = Some((self.delta(), self.tree.upper()));
        Ok(Settled::Done)
    }

    fn place(self: Box<Self>) -> Result<Copied, LayerError> {
        let mut shelf = self.layers.enter("place")?;
        let Some((delta, copied)) = self.made else {
            shelf.violations.push(format!("{} is placed before it is complete", self.into));
            return Err(LayerError::new(LayerErrorKind::Invalid, format!("place {}", self.into)));
        };
        shelf.put(&self.into, delta, false)?;
        if let Some(layer) = shelf.layers.get_mut(&self.into) {
            layer.copied = Some(copied);
        }
        let data = match shelf.driver {
            LayerDriver::Overlay => CopiedData::Bytes,
            LayerDriver::Reflink | LayerDriver::Btrfs => CopiedData::Shared,
        };
        Ok(Copied { data, on_last: self.last.is_some() })
    }
}
