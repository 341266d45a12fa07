//! Makes the directories of a layer, out of what other layers hold.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use warren_core::LayerError;

use super::failure;
use super::view::{Node, Route, Xattr};

const OPAQUE: &str = "trusted.overlay.opaque";
const REDIRECT: &str = "trusted.overlay.redirect";
/// Overlayfs hides the whiteouts of a directory that is in one layer only if the directory has this
/// attribute. Empty, it says that nobody knows where the directory came from.
const ORIGIN: &str = "trusted.overlay.origin";

/// The attributes of a file, a directory or the like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds and nanoseconds.
    pub(crate) modified: (i64, i64),
    pub(crate) xattrs: Vec<Xattr>,
}

impl Attributes {
    pub(crate) fn of(node: &Node<'_>) -> Result<Self, LayerError> {
        Ok(Self {
            mode: node.permissions(),
            uid: node.stat.st_uid,
            gid: node.stat.st_gid,
            modified: node.modified(),
            xattrs: node.xattrs()?,
        })
    }

    fn times(&self) -> Timestamps {
        let time = Timespec { tv_sec: self.modified.0, tv_nsec: self.modified.1 };
        Timestamps { last_access: time, last_modification: time }
    }

    /// The owner comes first, because changing it clears the set-id bits.
    pub(crate) fn apply(&self, to: BorrowedFd<'_>) -> Result<(), LayerError> {
        let failed = failure::errno("describe a file of a layer");
        let owner = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        rustix::fs::fchown(to, Some(owner.0), Some(owner.1)).map_err(&failed)?;
        rustix::fs::fchmod(to, Mode::from_raw_mode(self.mode)).map_err(&failed)?;
        for (name, value) in &self.xattrs {
            rustix::fs::fsetxattr(to, name.as_slice(), value, XattrFlags::empty()).map_err(&failed)?;
        }
        rustix::fs::futimens(to, &self.times()).map_err(failed)
    }
}

/// Fills one tree of a layer that nobody else sees yet.
#[derive(Debug)]
pub(crate) struct Builder {
    root: OwnedFd,
    /// Where a file that has several names, and could not be linked to, was copied first.
    copied: HashMap<(u64, u64), PathBuf>,
    files: Files,
}

/// The files of a tree in the making.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    /// Never written again: they may be those of other layers.
    Shared,
    /// A sandbox is going to write to them.
    Own,
}

impl Builder {
    /// Makes the tree's own directory.
    pub(crate) fn new(layer: BorrowedFd<'_>, name: &CStr) -> Result<Self, LayerError> {
        Ok(Self { root: make_directory(layer, name)?, copied: HashMap::new(), files: Files::Shared })
    }

    /// For an empty directory that a sandbox is going to write to. Nothing in it is shared.
    pub(crate) fn for_writing(root: OwnedFd) -> Self {
        Self { root, copied: HashMap::new(), files: Files::Own }
    }

    pub(crate) fn root(&self) -> Result<OwnedFd, LayerError> {
        self.root.try_clone().map_err(failure::io("open a layer in the making"))
    }

    /// Puts anything but a directory into a directory of the tree. `path` is its place in the tree,
    /// relative. The data of files is shared where neither side is ever written again.
    pub(crate) fn put(
        &mut self,
        node: &Node<'_>,
        into: BorrowedFd<'_>,
        name: &CStr,
        path: &Path,
    ) -> Result<(), LayerError> {
        if !node.is_file() {
            return recreate(node, into, name);
        }
        if !node.is_immutable() {
            return copy(node, into, name, &Attributes::of(node)?);
        }
        let linked = match self.files {
            Files::Shared => rustix::fs::linkat(node.parent(), node.name(), into, name, AtFlags::empty()),
            Files::Own => Err(Errno::PERM),
        };
        match linked {
            Ok(()) => return Ok(()),
            // Another file system or subvolume, one name too many, or a file that is marked
            // immutable.
            Err(Errno::XDEV | Errno::MLINK | Errno::PERM) => {}
            Err(error) => return Err(failure::errno("share a file of a layer")(error)),
        }
        if node.stat.st_nlink > 1 {
            if let Some(first) = self.copied.get(&node.identity())
                && rustix::fs::linkat(&self.root, first, into, name, AtFlags::empty()).is_ok()
            {
                return Ok(());
            }
            self.copied.insert(node.identity(), path.to_owned());
        }
        copy(node, into, name, &Attributes::of(node)?)
    }
}

/// Opens a directory of a tree in the making.
pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Makes a directory; [`finish_directory`] completes it when all that belongs into it is there.
pub(crate) fn make_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, LayerError> {
    let failed = failure::errno("make a directory of a layer");
    rustix::fs::mkdirat(parent, name, Mode::RWXU).map_err(&failed)?;
    open_directory(parent, name).map_err(failed)
}

pub(crate) fn finish_directory(
    directory: BorrowedFd<'_>,
    attributes: &Attributes,
    opaque: bool,
) -> Result<(), LayerError> {
    if opaque {
        mark(directory, OPAQUE, b"y")?;
    }
    attributes.apply(directory)
}

/// Says where what is further below has a directory.
pub(crate) fn redirect(directory: BorrowedFd<'_>, route: &Route) -> Result<(), LayerError> {
    mark(directory, REDIRECT, &route.mark())
}

/// Hides whatever has this name further below.
pub(crate) fn whiteout(into: BorrowedFd<'_>, name: &CStr) -> Result<(), LayerError> {
    rustix::fs::mknodat(into, name, FileType::CharacterDevice, Mode::empty(), 0)
        .map_err(failure::errno("remove a name in a layer"))?;
    mark(into, ORIGIN, b"")
}

/// Makes a file with the content of another and attributes of its own.
pub(crate) fn copy(
    node: &Node<'_>,
    into: BorrowedFd<'_>,
    name: &CStr,
    attributes: &Attributes,
) -> Result<(), LayerError> {
    let (source, target) = (node.open()?, create(into, name)?);
    share_or_copy(&source, &target, node.length()).map_err(failure::io("copy a file of a layer"))?;
    attributes.apply(target.as_fd())
}

pub(crate) fn create(into: BorrowedFd<'_>, name: &CStr) -> Result<File, LayerError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(into, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(failure::errno("make a file of a layer"))?;
    Ok(file.into())
}

fn mark(directory: BorrowedFd<'_>, name: &str, value: &[u8]) -> Result<(), LayerError> {
    rustix::fs::fsetxattr(directory, name, value, XattrFlags::empty())
        .map_err(failure::errno("mark a directory of a layer"))
}

fn recreate(node: &Node<'_>, into: BorrowedFd<'_>, name: &CStr) -> Result<(), LayerError> {
    let failed = failure::errno("make a file of a layer");
    if node.is_whiteout() {
        return whiteout(into, name);
    }
    let mode = Mode::from_raw_mode(node.permissions());
    if node.is_symlink() {
        let target = CString::new(node.target()?).map_err(|_| failure::invalid("a link holds a NUL byte"))?;
        rustix::fs::symlinkat(&target, into, name).map_err(&failed)?;
    } else {
        rustix::fs::mknodat(into, name, node.file_type(), mode, node.stat.st_rdev).map_err(&failed)?;
    }
    let owner = (Uid::from_raw(node.stat.st_uid), Gid::from_raw(node.stat.st_gid));
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(into, name, Some(owner.0), Some(owner.1), nofollow).map_err(&failed)?;
    if !node.is_symlink() {
        // The umask was applied. The name was made a moment ago where nobody else can enter: it is
        // no link.
        rustix::fs::chmodat(into, name, mode, AtFlags::empty()).map_err(&failed)?;
    }
    let (tv_sec, tv_nsec) = node.modified();
    let time = Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(into, name, &times, nofollow).map_err(failed)
}

fn share_or_copy(source: &File, target: &File, size: u64) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    let mut offset = 0;
    while offset < size {
        let (start, end) = match rustix::fs::seek(source, SeekFrom::Data(offset)) {
            Ok(start) => (start, rustix::fs::seek(source, SeekFrom::Hole(start)).unwrap_or(size)),
            Err(Errno::NXIO) => break,
            // A file system that knows no holes.
            Err(_) => (offset, size),
        };
        let (mut from, mut to) = (source, target);
        io::Seek::seek(&mut from, io::SeekFrom::Start(start))?;
        io::Seek::seek(&mut to, io::SeekFrom::Start(start))?;
        if io::copy(&mut io::Read::take(from, end - start), &mut to)? == 0 {
            break;
        }
        offset = end;
    }
    target.set_len(size)
}
