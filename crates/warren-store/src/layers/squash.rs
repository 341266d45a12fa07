//! Several layers as one.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use warren_core::{LayerError, LayerErrorKind, LayerId, NewLayer, Space};

use super::LayerDirectory;
use super::content::build::{self, Attributes, Builder};
use super::content::failure;
use super::content::view::{self, Merged, Name, Part, Places, Step, Walk};
use super::staging::Staged;

const BLOCK: u64 = 512;

/// Makes and commits a layer that equals these, the topmost first, on top of one another.
pub(super) fn squash(store: &LayerDirectory, layers: &[LayerId], into: &LayerId) -> Result<(), LayerError> {
    let staged = Staged::begin(store)?;
    let mut newest = 0;
    for layer in layers {
        newest = newest.max(store.known(layer)?.created_unix_ms);
    }
    squash_into(store, layers, staged.directory())?;
    staged.commit(&NewLayer { id: into.clone(), sandbox: None, created_unix_ms: newest })
}

/// Makes an `upper-<n>` in a directory for each tree that any of the layers changes. Answers what
/// they hold.
pub(super) fn squash_into(
    store: &LayerDirectory,
    layers: &[LayerId],
    target: BorrowedFd<'_>,
) -> Result<Space, LayerError> {
    let mut space = Space::default();
    let mut trees = BTreeSet::new();
    for layer in layers {
        trees.extend(store.known(layer)?.trees.iter().copied());
    }
    for tree in trees {
        let tree = usize::try_from(tree).map_err(|error| {
            LayerError::caused(LayerErrorKind::Damaged, "count the trees of a layer", error)
        })?;
        let merged = Merged::new(view::uppers(store, layers, tree)?)?;
        squash_tree(merged, Builder::new(target, &view::upper_name(tree)?)?, &mut space)?;
    }
    Ok(space)
}

/// Puts layers, the topmost first, as one into an empty directory that a sandbox is going to write
/// to. They are directories in the format of overlayfs. Nothing in it is shared with them.
pub fn fill(layers: &[PathBuf], into: BorrowedFd<'_>) -> Result<(), LayerError> {
    if layers.is_empty() {
        return Ok(());
    }
    let failed = failure::errno("open a layer");
    let parts = layers.iter().map(|layer| view::open_root(layer).map(Part::of_layer));
    let merged = Merged::new(parts.collect::<Result<Vec<_>, _>>().map_err(&failed)?)?;
    let root = build::open_directory(into, c".").map_err(failed)?;
    squash_tree(merged, Builder::for_writing(root), &mut Space::default())
}

/// A directory of the layers and the one that it becomes.
#[derive(Debug, Clone)]
struct Both {
    merged: Merged,
    made: Rc<OwnedFd>,
    /// Nothing below the layers shows through the directory around it, so that nothing in it need
    /// be hidden.
    covered: bool,
}

#[derive(Debug)]
struct Squash;

impl Places for Squash {
    type Place = Both;

    fn enter(&self, from: &Both, _: &Path, name: &Name) -> Result<Both, LayerError> {
        let made = build::open_directory(from.made.as_fd(), &name.name)
            .map_err(failure::errno("open a directory of a layer"))?;
        Ok(Both {
            merged: from.merged.enter_from(&name.name, name.part)?,
            made: Rc::new(made),
            covered: from.merged.covers(),
        })
    }
}

fn squash_tree(merged: Merged, mut builder: Builder, space: &mut Space) -> Result<(), LayerError> {
    let names = merged.names()?;
    let top = Both { merged, made: Rc::new(builder.root()?), covered: false };
    let mut walk = Walk::new(&Squash, Path::new(""), top, names);
    loop {
        let place = walk.place()?;
        match walk.step() {
            Step::Name(name) => {
                let Some(node) = place.merged.node(&name)? else { continue };
                space.inodes += 1;
                space.bytes += u64::try_from(node.stat.st_blocks).unwrap_or(0) * BLOCK;
                if node.is_directory() {
                    drop(build::make_directory(place.made.as_fd(), &name.name)?);
                    let inner = Squash.enter(&place, walk.path(), &name)?;
                    let names = inner.merged.names()?;
                    walk.enter(name, inner, names);
                } else if !(node.is_whiteout() && place.merged.covers()) {
                    builder.put(&node, place.made.as_fd(), &name.name, &walk.path_of(&name))?;
                }
            }
            Step::Done => {
                if let Some(node) = place.merged.itself()? {
                    let opaque = place.merged.covers() && !place.covered;
                    if let Some(route) = place.merged.redirect() {
                        build::redirect(place.made.as_fd(), route)?;
                    }
                    build::finish_directory(place.made.as_fd(), &Attributes::of(&node)?, opaque)?;
                }
                if !walk.leave() {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "squash_tests.rs"]
mod tests;
