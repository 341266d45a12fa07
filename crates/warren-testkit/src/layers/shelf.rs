use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::{LayerDriver, LayerError, LayerErrorKind, LayerId, RootTree, SandboxId, Stack};

use crate::delta::{Delta, Nodes, skeleton};
use crate::guest::Tree;
use crate::world::FakeTemplates;

const LAYERS: &str = "/fake/layers";

/// The layers and templates of a fake machine, and the rules broken on them.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub(super) driver: LayerDriver,
    pub(super) layers: BTreeMap<LayerId, Layer>,
    /// The files of templates made of layers, on top of the skeleton.
    pub(super) templates: BTreeMap<PathBuf, Delta>,
    pub(super) publisher: Option<Arc<FakeTemplates>>,
    /// The root of each sandbox of each backend.
    pub(crate) standing: BTreeMap<(&'static str, SandboxId), Vec<RootTree>>,
    pub(super) writables: BTreeMap<(u64, u64), (SandboxId, Arc<Tree>)>,
    pub(crate) violations: Vec<String>,
    pub(super) faults: Vec<(&'static str, LayerErrorKind)>,
    pub(super) calls: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) delta: Delta,
    pub(super) committed: bool,
    pub(super) synced: bool,
    pub(super) damaged: bool,
    /// For a copy: everything that the sandbox had written.
    pub(super) copied: Option<Delta>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self {
            driver: LayerDriver::Overlay,
            layers: BTreeMap::new(),
            templates: BTreeMap::new(),
            publisher: None,
            standing: BTreeMap::new(),
            writables: BTreeMap::new(),
            violations: Vec::new(),
            faults: Vec::new(),
            calls: BTreeMap::new(),
        }
    }
}

impl Shelf {
    /// Puts a layer into its place, where nothing may be.
    pub(super) fn put(&mut self, id: &LayerId, delta: Delta, committed: bool) -> Result<(), LayerError> {
        if self.layers.contains_key(id) {
            self.violations.push(format!("{id} is made where it exists"));
            return Err(LayerError::new(LayerErrorKind::Host, format!("make {id}: it exists")));
        }
        self.layers.insert(id.clone(), Layer { delta, committed, ..Layer::default() });
        Ok(())
    }

    /// Makes a layer of a sandbox's writes at this place. `None`: it is no place for one.
    pub(crate) fn receive(&mut self, place: &Path, delta: impl FnOnce() -> Delta) -> Option<()> {
        let id = layer_at(place).filter(|id| super::store::place(id) == place)?;
        self.put(&id, delta(), false).ok()
    }

    /// True if there is something at the place.
    pub(crate) fn is_taken(&self, place: &Path) -> bool {
        layer_at(place).is_some_and(|id| self.layers.contains_key(&id))
    }

    /// A layer that may be used.
    pub(super) fn usable(&self, id: &LayerId) -> Result<&Layer, LayerError> {
        match self.layers.get(id) {
            Some(layer) if layer.damaged => {
                Err(LayerError::new(LayerErrorKind::Damaged, format!("{id} is damaged")))
            }
            Some(layer) if layer.committed => Ok(layer),
            Some(_) => Err(LayerError::new(LayerErrorKind::NotFound, format!("{id} is not committed"))),
            None => Err(LayerError::new(LayerErrorKind::NotFound, format!("there is no {id}"))),
        }
    }

    /// All layers of a stack in one.
    pub(super) fn flatten(&self, layers: &[LayerId]) -> Result<Delta, LayerError> {
        let mut flat = Delta::default();
        for id in layers.iter().rev() {
            flat.cover(&self.usable(id)?.delta);
        }
        Ok(flat)
    }

    /// All files of a state.
    pub(super) fn state(&self, root: &[RootTree], stack: &Stack) -> Result<Nodes, LayerError> {
        let below = self.template_files(root);
        let mut nodes = skeleton();
        below.apply(&mut nodes);
        self.flatten(&stack.0)?.apply(&mut nodes);
        Ok(nodes)
    }

    /// The files of a sandbox with this root; an error names a missing layer. A layer that is not
    /// committed counts, as the backend knows nothing of manifests.
    pub(crate) fn files(&self, root: &[RootTree]) -> Result<Nodes, String> {
        let mut nodes = skeleton();
        for lower in root.iter().flat_map(|tree| tree.lowers.iter().rev()) {
            if let Some(delta) = self.templates.get(lower) {
                delta.apply(&mut nodes);
            } else if lower.starts_with(LAYERS) {
                let layer = layer_at(lower).and_then(|id| self.layers.get(&id));
                let layer = layer.ok_or_else(|| format!("there is no layer at {}", lower.display()))?;
                layer.delta.apply(&mut nodes);
            }
        }
        Ok(nodes)
    }

    pub(super) fn template_files(&self, root: &[RootTree]) -> Delta {
        let mut files = Delta::default();
        for lower in root.iter().flat_map(|tree| tree.lowers.iter().rev()) {
            if let Some(delta) = self.templates.get(lower) {
                files.cover(delta);
            }
        }
        files
    }

    /// A sandbox that stands on a layer.
    pub(super) fn who_stands_on(&self, id: &LayerId) -> Option<&SandboxId> {
        let on_it = |root: &[RootTree]| {
            root.iter().flat_map(|tree| &tree.lowers).any(|lower| layer_at(lower).as_ref() == Some(id))
        };
        self.standing.iter().find(|(_, root)| on_it(root)).map(|((_, sandbox), _)| sandbox)
    }
}

pub(super) fn layers_place() -> &'static Path {
    Path::new(LAYERS)
}

/// The layer of which a host path is a part.
pub(super) fn layer_at(path: &Path) -> Option<LayerId> {
    let first = path.strip_prefix(LAYERS).ok()?.components().next()?;
    first.as_os_str().to_str()?.parse().ok()
}
