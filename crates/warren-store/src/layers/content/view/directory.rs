use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;
use warren_core::LayerError;

use super::node::{self, Node};
use crate::layers::content::failure;

/// One real directory.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    fd: Rc<OwnedFd>,
    /// It belongs to a layer, whose files never change; what is in a template may be the machine's own.
    of_layer: bool,
}

impl Part {
    pub(crate) fn of_layer(directory: OwnedFd) -> Self {
        Self { fd: Rc::new(directory), of_layer: true }
    }

    pub(crate) fn of_template(directory: OwnedFd) -> Self {
        Self { fd: Rc::new(directory), of_layer: false }
    }

    fn find<'d>(&'d self, name: &'d CStr) -> Result<Option<Node<'d>>, LayerError> {
        Node::find(self.fd.as_fd(), name, self.of_layer)
    }
}

impl AsFd for Part {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The real directories that one merged directory consists of, the topmost first.
#[derive(Debug, Clone)]
pub(crate) struct Merged {
    parts: Vec<Part>,
    /// Whatever lies below the last of them does not show through.
    covers: bool,
}

/// A name in a merged directory, and the topmost part that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) name: CString,
    pub(crate) part: usize,
}

impl Merged {
    /// Of whole trees, the topmost first.
    pub(crate) fn new(parts: impl IntoIterator<Item = Part>) -> Result<Self, LayerError> {
        let mut merged = Self::nothing();
        for part in parts {
            merged.covers = node::is_opaque(part.as_fd())?;
            merged.parts.push(part);
            if merged.covers {
                break;
            }
        }
        Ok(merged)
    }

    /// Nothing at all.
    pub(crate) fn nothing() -> Self {
        Self { parts: Vec::new(), covers: false }
    }

    /// One real directory, as a tree of its own.
    pub(crate) fn part(part: &Part) -> Self {
        Self { parts: vec![part.clone()], covers: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn covers(&self) -> bool {
        self.covers
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Every name in any part, in order, whiteouts among them.
    pub(crate) fn names(&self) -> Result<Vec<Name>, LayerError> {
        let mut names = BTreeMap::new();
        for (part, directory) in self.parts.iter().enumerate() {
            let failed = failure::errno("list a directory of a layer");
            for entry in Dir::read_from(&directory.fd).map_err(&failed)? {
                let entry = entry.map_err(&failed)?;
                let name = entry.file_name();
                if name != c"." && name != c".." && !names.contains_key(name) {
                    names.insert(name.to_owned(), part);
                }
            }
        }
        Ok(names.into_iter().map(|(name, part)| Name { name, part }).collect())
    }

    /// What one of its names stands for, a whiteout perhaps.
    pub(crate) fn node<'d>(&'d self, name: &'d Name) -> Result<Option<Node<'d>>, LayerError> {
        match self.parts.get(name.part) {
            Some(part) => part.find(&name.name),
            None => Ok(None),
        }
    }

    /// The directory itself.
    pub(crate) fn itself(&self) -> Result<Option<Node<'_>>, LayerError> {
        match self.parts.first() {
            Some(part) => part.find(c"."),
            None => Ok(None),
        }
    }

    /// Looks a name up. None if it is in no part, or removed.
    pub(crate) fn find<'d>(&'d self, name: &'d CStr) -> Result<Option<Node<'d>>, LayerError> {
        for part in &self.parts {
            if let Some(node) = part.find(name)? {
                return Ok((!node.is_whiteout()).then_some(node));
            }
        }
        Ok(None)
    }

    /// The directory of that name; without parts if the name is none or not a directory's.
    pub(crate) fn enter(&self, name: &CStr) -> Result<Self, LayerError> {
        self.enter_from(name, 0)
    }

    /// As [`enter`](Self::enter), where parts above the given one are known not to have the name.
    pub(crate) fn enter_from(&self, name: &CStr, part: usize) -> Result<Self, LayerError> {
        let mut merged = Self { parts: Vec::new(), covers: self.covers };
        for part in self.parts.get(part..).unwrap_or_default() {
            match node::open(part.as_fd(), name, OFlags::DIRECTORY) {
                Ok(directory) => {
                    let opaque = node::is_opaque(directory.as_fd())?;
                    merged.parts.push(Part { fd: Rc::new(directory), of_layer: part.of_layer });
                    if opaque {
                        merged.covers = true;
                        break;
                    }
                }
                Err(Errno::NOENT) => {}
                // Anything that is not a directory hides what is below it.
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    merged.covers = true;
                    break;
                }
                Err(error) => return Err(failure::errno("open a directory of a layer")(error)),
            }
        }
        Ok(merged)
    }
}
