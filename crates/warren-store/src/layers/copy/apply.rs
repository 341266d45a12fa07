//! Carrying out a plan in the directory of a layer in the making, twice if need be: first while
//! programs may still write, as far as that goes, and then again while they stand still, for what
//! changed in between.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;

use super::super::staging::{DIRECTORY, Staged};
use super::Copier;
use super::attributes::OPAQUE;
use super::plan::{Item, Plan, What};
use super::stamps::{Moment, Path, Stamp};

/// A layer that is filled by plans.
pub(super) struct Filling<'a> {
    writable: BorrowedFd<'a>,
    pub(super) staged: Staged<'a>,
    pub(super) copier: Copier,
    /// The entries in the layer so far. Directories on the way to something have no stamp.
    done: BTreeMap<Path, Done>,
}

#[derive(Debug, Clone, Copy)]
struct Done {
    directory: bool,
    stamp: Option<Stamp>,
}

/// Why a plan was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    Failed(Errno),
    Late,
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

impl<'a> Filling<'a> {
    pub(super) fn new(writable: BorrowedFd<'a>, staged: Staged<'a>) -> Result<Self, Errno> {
        let copier = Copier::new(&staged)?;
        Ok(Self { writable, staged, copier, done: BTreeMap::new() })
    }

    /// Copies files ahead of time. A file that changed at `before` or later may change once more
    /// without its time telling, so it is left for later; so is what vanishes or turns into
    /// something else meanwhile.
    pub(super) fn ahead(&mut self, plan: &Plan, before: Moment) -> Result<(), Errno> {
        for (path, item) in &plan.items {
            let steady = item.stamp.is_some_and(|stamp| stamp.changed < before);
            if item.what != What::Entry || !steady {
                continue;
            }
            match self.make(path, item) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::XDEV) => {
                    self.unmake(path)?;
                }
                made => made?,
            }
        }
        Ok(())
    }

    /// Makes the layer what the plan says, whatever is there. Nobody writes to the original.
    pub(super) fn finish(&mut self, plan: &Plan, deadline: Option<Instant>) -> Result<(), Halt> {
        self.take_back(plan)?;
        for (path, item) in &plan.items {
            let done = self.done.get(path).is_some_and(|done| done.stamp.is_some());
            if !done {
                self.make(path, item)?;
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(Halt::Late);
            }
        }
        Ok(self.describe(plan)?)
    }

    /// Removes what was made ahead and is not, or no longer, as the plan has it.
    fn take_back(&mut self, plan: &Plan) -> Result<(), Errno> {
        let stale: Vec<Path> = self
            .done
            .iter()
            .rev()
            .filter(|(path, done)| !is_wanted(path, done, plan))
            .map(|(path, _)| path.clone())
            .collect();
        stale.iter().try_for_each(|path| self.unmake(path))
    }

    fn make(&mut self, path: &Path, item: &Item) -> Result<(), Errno> {
        let Some((parent, name)) = path.split() else { return self.make_directory(path, item.stamp) };
        if item.what.is_directory() {
            return self.make_directory(path, item.stamp);
        }
        self.make_directory(&parent, None)?;
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let to = open(self.staged.directory(), &parent)?;
        if item.what == What::Vanished {
            rustix::fs::mknodat(&to, &name, FileType::CharacterDevice, Mode::empty(), 0)?;
        } else {
            // Noted first: what fails half way is to be removed.
            self.done.insert(path.clone(), Done { directory: false, stamp: None });
            let from = open(self.writable, &parent)?;
            let stat = rustix::fs::statat(&from, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            self.copier.entry(from.as_fd(), to.as_fd(), &name, &stat)?;
        }
        self.done.insert(path.clone(), Done { directory: false, stamp: item.stamp });
        Ok(())
    }

    /// Makes a directory and those on the way to it.
    fn make_directory(&mut self, path: &Path, stamp: Option<Stamp>) -> Result<(), Errno> {
        if !self.done.contains_key(path) {
            if let Some(parent) = path.parent() {
                self.make_directory(&parent, None)?;
            }
            rustix::fs::mkdirat(self.staged.directory(), path.0.as_slice(), Mode::RWXU)?;
        }
        let done = self.done.entry(path.clone()).or_insert(Done { directory: true, stamp });
        done.stamp = stamp.or(done.stamp);
        Ok(())
    }

    fn unmake(&mut self, path: &Path) -> Result<(), Errno> {
        let Some(done) = self.done.remove(path) else { return Ok(()) };
        let flags = if done.directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        if let Some(stamp) = done.stamp {
            self.copier.forget(stamp.inode)?;
        }
        match rustix::fs::unlinkat(self.staged.directory(), path.0.as_slice(), flags) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed,
        }
    }

    /// Gives directories what they have beside their entries, the innermost first: making something
    /// in one changes its time.
    fn describe(&mut self, plan: &Plan) -> Result<(), Errno> {
        for (path, _) in self.done.iter().rev().filter(|(_, done)| done.directory) {
            let (from, to) = (open(self.writable, path)?, open(self.staged.directory(), path)?);
            match plan.items.get(path).map(|item| item.what) {
                Some(What::Fresh { hide }) => {
                    if hide {
                        rustix::fs::fsetxattr(&to, OPAQUE, b"y", XattrFlags::empty())?;
                    }
                    self.copier.attributes.copy(from.as_fd(), to.as_fd())?;
                }
                _ => self.copier.attributes.copy_unmarked(from.as_fd(), to.as_fd())?,
            }
        }
        Ok(())
    }
}

fn is_wanted(path: &Path, done: &Done, plan: &Plan) -> bool {
    let item = plan.items.get(path);
    if done.directory {
        return item.is_some_and(|item| item.what.is_directory()) || item.is_none() && plan.goes_into(path);
    }
    let stamps = item.filter(|item| item.what == What::Entry).and_then(|item| item.stamp).zip(done.stamp);
    stamps.is_some_and(|(now, then)| now.is(&then))
}

/// A directory below a root, which no link leads to.
fn open(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path.0.as_slice(), DIRECTORY | OFlags::NOATIME, Mode::empty(), resolve)
}
