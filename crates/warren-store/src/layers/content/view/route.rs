use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use warren_core::{LayerError, LayerErrorKind};

use super::node::{self, Origin};
use crate::layers::content::failure;

const REDIRECT: &str = "trusted.overlay.redirect";
/// The kernel writes far shorter ones.
const MOST_BYTES: usize = 4096;

/// Where the layers have a directory. One that was renamed bears a mark of where those below it
/// have it: a name beside its own, or a path from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(super) absolute: bool,
    names: Vec<CString>,
}

/// The entry at the end of a route in one layer.
pub(super) struct Found {
    pub(super) directory: Option<OwnedFd>,
    /// Nothing further below shows through.
    pub(super) stops: bool,
    /// The route through the layers below.
    pub(super) next: Route,
}

impl Route {
    pub(super) fn beside(name: &CStr) -> Self {
        Self { absolute: false, names: vec![name.to_owned()] }
    }

    /// As the mark has it. `None` if that is none: it leads nowhere, or out of the layer.
    pub(crate) fn parse(mark: &[u8]) -> Option<Self> {
        let absolute = mark.first() == Some(&b'/');
        let text = if absolute { mark.get(1..)? } else { mark };
        let names = text.split(|byte| *byte == b'/').map(|name| {
            let usable = !name.is_empty() && name != b"." && name != b"..";
            CString::new(name).ok().filter(|_| usable)
        });
        let names: Vec<CString> = names.collect::<Option<_>>()?;
        (absolute || names.len() == 1).then_some(Self { absolute, names })
    }

    pub(crate) fn mark(&self) -> Vec<u8> {
        let mut mark = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            if self.absolute || index > 0 {
                mark.push(b'/');
            }
            mark.extend_from_slice(name.as_bytes());
        }
        mark
    }

    /// Goes along it from a directory of one layer: its root, or, beside another, the directory
    /// around.
    pub(super) fn follow(&self, from: BorrowedFd<'_>, origin: Origin) -> Result<Found, LayerError> {
        let mut found = Found { directory: None, stops: false, next: self.clone() };
        let mut here: Option<OwnedFd> = None;
        for (index, name) in self.names.iter().enumerate() {
            let around = here.as_ref().map_or(from, |here| here.as_fd());
            let inner = match node::open(around, name, OFlags::DIRECTORY) {
                Ok(inner) => inner,
                Err(Errno::NOENT) => return Ok(found),
                // Anything that is not a directory hides what is below it.
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Found { stops: true, ..found }),
                Err(error) => return Err(failure::errno("open a directory of a layer")(error)),
            };
            let looked =
                rustix::fs::fstat(&inner).map_err(failure::errno("look at a directory of a layer"))?;
            if origin.hides(&looked) {
                return Ok(found);
            }
            if node::is_opaque(inner.as_fd())? {
                found.stops = true;
            } else if let Some(redirect) = redirect(inner.as_fd())? {
                // What a directory around it hides is hidden from its old place alone.
                found.stops &= !redirect.absolute;
                let rest = self.names.len() - index - 1;
                found.next.turn(redirect, rest);
            }
            here = Some(inner);
        }
        found.directory = here;
        Ok(found)
    }

    /// Below this layer the way to one of the names on it is another; so many come after it.
    fn turn(&mut self, redirect: Self, rest: usize) {
        let after = self.names.split_off(self.names.len().saturating_sub(rest));
        self.names.pop();
        if redirect.absolute {
            *self = redirect;
        } else {
            self.names.extend(redirect.names);
        }
        self.names.extend(after);
    }
}

fn redirect(directory: BorrowedFd<'_>) -> Result<Option<Route>, LayerError> {
    let mut value = vec![0; MOST_BYTES];
    match rustix::fs::fgetxattr(directory, REDIRECT, value.as_mut_slice()) {
        Ok(length) => {
            let route = value.get(..length).and_then(Route::parse);
            let damaged = || LayerError::new(LayerErrorKind::Damaged, "a layer sends a directory nowhere");
            Ok(Some(route.ok_or_else(damaged)?))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(failure::errno("look at a directory of a layer")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_a_name_or_a_path_from_the_root() {
        for mark in [b"name".as_slice(), b"/a", b"/a/b c"] {
            assert_eq!(Route::parse(mark).unwrap().mark(), mark);
        }
        for bad in [b"".as_slice(), b"/", b"a/b", b"..", b"/a/../b", b"/a//b", b"/a/", b"a\0b", b"."] {
            assert_eq!(Route::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_turn_replaces_one_name_of_the_way() {
        let mut route = Route::parse(b"/a/b/c").unwrap();
        route.turn(Route::parse(b"x").unwrap(), 1);
        assert_eq!(route.mark(), b"/a/x/c");
        route.turn(Route::parse(b"/y/z").unwrap(), 1);
        assert_eq!(route.mark(), b"/y/z/c");
        let mut beside = Route::beside(c"a");
        beside.turn(Route::parse(b"b").unwrap(), 0);
        assert_eq!(beside.mark(), b"b");
    }
}
