//! A way down into a directory tree of any depth, with a bounded number of open directories.
//!
//! Paths cannot name what lies deeper than the kernel's path limit, and one descriptor per level
//! would exhaust the agent's table. So only the lowest levels stay open; on the way up a closed one
//! is opened again through `..`, and its identity is compared, since the tree may be moved while it
//! is walked. Links are never followed.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Levels that stay open.
const OPEN_LEVELS: usize = 32;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// Device and inode.
type FileId = (u64, u64);

pub(super) struct Descent {
    top: OwnedFd,
    levels: Vec<Level>,
}

struct Level {
    name: CString,
    id: FileId,
    fd: Option<OwnedFd>,
}

impl Descent {
    pub(super) fn new(top: OwnedFd) -> Self {
        Self { top, levels: Vec::new() }
    }

    /// The directory stood in. It is stale after a way up that failed; one can then only go further
    /// up.
    pub(super) fn directory(&self) -> Result<BorrowedFd<'_>, Errno> {
        match self.levels.last() {
            Some(level) => level.fd.as_ref().map(AsFd::as_fd).ok_or(Errno::STALE),
            None => Ok(self.top.as_fd()),
        }
    }

    /// Goes down into `name`.
    pub(super) fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        let fd = rustix::fs::openat(self.directory()?, name, DIRECTORY, Mode::empty())?;
        let id = file_id(&fd)?;
        self.levels.push(Level { name: name.to_owned(), id, fd: Some(fd) });
        let closing = self.levels.len().checked_sub(OPEN_LEVELS + 1);
        if let Some(level) = closing.and_then(|index| self.levels.get_mut(index)) {
            level.fd = None;
        }
        Ok(())
    }

    /// Goes up one level and gives the name of the directory left; `None` at the top.
    pub(super) fn leave(&mut self) -> Option<CString> {
        let left = self.levels.pop()?;
        if self.levels.last().is_some_and(|level| level.fd.is_none()) {
            let reopened = self.reopen(left.fd.as_ref());
            if let Some(level) = self.levels.last_mut() {
                level.fd = reopened;
            }
        }
        Some(left.name)
    }

    fn reopen(&self, child: Option<&OwnedFd>) -> Option<OwnedFd> {
        let id = self.levels.last()?.id;
        let same = |fd: &OwnedFd| file_id(fd) == Ok(id);
        let parent = child.and_then(|child| rustix::fs::openat(child, c"..", DIRECTORY, Mode::empty()).ok());
        parent.filter(same).or_else(|| self.open_from_top().filter(same))
    }

    /// The slow way to the lowest level, for a child that was moved or cannot be searched.
    fn open_from_top(&self) -> Option<OwnedFd> {
        let mut fd = self.top.try_clone().ok()?;
        for level in &self.levels {
            fd = rustix::fs::openat(&fd, &*level.name, DIRECTORY, Mode::empty()).ok()?;
        }
        Some(fd)
    }
}

fn file_id(fd: &OwnedFd) -> Result<FileId, Errno> {
    rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino))
}
