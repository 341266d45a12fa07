//! Removes a tree of any shape with a handful of descriptors and no memory to speak of: a directory
//! that is not empty is moved up to the top before its turn comes, so no chain of directories is
//! ever climbed.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Dir, Mode, RenameFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use super::btrfs;
use super::staging::DIRECTORY;

/// Removes `name` and all below it; absent is fine. Gives up with `EINTR` when told to stop.
pub(super) fn remove_tree(parent: BorrowedFd<'_>, name: &str, stop: &AtomicBool) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    let Some(top) = open(parent, name)? else { return Ok(()) };
    if btrfs::is_subvolume(top.as_fd())
        && btrfs::destroy(parent, &CString::new(name).map_err(|_| Errno::INVAL)?).is_ok()
    {
        return Ok(());
    }
    Flattening { top, stop, moved: 0, word: getrandom::u64().unwrap_or(0) }.run()?;
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

struct Flattening<'a> {
    top: OwnedFd,
    stop: &'a AtomicBool,
    moved: u64,
    /// Tells the names it gives from those that an interrupted removal gave.
    word: u64,
}

impl Flattening<'_> {
    /// Removes everything. Entries that are moved to the top may or may not be seen by the pass
    /// under way, so passes go on until one sees nothing.
    fn run(&mut self) -> Result<(), Errno> {
        loop {
            let mut seen = 0_u64;
            let mut stuck = 0_u64;
            for entry in Dir::read_from(&self.top)? {
                let entry = entry?;
                if is_dot(entry.file_name()) {
                    continue;
                }
                seen += 1;
                stuck += u64::from(!self.entry(entry.file_name())?);
            }
            if seen == 0 {
                return Ok(());
            }
            if stuck == seen {
                return Err(Errno::NOTEMPTY);
            }
        }
    }

    /// Removes one entry of the top. Says whether that changed anything.
    fn entry(&mut self, name: &CStr) -> Result<bool, Errno> {
        if unlink(self.top.as_fd(), name)? {
            return Ok(true);
        }
        let Some(directory) = open(self.top.as_fd(), name)? else { return Ok(true) };
        // Nothing can be moved out of a subvolume.
        if btrfs::is_subvolume(directory.as_fd()) && btrfs::destroy(self.top.as_fd(), name).is_ok() {
            return Ok(true);
        }
        let mut changed = false;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(Errno::INTR);
            }
            if !is_dot(entry.file_name()) {
                self.lift(directory.as_fd(), entry.file_name())?;
                changed = true;
            }
        }
        match rustix::fs::unlinkat(&self.top, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY) => Ok(changed),
            Err(error) => Err(error),
        }
    }

    /// Removes an entry of a directory, or moves it to the top if there is something in it.
    fn lift(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        if unlink(directory, name)? {
            return Ok(());
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY) => {}
            Err(error) => return Err(error),
        }
        loop {
            self.moved += 1;
            let aside = format!(".{:016x}-{}", self.word, self.moved);
            match rustix::fs::renameat_with(directory, name, &self.top, &aside, RenameFlags::NOREPLACE) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Opens a directory, unless it is gone: another process may be removing the same tree.
fn open(parent: BorrowedFd<'_>, name: impl Arg) -> Result<Option<OwnedFd>, Errno> {
    match rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes what is not a directory. Says whether it was none.
fn unlink(directory: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn is_dot(name: &CStr) -> bool {
    name == c"." || name == c".."
}
