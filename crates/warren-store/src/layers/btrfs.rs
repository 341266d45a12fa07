use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::AtomicBool;

use rustix::fs::{Dir, FsWord};
use rustix::io::Errno;

use super::remove::{is_dot, remove_tree};
use super::stand::tree_number;
use super::sys;

const MAGIC: FsWord = 0x9123_683E;
/// The inode number of the root of every subvolume, and of nothing else.
const SUBVOLUME_ROOT: u64 = 256;

pub(super) fn is_btrfs(directory: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(directory).is_ok_and(|disk| disk.f_type == MAGIC)
}

pub(super) fn is_subvolume(directory: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(directory).is_ok_and(|stat| stat.st_ino == SUBVOLUME_ROOT) && is_btrfs(directory)
}

pub(super) fn destroy(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    sys::destroy(parent, name)
}

/// Makes `name` in `parent` a snapshot of a sandbox's area. Says no if that area and the parent are
/// not on one btrfs.
pub(super) fn snapshot(source: BorrowedFd<'_>, parent: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    if !is_subvolume(source) || !is_btrfs(parent) {
        return Ok(false);
    }
    match sys::snapshot(source, parent, &CString::new(name).map_err(|_| Errno::INVAL)?) {
        Ok(()) => Ok(true),
        Err(Errno::XDEV) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Leaves of a sandbox's area what makes a layer.
pub(super) fn keep_uppers(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let never = AtomicBool::new(false);
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dot(name) {
            continue;
        }
        // Areas are made by the host: a name that is no text is not one of its own.
        let name = name.to_str().map_err(|_| Errno::INVAL)?;
        if tree_number(name.as_ref()).is_none() {
            remove_tree(directory.as_fd(), name, &never)?;
        }
    }
    Ok(())
}
