use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::Dir;
use warren_core::LayerError;

use super::node::{self, Node, Origin};
use super::route::{Found, Route};
use crate::layers::content::failure;

/// Memory that the names of one directory may take.
const MOST_NAME_BYTES: usize = 64 << 20;
/// The cost of a name beside its bytes.
const NAME_COST: usize = 48;

/// One real directory.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    fd: Rc<OwnedFd>,
    origin: Origin,
    /// Which of the tree's roots it is below.
    root: usize,
}

impl Part {
    pub(crate) fn of_layer(directory: OwnedFd) -> Self {
        Self { fd: Rc::new(directory), origin: Origin::Layer, root: 0 }
    }

    pub(crate) fn of_template(directory: OwnedFd) -> Self {
        Self { fd: Rc::new(directory), origin: Origin::Template, root: 0 }
    }

    pub(crate) fn of_machine(directory: OwnedFd) -> Self {
        Self { fd: Rc::new(directory), origin: Origin::Machine, root: 0 }
    }

    fn find<'d>(&'d self, name: &'d CStr) -> Result<Option<Node<'d>>, LayerError> {
        Node::find(self.fd.as_fd(), name, self.origin)
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
    /// Set if nothing below the last of them shows through.
    covers: bool,
    /// Where what is below all of them has the directory, if it was renamed.
    redirect: Option<Route>,
    /// The directories of the whole tree, the topmost first.
    roots: Rc<Vec<Part>>,
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
        for (root, part) in parts.into_iter().enumerate() {
            merged.covers = node::is_opaque(part.as_fd())?;
            merged.parts.push(Part { root, ..part });
            if merged.covers {
                break;
            }
        }
        merged.roots = Rc::new(merged.parts.clone());
        Ok(merged)
    }

    /// Nothing at all.
    pub(crate) fn nothing() -> Self {
        Self { parts: Vec::new(), covers: false, redirect: None, roots: Rc::default() }
    }

    /// One real directory, as a tree of its own.
    pub(crate) fn part(part: &Part) -> Self {
        Self { parts: vec![part.clone()], ..Self::nothing() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn covers(&self) -> bool {
        self.covers
    }

    /// Where what is below has it, if not under its own name.
    pub(crate) fn redirect(&self) -> Option<&Route> {
        self.redirect.as_ref().filter(|_| !self.covers)
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Every name in any part, in order, whiteouts among them. A tenant can put any number into a
    /// directory, and this holds all of them: beyond a bound it fails.
    pub(crate) fn names(&self) -> Result<Vec<Name>, LayerError> {
        let mut names: Vec<Name> = Vec::new();
        let mut bytes = 0;
        for (part, directory) in self.parts.iter().enumerate() {
            let failed = failure::errno("list a directory of a layer");
            for entry in Dir::read_from(&directory.fd).map_err(&failed)? {
                let entry = entry.map_err(&failed)?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                bytes += name.count_bytes() + NAME_COST;
                if bytes > MOST_NAME_BYTES {
                    let action =
                        "a directory holds more names than can be looked at at once: about a million";
                    return Err(failure::invalid(action));
                }
                names.push(Name { name: name.to_owned(), part });
            }
            failure::unless_abandoned()?;
        }
        // The topmost part that has a name comes first.
        names.sort_unstable_by(|one, other| (&one.name, one.part).cmp(&(&other.name, other.part)));
        names.dedup_by(|later, first| later.name == first.name);
        Ok(names)
    }

    /// The entry of one of its names, a whiteout perhaps.
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
        let mut merged = Self { covers: self.covers, roots: Rc::clone(&self.roots), ..Self::nothing() };
        let usual = Route::beside(name);
        let mut route = usual.clone();
        let mut places = self.parts.get(part..).unwrap_or_default();
        while let Some((place, rest)) = places.split_first() {
            let Found { directory, stops, next } = route.follow(place.as_fd(), place.origin)?;
            let part = |fd| Part { fd: Rc::new(fd), ..place.clone() };
            merged.parts.extend(directory.map(part));
            if stops {
                merged.covers = true;
                return Ok(merged);
            }
            places = rest;
            if next.absolute && !route.absolute {
                // What hides the layers below from the directory around it does not hide them from
                // one that came from elsewhere.
                places = self.roots.get(place.root + 1..).unwrap_or_default();
                merged.covers = false;
            }
            route = next;
        }
        merged.redirect = (route != usual).then_some(route);
        Ok(merged)
    }
}
