use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::Mode;

use crate::import::archive::{Archive, EndMark, Entry, Kind, Streamed};
use crate::import::error::ImportError;
use crate::import::extract::fill;
use crate::import::is_provided;
use crate::import::limits::Meter;
use crate::layers::content::build::open_directory;
use crate::layers::content::view::Route;
use crate::layers::stand::tree_number;
use crate::tree::{EntryError, TreePath, TreeWriter, Xattr};

const BUFFER: usize = 128 << 10;
/// More writable trees than any root has.
const MOST_TREES: u32 = 64;
const OPAQUE: &[u8] = b"trusted.overlay.opaque";
const REDIRECT: &[u8] = b"trusted.overlay.redirect";
const ORIGIN: &[u8] = b"trusted.overlay.origin";

/// Writes the archive of one layer into a directory. Of all that overlayfs reads, only that a name
/// is hidden or a directory covers what is below it can come from there.
pub(super) fn extract(
    input: &mut dyn Read,
    into: BorrowedFd<'_>,
    meter: &Meter<'_>,
) -> Result<(), ImportError> {
    let mut archive = Archive::new(Streamed(input), meter.limits.header_bytes, EndMark::Required);
    let mut trees = Trees { into, meter, writers: BTreeMap::new() };
    let mut buffer = vec![0; BUFFER];
    while let Some(entry) = archive.next()? {
        meter.entry()?;
        meter.content(entry.content.1)?;
        if let Some((_, real_size)) = &entry.sparse {
            meter.check_size(*real_size)?;
        }
        let refuse = ImportError::entry(&entry.name);
        let (tree, path) = trees.place(&entry.name).map_err(&refuse)?;
        let writer = trees.writer(tree).map_err(&refuse)?;
        if tree == 0 && is_provided(&path) {
            continue;
        }
        if entry.kind == Kind::File {
            let attributes = entry.attributes().map_err(&refuse)?;
            let file = writer.create_file(&path).map_err(&refuse)?;
            fill(&file, &entry, &mut archive, &mut buffer)?;
            writer.finish_file(&file, &attributes).map_err(&refuse)?;
        } else {
            trees.other(tree, &path, &entry).map_err(&refuse)?;
        }
        meter.count(trees.writer(tree).map_err(refuse)?.take_implied())?;
    }
    for writer in trees.writers.into_values() {
        writer.finish().map_err(ImportError::entry(b"/"))?;
    }
    Ok(())
}

struct Trees<'a, 'm> {
    into: BorrowedFd<'a>,
    meter: &'a Meter<'m>,
    writers: BTreeMap<u32, TreeWriter>,
}

impl Trees<'_, '_> {
    /// Which tree an entry belongs to, and where it is there.
    fn place(&self, name: &[u8]) -> Result<(u32, TreePath), EntryError> {
        let depth = self.meter.limits.depth;
        let whole = TreePath::parse(name, depth + 1)?;
        let tree = whole.top().and_then(tree_number).filter(|tree| *tree < MOST_TREES);
        let tree = tree.ok_or(EntryError::OutsideTrees)?;
        let rest = whole.as_path().iter().skip(1).collect::<std::path::PathBuf>();
        Ok((tree, TreePath::parse(rest.as_os_str().as_bytes(), depth)?))
    }

    fn writer(&mut self, tree: u32) -> Result<&mut TreeWriter, EntryError> {
        match self.writers.entry(tree) {
            std::collections::btree_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::btree_map::Entry::Vacant(new) => {
                let name = std::ffi::CString::new(format!("upper-{tree}")).map_err(|_| EntryError::Nul)?;
                rustix::fs::mkdirat(self.into, &name, Mode::RWXU).map_err(EntryError::io("create"))?;
                let root = open_directory(self.into, &name).map_err(EntryError::io("open"))?;
                Ok(new.insert(TreeWriter::within(root, self.meter.limits.depth)?))
            }
        }
    }

    fn other(&mut self, tree: u32, path: &TreePath, entry: &Entry) -> Result<(), EntryError> {
        match entry.kind {
            Kind::Directory => {
                let mut attributes = entry.attributes()?;
                let mark =
                    |name: &[u8], value: &[u8]| Xattr { name: name.to_owned(), value: value.to_owned() };
                // Its names may be hidden ones, which overlayfs looks for only where this attribute
                // is.
                attributes.xattrs.push(mark(ORIGIN, b""));
                let opaque = entry.xattrs.iter().any(|(name, value)| name == OPAQUE && value == b"y");
                // A root that covers the whole template is never meant.
                if opaque && !path.is_root() {
                    attributes.xattrs.push(mark(OPAQUE, b"y"));
                }
                // The kernel follows it through layers only, and by plain names.
                let redirect = entry.xattrs.iter().find(|(name, _)| name == REDIRECT);
                if let Some(route) = redirect.and_then(|(_, value)| Route::parse(value))
                    && !opaque
                    && !path.is_root()
                {
                    attributes.xattrs.push(mark(REDIRECT, &route.mark()));
                }
                self.writer(tree)?.directory(path, attributes)
            }
            Kind::Symlink => {
                let attributes = entry.attributes()?;
                self.writer(tree)?.symlink(path, &entry.link, &attributes)
            }
            Kind::Fifo => {
                let attributes = entry.attributes()?;
                self.writer(tree)?.fifo(path, &attributes)
            }
            Kind::Whiteout => self.writer(tree)?.hide(path),
            Kind::HardLink => {
                let refused = || EntryError::HardLinkTarget {
                    target: String::from_utf8_lossy(&entry.link).chars().take(200).collect(),
                };
                let (other, target) = self.place(&entry.link).map_err(|_| refused())?;
                if other != tree {
                    return Err(refused());
                }
                self.writer(tree)?.hard_link(path, &target)
            }
            Kind::Device => Err(EntryError::Kind { kind: b'3' }),
            Kind::Other(kind) => Err(EntryError::Kind { kind }),
            Kind::File => Ok(()),
        }
    }
}
