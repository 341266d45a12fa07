//! Walks over a tree by descriptors. No link is followed, and what is found is never trusted to be
//! what an earlier look said.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Directory, EntryError};

/// The totals of a finished tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TreeTotals {
    pub(crate) entries: u64,
    pub(crate) size_bytes: u64,
}

/// Gives every directory its attributes, children first, since a write in a directory changes its
/// time and its final mode may forbid one. Directories are known by inode, so a path that now leads
/// elsewhere changes nothing.
pub(super) fn seal(
    directory: impl AsFd,
    known: &HashMap<u64, Directory>,
    totals: &mut TreeTotals,
    linked: &mut HashSet<u64>,
) -> Result<(), EntryError> {
    let directory = directory.as_fd();
    for name in names(directory)? {
        let stat = stat(directory, &name)?;
        totals.entries += 1;
        if stat.st_nlink < 2 || is_directory(&stat) || linked.insert(stat.st_ino) {
            totals.size_bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        }
        if is_directory(&stat) {
            seal(open_directory(directory, &name)?, known, totals, linked)?;
        }
    }
    let inode = rustix::fs::fstat(directory).map_err(EntryError::io("look at"))?.st_ino;
    known.get(&inode).map_or(Ok(()), |known| known.attributes.apply(directory))
}

/// Removes `name`, whatever it is; absent is fine.
pub(super) fn remove(parent: impl AsFd, name: &CStr) -> Result<(), EntryError> {
    let parent = parent.as_fd();
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(EntryError::io("remove")(error)),
    }
    empty(open_directory(parent, name)?)?;
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(EntryError::io("remove"))
}

/// Removes everything in `directory`.
pub(super) fn empty(directory: impl AsFd) -> Result<(), EntryError> {
    let directory = directory.as_fd();
    names(directory)?.iter().try_for_each(|name| remove(directory, name))
}

/// Removes what `keep` does not hold, at any depth. A directory stays while something in it stays.
pub(super) fn prune(directory: impl AsFd, keep: &HashSet<u64>) -> Result<(), EntryError> {
    let directory = directory.as_fd();
    for name in names(directory)? {
        let stat = stat(directory, &name)?;
        if !is_directory(&stat) {
            if !keep.contains(&stat.st_ino) {
                remove(directory, &name)?;
            }
            continue;
        }
        prune(open_directory(directory, &name)?, keep)?;
        if !keep.contains(&stat.st_ino) {
            match rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOTEMPTY) => {}
                Err(error) => return Err(EntryError::io("remove")(error)),
            }
        }
    }
    Ok(())
}

/// The names in a directory, sorted, read whole before anything changes it.
pub(crate) fn names(directory: impl AsFd) -> Result<Vec<CString>, EntryError> {
    let failed = EntryError::io("list");
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn stat(directory: impl AsFd, name: &CStr) -> Result<Stat, EntryError> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(EntryError::io("look at"))
}

pub(crate) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn open_directory(parent: impl AsFd, name: &CStr) -> Result<OwnedFd, EntryError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(EntryError::io("open"))
}
