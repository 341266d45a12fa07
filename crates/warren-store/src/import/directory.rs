//! Copies a directory. It belongs to the administrator and may be in use: whatever changes under
//! our hands, no link is followed and no other filesystem is entered.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Seek as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::error::ImportError;
use super::limits::Meter;
use super::{Skipped, is_provided};
use crate::digest::Digest;
use crate::tree::{self, Attributes, EntryError, TreePath, TreeWriter, Xattr};

const CHUNK: u64 = 16 << 20;
const MAX_XATTR_LIST: usize = 64 << 10;

/// Copies directories into one tree.
#[derive(Debug)]
pub(crate) struct DirectoryCopier<'a, 'm> {
    pub(crate) writer: &'a mut TreeWriter,
    pub(crate) meter: &'a Meter<'m>,
    pub(crate) skipped: &'a mut Skipped,
    /// The store's own directory, by device and inode.
    pub(crate) store: (u64, u64),
    /// The first name of each file that has several.
    linked: HashMap<(u64, u64), TreePath>,
    listing: Sha256,
}

impl<'a, 'm> DirectoryCopier<'a, 'm> {
    pub(crate) fn new(
        writer: &'a mut TreeWriter,
        meter: &'a Meter<'m>,
        skipped: &'a mut Skipped,
        store: (u64, u64),
    ) -> Self {
        Self { writer, meter, skipped, store, linked: HashMap::new(), listing: Sha256::new() }
    }

    /// Copies `source` as the root. Answers the digest of a listing: names, attributes, sizes and
    /// times.
    pub(crate) fn copy(mut self, source: &File) -> Result<Digest, ImportError> {
        let root = TreePath::parse(b"", 0).map_err(ImportError::entry(b"/"))?;
        self.directory(source.as_fd(), &root)?;
        Ok(Digest::finish(self.listing))
    }

    fn directory(&mut self, directory: BorrowedFd<'_>, path: &TreePath) -> Result<(), ImportError> {
        let name = path.as_path().as_os_str().as_bytes();
        let refuse = ImportError::entry(name);
        let stat = rustix::fs::fstat(directory).map_err(EntryError::io("look at")).map_err(&refuse)?;
        if (stat.st_dev, stat.st_ino) == self.store {
            return Err(ImportError::ContainsStore);
        }
        let mut attributes = Attributes::of(&stat).map_err(&refuse)?;
        attributes.xattrs = xattrs(directory).map_err(&refuse)?;
        self.list(path, &stat, b"");
        self.writer.directory(path, attributes).map_err(&refuse)?;
        for name in tree::names(directory).map_err(&refuse)? {
            self.entry(directory, &name, &path.join(OsStr::from_bytes(name.as_bytes())))?;
        }
        Ok(())
    }

    fn entry(&mut self, parent: BorrowedFd<'_>, name: &CStr, path: &TreePath) -> Result<(), ImportError> {
        if is_provided(path) {
            return Ok(());
        }
        self.meter.entry()?;
        let refuse = ImportError::entry(path.as_path().as_os_str().as_bytes());
        let stat = match tree::stat(parent, name) {
            Err(EntryError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(&refuse)?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => match open(parent, name, OFlags::DIRECTORY) {
                Ok(directory) => self.directory(directory.as_fd(), path),
                Err(Errno::XDEV) => {
                    self.skipped.mounts += 1;
                    self.writer.directory(path, Attributes::root(0o755)).map_err(refuse)
                }
                Err(error) => Err(refuse(EntryError::io("open")(error))),
            },
            FileType::RegularFile => self.file(parent, name, path),
            FileType::Symlink => self.symlink(parent, name, path, &stat).map_err(refuse),
            FileType::Fifo => {
                self.list(path, &stat, b"");
                let attributes = Attributes::of(&stat).map_err(&refuse)?;
                self.writer.fifo(path, &attributes).map_err(refuse)
            }
            FileType::Socket => {
                self.skipped.sockets += 1;
                Ok(())
            }
            _ => {
                self.skipped.devices += 1;
                Ok(())
            }
        }
    }

    fn file(&mut self, parent: BorrowedFd<'_>, name: &CStr, path: &TreePath) -> Result<(), ImportError> {
        let refuse = ImportError::entry(path.as_path().as_os_str().as_bytes());
        let file = match open(parent, name, OFlags::NONBLOCK) {
            Ok(file) => File::from(file),
            Err(Errno::XDEV) => {
                self.skipped.mounts += 1;
                return Ok(());
            }
            Err(error) => return Err(refuse(EntryError::io("open")(error))),
        };
        let stat = rustix::fs::fstat(&file).map_err(EntryError::io("look at")).map_err(&refuse)?;
        self.list(path, &stat, b"");
        let identity = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1 {
            if let Some(first) = self.linked.get(&identity) {
                return self.writer.hard_link(path, first).map_err(refuse);
            }
            self.linked.insert(identity, path.clone());
        }
        let mut attributes = Attributes::of(&stat).map_err(&refuse)?;
        attributes.xattrs = xattrs(file.as_fd()).map_err(&refuse)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.meter.check_size(size)?;
        let copy = self.writer.create_file(path).map_err(&refuse)?;
        let failed = |source| refuse(EntryError::Io { action: "copy", source });
        copy_content(&file, &copy, size, self.meter, &failed)?;
        self.writer.finish_file(&copy, &attributes).map_err(&refuse)
    }

    fn symlink(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &TreePath,
        stat: &Stat,
    ) -> Result<(), EntryError> {
        let target =
            rustix::fs::readlinkat(parent, name, Vec::new()).map_err(EntryError::io("read the link"))?;
        self.list(path, stat, target.as_bytes());
        self.writer.symlink(path, target.as_bytes(), &Attributes::of(stat)?)
    }

    fn list(&mut self, path: &TreePath, stat: &Stat, target: &[u8]) {
        for text in [path.as_path().as_os_str().as_bytes(), target] {
            self.listing.update((text.len() as u64).to_le_bytes());
            self.listing.update(text);
        }
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        // A directory's size and time tell of its filesystem and of names that came and went.
        let (size, time) = if directory { (0, 0) } else { (stat.st_size, stat.st_mtime) };
        for number in [i64::from(stat.st_mode), i64::from(stat.st_uid), i64::from(stat.st_gid), size, time] {
            self.listing.update(number.to_le_bytes());
        }
    }
}

fn open(parent: BorrowedFd<'_>, name: &CStr, extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), inside)
}

/// Shares the blocks where the filesystem can, else copies what is not a hole.
fn copy_content(
    source: &File,
    target: &File,
    size: u64,
    meter: &Meter<'_>,
    failed: &dyn Fn(io::Error) -> ImportError,
) -> Result<(), ImportError> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        meter.read(size);
        return meter.content(size).map_err(ImportError::from);
    }
    let mut offset = 0;
    while offset < size {
        let (start, end) = match rustix::fs::seek(source, SeekFrom::Data(offset)) {
            Ok(start) => (start, rustix::fs::seek(source, SeekFrom::Hole(start)).unwrap_or(size)),
            Err(Errno::NXIO) => break,
            // A filesystem that knows no holes.
            Err(_) => (offset, size),
        };
        let mut position = start;
        while position < end {
            let length = CHUNK.min(end - position);
            meter.content(length)?;
            let copied = copy_range(source, target, position, length).map_err(failed)?;
            if copied == 0 {
                break;
            }
            meter.read(copied);
            position += copied;
        }
        offset = end;
    }
    target.set_len(size).map_err(failed)
}

fn copy_range(mut source: &File, mut target: &File, position: u64, length: u64) -> io::Result<u64> {
    source.seek(io::SeekFrom::Start(position))?;
    target.seek(io::SeekFrom::Start(position))?;
    io::copy(&mut io::Read::take(source, length), &mut target)
}

fn xattrs(file: BorrowedFd<'_>) -> Result<Vec<Xattr>, EntryError> {
    let mut list = vec![0; MAX_XATTR_LIST];
    let length = match rustix::fs::flistxattr(file, list.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(EntryError::io("list the extended attributes of")(error)),
    };
    let mut xattrs = Vec::new();
    for name in list[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        let mut value = vec![0; MAX_XATTR_LIST];
        let length = rustix::fs::fgetxattr(file, name, value.as_mut_slice())
            .map_err(EntryError::io("read an extended attribute of"))?;
        xattrs.extend(Xattr::keep(name, &value[..length])?);
    }
    Ok(xattrs)
}
