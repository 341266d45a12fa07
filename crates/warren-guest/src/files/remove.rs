//! Removing a file or a whole tree.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use warren_wire::guest::{Failure, FailureCode};

use super::descent::Descent;
use super::entry::file_type;
use super::failure::{denied, refused};
use super::place::{Place, open_path};

/// Subdirectories of one directory that are remembered at a time.
const PENDING: usize = 128;

/// Rounds over one directory that others keep filling.
const ROUNDS: u32 = 100_000;

/// A directory being cleared.
#[derive(Default)]
struct Level {
    subdirectories: Vec<CString>,
    rounds: u32,
}

pub(super) fn remove(place: &Place, recursive: bool) -> Result<(), Failure> {
    let refuse = |errno| refused("remove", place.path(), errno);
    let stat = rustix::fs::lstat(place.path()).map_err(refuse)?;
    let root = rustix::fs::stat("/").map_err(refuse)?;
    let Some((parent, name)) =
        place.split().filter(|_| (stat.st_dev, stat.st_ino) != (root.st_dev, root.st_ino))
    else {
        return Err(denied(FailureCode::Invalid, "remove", place.path(), "this directory cannot be removed"));
    };
    let parent = open_path(parent).map_err(refuse)?;
    if file_type(&stat) != FileType::Directory {
        return rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(refuse);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) if recursive => {}
        // Some file systems say it in another way.
        Err(Errno::EXIST) => return Err(refuse(Errno::NOTEMPTY)),
        outcome => return outcome.map_err(refuse),
    }
    rustix::fs::openat(&parent, name, flags, Mode::empty())
        .and_then(|top| clear(&mut Descent::new(top)))
        .and_then(|()| rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR))
        // Someone else may have removed the same tree at the same time.
        .or_else(|errno| if errno == Errno::NOENT { Ok(()) } else { Err(errno) })
        .map_err(refuse)
}

/// Removes everything below, and stops at the first thing that cannot be removed.
fn clear(descent: &mut Descent) -> Result<(), Errno> {
    let mut levels = vec![Level::default()];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.subdirectories.pop() {
            if !remove_empty(descent.directory()?, &name)? {
                match descent.enter(&name) {
                    Ok(()) => levels.push(Level::default()),
                    // Removed or exchanged by someone else meanwhile: the next round sees what is
                    // there.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(errno) => return Err(errno),
                }
            }
            continue;
        }
        level.rounds += 1;
        if level.rounds > ROUNDS {
            return Err(Errno::NOTEMPTY);
        }
        if sweep(descent.directory()?, &mut level.subdirectories)? {
            continue;
        }
        levels.pop();
        if let Some(name) = descent.leave() {
            // Filled again in between: the level above finds it on its next round.
            remove_empty(descent.directory()?, &name)?;
        }
    }
    Ok(())
}

/// Unlinks what is not a directory and remembers some directories; tells whether anything was
/// there.
fn sweep(directory: BorrowedFd<'_>, subdirectories: &mut Vec<CString>) -> Result<bool, Errno> {
    rustix::fs::seek(directory, SeekFrom::Start(0))?;
    let mut any = false;
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            // The directory itself was removed by someone else.
            Err(Errno::NOENT) => break,
            entry => entry?,
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        any = true;
        if entry.file_type() == FileType::Directory || !unlink(directory, name)? {
            subdirectories.push(name.to_owned());
            if subdirectories.len() == PENDING {
                break;
            }
        }
    }
    Ok(any)
}

/// Unlinks `name`; `false` if it is a directory.
fn unlink(directory: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Removes the directory `name`; `false` if it is not empty.
fn remove_empty(directory: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        // Exchanged for something else since it was listed.
        Err(Errno::NOTDIR) => unlink(directory, name),
        Err(errno) => Err(errno),
    }
}
