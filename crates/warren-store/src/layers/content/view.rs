//! A stack of directories as one, read without mounting them: the rules of overlayfs in user space.
//!
//! Every name is opened relative to the directory that holds it and no link is followed, because
//! what the layers hold is a tenant's. Layers never change, so that nothing can be swapped between
//! two looks either.

mod directory;
mod node;
mod route;
mod walk;

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use warren_core::{LayerError, LayerErrorKind, LayerId, LayerStore as _, RootTree, Shown, Stack};

pub(crate) use directory::{Merged, Name, Part};
pub(crate) use node::{Node, Xattr};
pub(crate) use route::Route;
pub(crate) use walk::{Places, Step, Walk};

use super::failure::{self, invalid};
use crate::host::open_machine;
use crate::layers::LayerDirectory;

/// A root as a sandbox on it would see it.
#[derive(Debug)]
pub(crate) struct View {
    trees: Vec<Tree>,
}

#[derive(Debug)]
struct Tree {
    at: PathBuf,
    root: Merged,
}

impl View {
    /// The stack's layers on top of the template's root.
    pub(crate) fn open(store: &LayerDirectory, root: &[RootTree], stack: &Stack) -> Result<Self, LayerError> {
        let mut trees = Vec::new();
        for (index, tree) in root.iter().enumerate() {
            let mut parts = uppers(store, &stack.0, index)?;
            let (lowers, shown) = Shown::part(&tree.lowers);
            let failed = failure::errno("open the template");
            for lower in lowers.iter().map(PathBuf::as_path).chain(shown.map(|shown| shown.hidden)) {
                parts.push(Part::of_template(open_root(lower).map_err(&failed)?));
            }
            if let Some(shown) = shown {
                parts.push(Part::of_machine(open_machine(shown.machine).map_err(failed)?));
            }
            trees.push(Tree { at: tree.at.clone(), root: Merged::new(parts)? });
        }
        if trees.first().is_none_or(|tree| tree.at != Path::new("/")) {
            return Err(LayerError::new(LayerErrorKind::Host, "the template has no root"));
        }
        Ok(Self { trees })
    }

    /// The root directory.
    pub(crate) fn top(&self) -> Merged {
        self.tree_at(Path::new("/")).cloned().unwrap_or_else(Merged::nothing)
    }

    /// The directory at a path; without parts if there is none.
    pub(crate) fn directory(&self, path: &Path) -> Result<Merged, LayerError> {
        let mut at = PathBuf::from("/");
        let mut directory = self.top();
        for name in names_of(path)? {
            at.push(OsStr::from_bytes(name.as_bytes()));
            directory = self.enter(&directory, &at, &Name { name, part: 0 })?;
            if directory.is_empty() {
                break;
            }
        }
        Ok(directory)
    }

    /// The names in a directory, in order; whiteouts among them.
    pub(crate) fn names(&self, path: &Path, directory: &Merged) -> Result<Vec<Name>, LayerError> {
        let mut names = directory.names()?;
        for tree in self.trees.iter().filter(|tree| tree.at.parent() == Some(path)) {
            let Some(name) = tree.at.file_name().and_then(|name| CString::new(name.as_bytes()).ok()) else {
                continue;
            };
            if let Err(place) = names.binary_search_by(|known| known.name.cmp(&name)) {
                names.insert(place, Name { name, part: 0 });
            }
        }
        Ok(names)
    }

    /// The entry of a name in a directory. `path` is that of the name.
    pub(crate) fn find<'v>(
        &'v self,
        directory: &'v Merged,
        path: &Path,
        name: &'v Name,
    ) -> Result<Option<Node<'v>>, LayerError> {
        match self.tree_at(path) {
            Some(tree) => tree.itself(),
            None => directory.find(&name.name),
        }
    }

    /// The root of the tree that covers whatever is at this path.
    fn tree_at(&self, path: &Path) -> Option<&Merged> {
        self.trees.iter().find(|tree| tree.at == path).map(|tree| &tree.root)
    }

    pub(crate) fn has_tree_below(&self, path: &Path) -> bool {
        self.trees.iter().any(|tree| tree.at != path && tree.at.starts_with(path))
    }
}

impl Places for View {
    type Place = Merged;

    fn enter(&self, from: &Merged, path: &Path, name: &Name) -> Result<Merged, LayerError> {
        match self.tree_at(path) {
            Some(tree) => Ok(tree.clone()),
            None => from.enter_from(&name.name, name.part),
        }
    }
}

/// Finds the entry of a whole path in a view. Remembers the directory it looked in last, since
/// questions come in order.
#[derive(Debug)]
pub(crate) struct Lookup<'v> {
    view: &'v View,
    name: Name,
    recent: Option<(PathBuf, Merged)>,
}

impl<'v> Lookup<'v> {
    pub(crate) fn new(view: &'v View) -> Self {
        Self { view, name: Name { name: c".".to_owned(), part: 0 }, recent: None }
    }

    pub(crate) fn find(&mut self, path: &Path) -> Result<Option<Node<'_>>, LayerError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return self.view.tree_at(Path::new("/")).map_or(Ok(None), Merged::itself);
        };
        if self.recent.as_ref().is_none_or(|(known, _)| known != parent) {
            self.recent = Some((parent.to_owned(), self.view.directory(parent)?));
        }
        self.name.name = CString::new(name.as_bytes()).map_err(|_| invalid("the path holds a NUL byte"))?;
        match &self.recent {
            Some((_, directory)) => self.view.find(directory, path, &self.name),
            None => Ok(None),
        }
    }
}

/// The parts of one tree in these layers, the topmost first.
pub(crate) fn uppers(
    store: &LayerDirectory,
    layers: &[LayerId],
    tree: usize,
) -> Result<Vec<Part>, LayerError> {
    let mut uppers = Vec::new();
    let name = upper_name(tree)?;
    for layer in layers {
        if !store.known(layer)?.trees.iter().any(|known| usize::try_from(*known) == Ok(tree)) {
            continue;
        }
        let failed = failure::errno("open a layer");
        let directory = open_root(&store.place(layer)).map_err(&failed)?;
        let upper = node::open(directory.as_fd(), &name, OFlags::DIRECTORY).map_err(failed)?;
        uppers.push(Part::of_layer(upper));
    }
    Ok(uppers)
}

pub(crate) fn upper_name(tree: usize) -> Result<CString, LayerError> {
    CString::new(format!("upper-{tree}")).map_err(|_| invalid("the name of a tree holds a NUL byte"))
}

/// The components of an absolute path. One that could lead elsewhere is refused.
pub(crate) fn names_of(path: &Path) -> Result<Vec<CString>, LayerError> {
    let refused = || invalid("the path must be absolute and without `.` and `..`");
    if !path.is_absolute() {
        return Err(refused());
    }
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => names.push(CString::new(name.as_bytes()).map_err(|_| refused())?),
            _ => return Err(refused()),
        }
    }
    Ok(names)
}

pub(crate) fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}
