//! From a stack to the directories of a root, and back.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use warren_core::{LayerError, LayerErrorKind, LayerId, MountAccess, RootTree, Stack};

use super::LayerDirectory;

const UPPER: &str = "upper-";

pub(super) fn stand_on(
    store: &LayerDirectory,
    stack: &Stack,
    root: &mut [RootTree],
) -> Result<(), LayerError> {
    let mut tops: Vec<Vec<PathBuf>> = vec![Vec::new(); root.len()];
    for id in &stack.0 {
        for &tree in &store.known(id)?.trees {
            let top = usize::try_from(tree).ok().and_then(|tree| tops.get_mut(tree)).ok_or_else(|| {
                let action = format!("{id} changes tree {tree}, which the template below it does not have");
                LayerError::new(LayerErrorKind::Invalid, action)
            })?;
            top.push(store.layers.join(id.as_str()).join(upper(tree)));
        }
    }
    for (tree, mut top) in root.iter_mut().zip(tops) {
        // Only an overlay shows several directories as one.
        if !top.is_empty() {
            tree.access = MountAccess::ReadWrite;
        }
        top.append(&mut tree.lowers);
        tree.lowers = top;
    }
    Ok(())
}

/// Each tree names some of the layers, in order. Two layers that have no tree in common could stand
/// either way round: the newer is put on top.
pub(super) fn stack_of(store: &LayerDirectory, root: &[RootTree]) -> Stack {
    let mut trees: Vec<Vec<LayerId>> = root
        .iter()
        .map(|tree| {
            tree.lowers.iter().rev().filter_map(|lower| layer_of(&store.layers, lower)).collect::<Vec<_>>()
        })
        .collect();
    let mut stack = Vec::new();
    // The last of each list is the topmost that is left of it.
    while let Some(next) = topmost(store, &trees) {
        for tree in &mut trees {
            tree.pop_if(|top| *top == next);
        }
        stack.push(next);
    }
    Stack(stack)
}

/// Of the tops of all lists, the newest that is not further down in another.
fn topmost(store: &LayerDirectory, trees: &[Vec<LayerId>]) -> Option<LayerId> {
    let covered: HashSet<&LayerId> =
        trees.iter().filter_map(|tree| tree.split_last()).flat_map(|(_, below)| below).collect();
    let tops = || trees.iter().filter_map(|tree| tree.last());
    let free = tops().filter(|top| !covered.contains(top));
    let age = |id: &&LayerId| store.known(id).map_or(0, |known| known.created_unix_ms);
    // Lists that contradict one another were not made here; what they name is told all the same.
    free.max_by_key(age).or_else(|| tops().next()).cloned()
}

fn layer_of(layers: &Path, lower: &Path) -> Option<LayerId> {
    let mut parts = lower.strip_prefix(layers).ok()?.iter();
    let id = parts.next()?.to_str()?.parse().ok()?;
    tree_number(parts.next()?)?;
    parts.next().is_none().then_some(id)
}

pub(super) fn upper(tree: u32) -> String {
    format!("{UPPER}{tree}")
}

/// The number of the tree whose changes are in a directory of that name.
pub(super) fn tree_number(name: &OsStr) -> Option<u32> {
    let number = name.to_str()?.strip_prefix(UPPER)?;
    number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number)
}
