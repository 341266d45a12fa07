use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::HostError;
use crate::tree::{self, Attributes, EntryError, TreePath, TreeWriter};

const MAX_FILE: i64 = 1 << 20;
const MAX_LIBRARY_CACHE: i64 = 4 << 20;
const MAX_ENTRIES: usize = 8192;
const MAX_DEPTH: usize = 16;
const WORLD_READ: u32 = 0o004;
const WORLD_ENTER: u32 = 0o005;

/// Copies what every user of the machine may read. Anything else, and anything that is neither
/// file, directory nor link, is left out: `host` must work on a machine with odd files in `/etc`.
pub(super) struct Copier<'a> {
    writer: &'a mut TreeWriter,
    etc: OwnedFd,
    entries: usize,
}

impl<'a> Copier<'a> {
    pub(super) fn new(machine: &Path, writer: &'a mut TreeWriter) -> Result<Self, HostError> {
        let path = machine.join("etc");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let etc = rustix::fs::openat(CWD, &path, flags, Mode::empty())
            .map_err(|error| HostError::Survey { path, source: error.into() })?;
        Ok(Self { writer, etc, entries: 0 })
    }

    /// Copies `name`, a path relative to `/etc`, with everything in it.
    pub(super) fn copy(&mut self, name: &str) -> Result<(), HostError> {
        let (directory, base) = name.rsplit_once('/').unwrap_or((".", name));
        let failed = |source| HostError::Write { path: format!("etc/{name}"), source };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let parent = match rustix::fs::openat2(&self.etc, directory, flags, Mode::empty(), inside) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(error) => return Err(failed(EntryError::io("open the directory of")(error))),
        };
        let path = TreePath::parse(format!("etc/{name}").as_bytes(), MAX_DEPTH).map_err(failed)?;
        let base = CString::new(base).map_err(|_| failed(EntryError::Nul))?;
        self.entry(parent.as_fd(), &base, &path, 0).map_err(failed)
    }

    fn entry(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &TreePath,
        depth: usize,
    ) -> Result<(), EntryError> {
        if self.entries >= MAX_ENTRIES || depth >= MAX_DEPTH {
            return Ok(());
        }
        let Ok(stat) = tree::stat(parent, name) else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let Ok(target) = rustix::fs::readlinkat(parent, name, Vec::new()) else { return Ok(()) };
                self.entries += 1;
                self.writer.symlink(path, target.as_bytes(), &dated(&stat, 0o777))
            }
            FileType::RegularFile => self.file(parent, name, path),
            FileType::Directory => self.directory(parent, name, path, depth),
            _ => Ok(()),
        }
    }

    fn file(&mut self, parent: BorrowedFd<'_>, name: &CStr, path: &TreePath) -> Result<(), EntryError> {
        // Never waits, should the name have become a pipe since it was looked at.
        let Some((file, stat)) = open(parent, name, OFlags::NONBLOCK) else { return Ok(()) };
        let limit = if name == c"ld.so.cache" { MAX_LIBRARY_CACHE } else { MAX_FILE };
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !regular || stat.st_mode & WORLD_READ == 0 || stat.st_size > limit {
            return Ok(());
        }
        self.entries += 1;
        let mut copy = self.writer.create_file(path)?;
        let mut bounded = io::Read::take(File::from(file), limit.unsigned_abs());
        io::copy(&mut bounded, &mut copy).map_err(|source| EntryError::Io { action: "copy", source })?;
        self.writer.finish_file(&copy, &dated(&stat, stat.st_mode & 0o755 | 0o600))
    }

    fn directory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &TreePath,
        depth: usize,
    ) -> Result<(), EntryError> {
        let Some((directory, stat)) = open(parent, name, OFlags::DIRECTORY) else { return Ok(()) };
        if stat.st_mode & WORLD_ENTER != WORLD_ENTER {
            return Ok(());
        }
        self.entries += 1;
        self.writer.directory(path, dated(&stat, 0o755))?;
        for name in tree::names(&directory)? {
            let child = path.join(OsStr::from_bytes(name.as_bytes()));
            self.entry(directory.as_fd(), &name, &child, depth + 1)?;
        }
        Ok(())
    }
}

fn open(parent: impl AsFd, name: &CStr, extra: OFlags) -> Option<(OwnedFd, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let fd = rustix::fs::openat(parent, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    Some((fd, stat))
}

fn dated(stat: &Stat, mode: u32) -> Attributes {
    Attributes { modified: tree::modified(stat), ..Attributes::root(mode) }
}
