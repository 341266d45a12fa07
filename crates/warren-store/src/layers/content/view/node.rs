use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use warren_core::{Entry, EntryKind, LayerError, LayerErrorKind};

use crate::host::is_public;
use crate::layers::content::failure;

const OPAQUE: &str = "trusted.overlay.opaque";
const OVERLAY: &[u8] = b"trusted.overlay.";
const MOST_XATTRS: usize = 64 << 10;

/// The entry of a name in one real directory. Its content is a tenant's: no link of it is ever
/// followed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'d> {
    parent: BorrowedFd<'d>,
    name: &'d CStr,
    origin: Origin,
    pub(crate) stat: Stat,
}

/// The owner of a real directory and of everything in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A layer's, whose files never change.
    Layer,
    Template,
    /// The machine's own. What not everybody there may read is not there for anyone here, as it is
    /// not for a sandbox.
    Machine,
}

impl Origin {
    pub(super) fn hides(self, stat: &Stat) -> bool {
        self == Self::Machine && !is_public(stat.st_mode)
    }
}

/// An attribute with its name.
pub(crate) type Xattr = (Vec<u8>, Vec<u8>);

impl<'d> Node<'d> {
    /// None if nothing has the name.
    pub(super) fn find(
        parent: BorrowedFd<'d>,
        name: &'d CStr,
        origin: Origin,
    ) -> Result<Option<Self>, LayerError> {
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if origin.hides(&stat) => Ok(None),
            Ok(stat) => Ok(Some(Self { parent, name, origin, stat })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(failure::errno("look at a file of a layer")(error)),
        }
    }

    /// True if it never changes, and may thus be shared.
    pub(crate) fn is_immutable(&self) -> bool {
        self.origin == Origin::Layer
    }

    pub(crate) fn parent(&self) -> BorrowedFd<'d> {
        self.parent
    }

    pub(crate) fn name(&self) -> &'d CStr {
        self.name
    }

    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(crate) fn is_whiteout(&self) -> bool {
        self.file_type() == FileType::CharacterDevice && self.stat.st_rdev == 0
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    pub(crate) fn is_file(&self) -> bool {
        self.file_type() == FileType::RegularFile
    }

    pub(crate) fn is_symlink(&self) -> bool {
        self.file_type() == FileType::Symlink
    }

    pub(crate) fn permissions(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    /// Of a file; else zero.
    pub(crate) fn length(&self) -> u64 {
        if self.is_file() { u64::try_from(self.stat.st_size).unwrap_or(0) } else { 0 }
    }

    /// The same for every name of one file.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.stat.st_dev, self.stat.st_ino)
    }

    pub(crate) fn modified(&self) -> (i64, i64) {
        (self.stat.st_mtime, i64::try_from(self.stat.st_mtime_nsec).unwrap_or(0))
    }

    pub(crate) fn entry(&self) -> Entry {
        let kind = match self.file_type() {
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink,
            FileType::Fifo => EntryKind::Fifo,
            FileType::Socket => EntryKind::Socket,
            FileType::CharacterDevice => EntryKind::CharDevice,
            FileType::BlockDevice => EntryKind::BlockDevice,
            _ => EntryKind::File,
        };
        let sized = matches!(kind, EntryKind::File | EntryKind::Symlink);
        let (seconds, nanoseconds) = self.modified();
        Entry {
            kind,
            size: if sized { u64::try_from(self.stat.st_size).unwrap_or(0) } else { 0 },
            mode: self.permissions(),
            uid: self.stat.st_uid,
            gid: self.stat.st_gid,
            mtime_unix_ms: seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000),
        }
    }

    /// Opens a regular file. What is no longer one is refused: opening a pipe or a device has
    /// effects.
    pub(crate) fn open(&self) -> Result<File, LayerError> {
        let file = File::from(
            open(self.parent, self.name, OFlags::NONBLOCK | OFlags::NOCTTY)
                .map_err(failure::errno("open a file of a layer"))?,
        );
        let stat = rustix::fs::fstat(&file).map_err(failure::errno("look at a file of a layer"))?;
        if (stat.st_dev, stat.st_ino) != self.identity() || !self.is_file() || self.origin.hides(&stat) {
            return Err(LayerError::new(LayerErrorKind::Damaged, "a layer changed while it was read"));
        }
        Ok(file)
    }

    pub(crate) fn target(&self) -> Result<Vec<u8>, LayerError> {
        let target = rustix::fs::readlinkat(self.parent, self.name, Vec::new())
            .map_err(failure::errno("read a link of a layer"))?;
        Ok(target.into_bytes())
    }

    /// In the order of their names, without those of overlayfs. Only files and directories have any
    /// that matter.
    pub(crate) fn xattrs(&self) -> Result<Vec<Xattr>, LayerError> {
        if self.is_directory() {
            let directory = open(self.parent, self.name, OFlags::DIRECTORY)
                .map_err(failure::errno("open a directory of a layer"))?;
            xattrs(directory.as_fd())
        } else if self.is_file() {
            xattrs(self.open()?.as_fd())
        } else {
            Ok(Vec::new())
        }
    }
}

pub(super) fn open(parent: BorrowedFd<'_>, name: &CStr, extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // What the host mounted there is none of a sandbox's.
    let inside = inside | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), inside)
}

pub(super) fn is_opaque(directory: BorrowedFd<'_>) -> Result<bool, LayerError> {
    let mut value = [0; 2];
    match rustix::fs::fgetxattr(directory, OPAQUE, &mut value) {
        Ok(length) => Ok(value.get(..length) == Some(b"y")),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(false),
        Err(error) => Err(failure::errno("look at a directory of a layer")(error)),
    }
}

fn xattrs(of: BorrowedFd<'_>) -> Result<Vec<Xattr>, LayerError> {
    let failed = failure::errno("read the attributes of a file of a layer");
    // Most files have none, and then no room for them is needed.
    match rustix::fs::flistxattr_query(of) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(error) => return Err(failed(error)),
    }
    let mut list = vec![0; MOST_XATTRS];
    let length = rustix::fs::flistxattr(of, list.as_mut_slice()).map_err(&failed)?;
    let mut value = vec![0; MOST_XATTRS];
    let mut xattrs = Vec::new();
    for name in list.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(OVERLAY) {
            continue;
        }
        match rustix::fs::fgetxattr(of, name, value.as_mut_slice()) {
            Ok(length) => {
                xattrs.push((name.to_owned(), value.get(..length).unwrap_or_default().to_owned()));
            }
            Err(Errno::NODATA) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    xattrs.sort();
    Ok(xattrs)
}
