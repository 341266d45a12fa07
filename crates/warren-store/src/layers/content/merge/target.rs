use std::collections::HashMap;
use std::ffi::CString;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use warren_core::{LayerError, NewLayer, RootTree};

use super::decide::{Content, FileMerge};
use crate::layers::LayerDirectory;
use crate::layers::content::build::{self, Attributes, Builder};
use crate::layers::content::failure::{self, invalid};
use crate::layers::content::view::{self, Merged, Node, Part, View};
use crate::layers::staging::Staged;

const DEEPEST: usize = 512;

/// The layer that a merge makes. Paths come in order, so that a directory is complete when one
/// outside of it comes.
#[derive(Debug)]
pub(super) struct Target<'a> {
    staged: Staged<'a>,
    root: &'a [RootTree],
    ours: &'a View,
    builders: HashMap<usize, Builder>,
    open: Vec<Open>,
}

/// A directory that more may be put into.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    tree: usize,
    fd: OwnedFd,
    attributes: Attributes,
    opaque: bool,
}

impl<'a> Target<'a> {
    pub(super) fn new(
        store: &'a LayerDirectory,
        root: &'a [RootTree],
        ours: &'a View,
    ) -> Result<Self, LayerError> {
        Ok(Self { staged: Staged::begin(store)?, root, ours, builders: HashMap::new(), open: Vec::new() })
    }

    pub(super) fn commit(mut self, layer: &NewLayer) -> Result<(), LayerError> {
        self.close_until(|_| false)?;
        self.staged.commit(layer)
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<(), LayerError> {
        self.within(path, |_, parent, name| build::whiteout(parent, name))
    }

    pub(super) fn put(&mut self, path: &Path, node: &Node<'_>) -> Result<(), LayerError> {
        self.within(path, |builder, parent, name| {
            builder.put(node, parent, name, path.strip_prefix("/").unwrap_or(path))
        })
    }

    pub(super) fn file(
        &mut self,
        path: &Path,
        ours: &Node<'_>,
        theirs: &Node<'_>,
        file: &FileMerge,
    ) -> Result<(), LayerError> {
        self.within(path, |_, parent, name| match &file.content {
            Content::Ours => build::copy(ours, parent, name, &file.attributes),
            Content::Theirs => build::copy(theirs, parent, name, &file.attributes),
            Content::Joined(text) => {
                let mut made = build::create(parent, name)?;
                made.write_all(text.as_bytes()).map_err(failure::io("write a file of a layer"))?;
                file.attributes.apply(made.as_fd())
            }
        })
    }

    /// Makes a directory, or gives one that ours has other attributes.
    pub(super) fn directory(
        &mut self,
        path: &Path,
        attributes: &Attributes,
        opaque: bool,
    ) -> Result<(), LayerError> {
        self.enter(path, Some(attributes))?;
        if let Some(open) = self.open.last_mut() {
            open.attributes = attributes.clone();
            open.opaque |= opaque;
        }
        Ok(())
    }

    fn within(
        &mut self,
        path: &Path,
        act: impl FnOnce(&mut Builder, BorrowedFd<'_>, &std::ffi::CStr) -> Result<(), LayerError>,
    ) -> Result<(), LayerError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(invalid("the root cannot be replaced"));
        };
        let name = CString::new(name.as_bytes()).map_err(|_| invalid("a name holds a NUL byte"))?;
        self.enter(parent, None)?;
        let Some(open) = self.open.last() else { return Err(invalid("the root is not a directory")) };
        match self.builders.get_mut(&open.tree) {
            Some(builder) => act(builder, open.fd.as_fd(), &name),
            None => Err(invalid("the root is not a directory")),
        }
    }

    /// Makes the directories on the way to a path, as far as they are missing.
    fn enter(&mut self, path: &Path, attributes: Option<&Attributes>) -> Result<(), LayerError> {
        let (tree, at) = self.tree_of(path)?;
        self.close_until(|open| open.tree == tree && path.starts_with(&open.path))?;
        let mut next = self.open.last().map_or_else(|| at.clone(), |open| open.path.clone());
        if self.open.is_empty() {
            self.open_root(tree, &next, attributes.filter(|_| next == path))?;
        }
        let rest: Vec<_> = path
            .strip_prefix(&next)
            .map_err(|_| invalid("a path is not where it should be"))?
            .iter()
            .collect();
        for name in rest {
            next.push(name);
            self.descend(tree, &next, name, attributes.filter(|_| next == path))?;
        }
        Ok(())
    }

    fn open_root(
        &mut self,
        tree: usize,
        at: &Path,
        attributes: Option<&Attributes>,
    ) -> Result<(), LayerError> {
        let (fd, attributes) = if let Some(builder) = self.builders.get(&tree) {
            let fd = builder.root()?;
            let attributes = own_attributes(&fd)?;
            (fd, attributes)
        } else {
            let builder = Builder::new(self.staged.directory(), &view::upper_name(tree)?)?;
            let fd = builder.root()?;
            self.builders.insert(tree, builder);
            (fd, self.attributes_at(at, attributes)?)
        };
        self.open.push(Open { path: at.to_owned(), tree, fd, attributes, opaque: false });
        Ok(())
    }

    fn descend(
        &mut self,
        tree: usize,
        path: &Path,
        name: &std::ffi::OsStr,
        attributes: Option<&Attributes>,
    ) -> Result<(), LayerError> {
        if self.open.len() >= DEEPEST {
            return Err(invalid(format!("a change lies deeper than {DEEPEST} directories")));
        }
        let name = CString::new(name.as_bytes()).map_err(|_| invalid("a name holds a NUL byte"))?;
        let Some(parent) = self.open.last() else { return Err(invalid("the root is not a directory")) };
        let (fd, attributes) = match build::open_directory(parent.fd.as_fd(), &name) {
            Ok(fd) => {
                let attributes = own_attributes(&fd)?;
                (fd, attributes)
            }
            Err(Errno::NOENT) => {
                let fd = build::make_directory(parent.fd.as_fd(), &name)?;
                (fd, self.attributes_at(path, attributes)?)
            }
            Err(error) => return Err(failure::errno("open a directory of a layer")(error)),
        };
        self.open.push(Open { path: path.to_owned(), tree, fd, attributes, opaque: false });
        Ok(())
    }

    /// The given attributes, else those of ours, else those of any new directory.
    fn attributes_at(&self, path: &Path, given: Option<&Attributes>) -> Result<Attributes, LayerError> {
        if let Some(given) = given {
            return Ok(given.clone());
        }
        let directory = self.ours.directory(path)?;
        match directory.itself()? {
            Some(node) => Attributes::of(&node),
            None => Ok(Attributes { mode: 0o755, uid: 0, gid: 0, modified: (0, 0), xattrs: Vec::new() }),
        }
    }

    fn close_until(&mut self, keep: impl Fn(&Open) -> bool) -> Result<(), LayerError> {
        while let Some(open) = self.open.pop_if(|open| !keep(open)) {
            build::finish_directory(open.fd.as_fd(), &open.attributes, open.opaque)?;
        }
        Ok(())
    }

    /// The innermost tree that a path lies in, and where that is.
    fn tree_of(&self, path: &Path) -> Result<(usize, PathBuf), LayerError> {
        let trees = self.root.iter().enumerate().filter(|(_, tree)| path.starts_with(&tree.at));
        let innermost = trees.max_by_key(|(_, tree)| tree.at.components().count());
        innermost
            .map(|(index, tree)| (index, tree.at.clone()))
            .ok_or_else(|| invalid("a path is in no tree of the root"))
    }
}

fn own_attributes(directory: &OwnedFd) -> Result<Attributes, LayerError> {
    let clone = directory.try_clone().map_err(failure::io("open a directory of a layer"))?;
    let merged = Merged::part(&Part::of_layer(clone));
    match merged.itself()? {
        Some(node) => Attributes::of(&node),
        None => Err(invalid("a directory of a layer is gone")),
    }
}
