//! Walks a tree by descriptors, however deep and wide it is: few are open at a time, and of a
//! directory only the position in it is remembered. No link is followed. Nobody may change the tree
//! meanwhile.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::remove::is_dot;
use super::staging::DIRECTORY;

/// How many directories stay open above the current one. Those further up are opened again when
/// their turn comes.
const WINDOW: usize = 32;

/// Where a walk is.
#[derive(Debug)]
pub(super) struct Walk {
    above: Vec<Level>,
    current: Level<Dir>,
}

#[derive(Debug)]
struct Level<D = Option<Dir>> {
    directory: D,
    /// Behind the last entry that was read.
    position: i64,
    identity: (u64, u64),
}

impl Walk {
    pub(super) fn new(root: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { above: Vec::new(), current: Level::of(root)? })
    }

    pub(super) fn directory(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.current.directory.fd()
    }

    /// The next name in the current directory.
    pub(super) fn next(&mut self) -> Result<Option<CString>, Errno> {
        while let Some(entry) = self.current.directory.read() {
            let entry = entry?;
            self.current.position = entry.offset();
            if !is_dot(entry.file_name()) {
                return Ok(Some(entry.file_name().to_owned()));
            }
        }
        Ok(None)
    }

    /// Goes into a directory in the current one.
    pub(super) fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        let below = Level::of(open(self.directory()?, name)?)?;
        let Level { directory, position, identity } = std::mem::replace(&mut self.current, below);
        self.above.push(Level { directory: Some(directory), position, identity });
        if let Some(far) = self.above.len().checked_sub(WINDOW + 1).and_then(|far| self.above.get_mut(far)) {
            far.directory = None;
        }
        Ok(())
    }

    /// Goes back to where the current directory is in. Says no at the root, and stays.
    pub(super) fn leave(&mut self) -> Result<bool, Errno> {
        let Some(Level { directory, position, identity }) = self.above.pop() else { return Ok(false) };
        self.current = match directory {
            Some(directory) => Level { directory, position, identity },
            None => {
                let mut back = Level::of(open(self.directory()?, c"..")?)?;
                if back.identity != identity {
                    return Err(Errno::STALE);
                }
                back.directory.seek(position)?;
                Level { position, ..back }
            }
        };
        Ok(true)
    }
}

impl Level<Dir> {
    fn of(directory: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&directory)?;
        Ok(Self { directory: Dir::new(directory)?, position: 0, identity: (stat.st_dev, stat.st_ino) })
    }
}

/// Opens a directory without leaving a trace in it.
pub(super) fn open(parent: BorrowedFd<'_>, name: impl Arg) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, DIRECTORY | OFlags::NOATIME, Mode::empty())
}

pub(super) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}
