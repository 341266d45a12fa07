use std::collections::HashMap;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use warren_core::{LayerError, LayerErrorKind, RootTree, Stack};

use super::tar::{Entry, Kind, TarWriter};
use super::writing;
use crate::layers::LayerDirectory;
use crate::layers::content::failure;
use crate::layers::content::view::{Lookup, Merged, Name, Node, Places, Step, View, Walk, Xattr};

const OPAQUE: &[u8] = b"trusted.overlay.opaque";
const REDIRECT: &[u8] = b"trusted.overlay.redirect";
const CAPABILITY: &[u8] = b"security.capability";

pub(super) fn export(
    store: &LayerDirectory,
    root: &[RootTree],
    stack: &Stack,
    below: &Path,
    to: &mut dyn Write,
) -> Result<(), LayerError> {
    write(store, root, stack, below, &mut TreeArchive::new(TarWriter::new(to)))
}

/// The length of what [`export`] writes, if it is counted by then.
pub(super) fn size(
    store: &LayerDirectory,
    root: &[RootTree],
    stack: &Stack,
    below: &Path,
    until: Instant,
) -> Result<Option<u64>, LayerError> {
    let mut archive = TreeArchive::new(TarWriter::counting_until(until));
    let counted = write(store, root, stack, below, &mut archive);
    if archive.tar.is_late() { Ok(None) } else { counted.map(|()| Some(archive.tar.written())) }
}

fn write(
    store: &LayerDirectory,
    root: &[RootTree],
    stack: &Stack,
    below: &Path,
    archive: &mut TreeArchive<'_>,
) -> Result<(), LayerError> {
    let view = View::open(store, root, stack)?;
    let directory = view.directory(below)?;
    if directory.is_empty() {
        let mut lookup = Lookup::new(&view);
        let Some(node) = lookup.find(below)? else {
            let action = format!("there is no `{}` in this state", below.display());
            return Err(LayerError::new(LayerErrorKind::NotFound, action));
        };
        let name = below.file_name().unwrap_or_default();
        archive.leaf(&node, name.as_bytes())?;
    } else {
        archive.tree(&view, below, directory, b"./", Purpose::Files)?;
    }
    archive.tar.end().map_err(writing)
}

/// Memory that the names of files with several names may take: a tenant can make them many, and
/// long.
const MOST_LINKED_BYTES: usize = 16 << 20;
/// The cost of such a name beside its bytes.
const LINK_COST: usize = 64;

/// The purpose of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The files that are visible.
    Files,
    /// A layer, with what it hides of those below it.
    Layer,
}

/// Where the files of an archive come from.
pub(super) trait Source: Places<Place = Merged> {
    fn list(&self, path: &Path, directory: &Merged) -> Result<Vec<Name>, LayerError>;

    fn look<'s>(
        &'s self,
        directory: &'s Merged,
        path: &Path,
        name: &'s Name,
    ) -> Result<Option<Node<'s>>, LayerError>;
}

impl Source for View {
    fn list(&self, path: &Path, directory: &Merged) -> Result<Vec<Name>, LayerError> {
        self.names(path, directory)
    }

    fn look<'s>(
        &'s self,
        directory: &'s Merged,
        path: &Path,
        name: &'s Name,
    ) -> Result<Option<Node<'s>>, LayerError> {
        self.find(directory, path, name)
    }
}

/// One tree of one layer.
#[derive(Debug)]
pub(super) struct Alone;

impl Places for Alone {
    type Place = Merged;

    fn enter(&self, from: &Merged, _: &Path, name: &Name) -> Result<Merged, LayerError> {
        from.enter(&name.name)
    }
}

impl Source for Alone {
    fn list(&self, _: &Path, directory: &Merged) -> Result<Vec<Name>, LayerError> {
        directory.names()
    }

    fn look<'s>(
        &'s self,
        directory: &'s Merged,
        _: &Path,
        name: &'s Name,
    ) -> Result<Option<Node<'s>>, LayerError> {
        directory.node(name)
    }
}

/// The marks of a directory of a layer that overlayfs needs. `covered`: nothing shows through the
/// one around it anyway.
fn marks(directory: &Merged, covered: bool) -> Vec<Xattr> {
    let opaque = (directory.covers() && !covered).then(|| (OPAQUE.to_owned(), b"y".to_vec()));
    let redirect = directory.redirect().map(|route| (REDIRECT.to_owned(), route.mark()));
    opaque.into_iter().chain(redirect).collect()
}

/// Writes trees into an archive.
pub(super) struct TreeArchive<'w> {
    pub(super) tar: TarWriter<'w>,
    /// The first name of each file that may have several, as far as they are remembered: one beyond
    /// that is written again under each of its names.
    linked: HashMap<(u64, u64), Vec<u8>>,
    linked_bytes: usize,
}

impl<'w> TreeArchive<'w> {
    pub(super) fn new(tar: TarWriter<'w>) -> Self {
        Self { tar, linked: HashMap::new(), linked_bytes: 0 }
    }

    /// Writes a directory and all below it. `prefix` is its name in the archive, with a slash at
    /// its end.
    pub(super) fn tree<S: Source>(
        &mut self,
        source: &S,
        path: &Path,
        top: Merged,
        prefix: &[u8],
        purpose: Purpose,
    ) -> Result<(), LayerError> {
        if let Some(node) = top.itself()? {
            let marks = if purpose == Purpose::Layer { marks(&top, false) } else { Vec::new() };
            self.directory(&node, prefix, marks)?;
        }
        let names = source.list(path, &top)?;
        let mut walk = Walk::new(source, path, top, names);
        let mut name_in_archive = prefix.strip_prefix(b"./").unwrap_or(prefix).to_owned();
        loop {
            let Step::Name(name) = walk.step() else {
                // Back to the name of the directory around it.
                name_in_archive.pop();
                let around = name_in_archive.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                name_in_archive.truncate(around);
                if walk.leave() {
                    continue;
                }
                return Ok(());
            };
            let (place, path) = (walk.place()?, walk.path_of(&name));
            let Some(node) = source.look(&place, &path, &name)? else { continue };
            let entry_name = [name_in_archive.as_slice(), name.name.as_bytes()].concat();
            if node.is_directory() {
                let inner = source.enter(&place, &path, &name)?;
                let marks =
                    if purpose == Purpose::Layer { marks(&inner, place.covers()) } else { Vec::new() };
                name_in_archive = [entry_name.as_slice(), b"/"].concat();
                self.directory(&node, &name_in_archive, marks)?;
                let names = source.list(&path, &inner)?;
                walk.enter(name, inner, names);
            } else if purpose == Purpose::Layer && hides(&node) {
                self.tar.entry(&Entry::new(Kind::Whiteout, &entry_name)).map_err(writing)?;
            } else {
                self.leaf(&node, &entry_name)?;
            }
        }
    }

    fn directory(&mut self, node: &Node<'_>, name: &[u8], marks: Vec<Xattr>) -> Result<(), LayerError> {
        let mut entry = described(node, Kind::Directory, name)?;
        entry.xattrs.extend(marks);
        self.tar.entry(&entry).map_err(writing)
    }

    /// Anything but a directory. What no archive can hold, like a socket, is left out.
    fn leaf(&mut self, node: &Node<'_>, name: &[u8]) -> Result<(), LayerError> {
        if node.is_file() {
            return self.file(node, name);
        }
        let kind = match node.file_type() {
            rustix::fs::FileType::Symlink => Kind::Symlink,
            rustix::fs::FileType::Fifo => Kind::Fifo,
            _ => return Ok(()),
        };
        let mut entry = described(node, kind, name)?;
        if kind == Kind::Symlink {
            entry.link = node.target()?;
        }
        self.tar.entry(&entry).map_err(writing)
    }

    fn file(&mut self, node: &Node<'_>, name: &[u8]) -> Result<(), LayerError> {
        if node.stat.st_nlink > 1 {
            if let Some(first) = self.linked.get(&node.identity()) {
                let entry = Entry { link: first.clone(), ..described(node, Kind::HardLink, name)? };
                let entry = Entry { xattrs: Vec::new(), ..entry };
                return self.tar.entry(&entry).map_err(writing);
            }
            if self.linked_bytes < MOST_LINKED_BYTES {
                self.linked_bytes += name.len() + LINK_COST;
                self.linked.insert(node.identity(), name.to_owned());
            }
        }
        let size = node.length();
        let entry = Entry { size, ..described(node, Kind::File, name)? };
        self.tar.entry(&entry).map_err(writing)?;
        if self.tar.counts_only() {
            return self.tar.skip(size).map_err(writing);
        }
        let mut file = node.open()?;
        self.tar.content(&mut file, size).map_err(failure::io("write a file into the export"))
    }
}

/// Sockets and the like cannot be in an archive, but what they hide must stay hidden.
fn hides(node: &Node<'_>) -> bool {
    !node.is_file() && !node.is_symlink() && node.file_type() != rustix::fs::FileType::Fifo
}

fn described(node: &Node<'_>, kind: Kind, name: &[u8]) -> Result<Entry, LayerError> {
    let mut xattrs = node.xattrs()?;
    xattrs.retain(|(name, _)| name.starts_with(b"user.") || name == CAPABILITY);
    Ok(Entry {
        mode: node.permissions(),
        uid: node.stat.st_uid,
        gid: node.stat.st_gid,
        modified: node.modified(),
        xattrs,
        ..Entry::new(kind, name)
    })
}
