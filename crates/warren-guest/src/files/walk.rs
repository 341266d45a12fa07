//! The walk over a directory tree that listing, searching and watching share: depth first, by name
//! within a directory, links not followed, with memory bounded whatever the tree looks like.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom};
use rustix::io::Errno;

use super::descent::Descent;
use super::entry::file_type;

/// Bytes of names one walk holds. A directory with more is read again for each further part:
/// slower, but the order stays and the memory is bounded.
const HELD_BYTES: usize = 8 * 1024 * 1024;

/// Directories whose relative path is longer are told but not entered, so that an entry fits a
/// frame.
const PATH_BYTES: usize = 64 * 1024;

/// A name's cost beside its bytes, roughly.
const NAME_OVERHEAD: usize = 64;

pub(super) struct Walk {
    descent: Descent,
    levels: Vec<Level>,
    /// Relative to the top, of the entry told last.
    path: Vec<u8>,
    depth: u32,
    held: usize,
    /// The directory told last, to be entered next.
    entering: Option<CString>,
}

/// One entry, usable until the walk goes on.
pub(super) struct Found<'a> {
    pub(super) directory: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    pub(super) kind: FileType,
    /// Relative to the top.
    pub(super) path: &'a [u8],
}

/// A directory in progress.
#[derive(Default)]
struct Level {
    names: BTreeMap<CString, FileType>,
    current: CString,
    /// Set if the directory holds names beyond the last of `names`.
    more: bool,
    path_length: usize,
}

impl Walk {
    /// Walks what is in `top`, down to `depth` levels; 1 is the directory's own entries.
    pub(super) fn new(top: OwnedFd, depth: u32) -> Result<Self, Errno> {
        let mut walk = Self {
            descent: Descent::new(top),
            levels: Vec::new(),
            path: Vec::new(),
            depth,
            held: 0,
            entering: None,
        };
        walk.open_level()?;
        Ok(walk)
    }

    /// The next entry. Directories that cannot be read are told and passed over.
    pub(super) fn next(&mut self) -> Option<Found<'_>> {
        if let Some(name) = self.entering.take() {
            self.enter(&name);
        }
        let kind = loop {
            match self.advance() {
                Some(kind) => break kind,
                None => self.leave()?,
            }
        };
        let level = self.levels.last()?;
        if kind == FileType::Directory && self.may_enter() {
            self.entering = Some(level.current.clone());
        }
        let directory = self.descent.directory().ok()?;
        Some(Found { directory, name: &level.current, kind, path: &self.path })
    }

    /// Passes over the content of the directory told last.
    pub(super) fn skip(&mut self) {
        self.entering = None;
    }

    fn may_enter(&self) -> bool {
        u32::try_from(self.levels.len()).is_ok_and(|level| level < self.depth) && self.path.len() < PATH_BYTES
    }

    fn enter(&mut self, name: &CStr) {
        if self.descent.enter(name).is_ok() && self.open_level().is_err() {
            self.descent.leave();
        }
    }

    fn open_level(&mut self) -> Result<(), Errno> {
        let mut level = Level { path_length: self.path.len(), ..Level::default() };
        self.held += fill(self.descent.directory()?, &mut level, HELD_BYTES.saturating_sub(self.held))?;
        self.levels.push(level);
        Ok(())
    }

    /// Moves to the next name of the lowest directory; `None` when it has no more.
    fn advance(&mut self) -> Option<FileType> {
        let level = self.levels.last_mut()?;
        // A directory that was moved away while its content was walked has nothing more to tell.
        let directory = self.descent.directory().ok()?;
        if level.names.is_empty() && level.more {
            self.held += fill(directory, level, HELD_BYTES.saturating_sub(self.held)).ok()?;
        }
        let (name, kind) = level.names.pop_first()?;
        self.held = self.held.saturating_sub(cost(&name));
        self.path.truncate(level.path_length);
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
        level.current = name;
        if kind != FileType::Unknown {
            return Some(kind);
        }
        // Not every file system tells the kind with the name.
        let stat = rustix::fs::statat(directory, &*level.current, AtFlags::SYMLINK_NOFOLLOW);
        Some(stat.map_or(FileType::Unknown, |stat| file_type(&stat)))
    }

    fn leave(&mut self) -> Option<()> {
        let level = self.levels.pop()?;
        self.held = self.held.saturating_sub(level.names.keys().map(|name| cost(name)).sum());
        self.descent.leave().map(drop)
    }
}

/// Fills a level with the names that follow its current one: the first in order that cost no more
/// than `budget`, and one at least. Gives their cost.
fn fill(directory: BorrowedFd<'_>, level: &mut Level, budget: usize) -> Result<usize, Errno> {
    rustix::fs::seek(directory, SeekFrom::Start(0))?;
    level.more = false;
    let mut held = 0;
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") || name <= level.current.as_c_str() {
            continue;
        }
        held += cost(name);
        level.names.insert(name.to_owned(), entry.file_type());
        while held > budget && level.names.len() > 1 {
            let dropped = level.names.pop_last();
            held = held.saturating_sub(dropped.map_or(0, |(name, _)| cost(&name)));
            level.more = true;
        }
    }
    Ok(held)
}

fn cost(name: &CStr) -> usize {
    name.count_bytes() + NAME_OVERHEAD
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_directory_larger_than_the_budget_is_read_in_order_and_in_parts() {
        let scratch = crate::files::tests::Scratch::new();
        for number in 0..300 {
            std::fs::write(scratch.at(&format!("{number:03}")), "").unwrap();
        }
        let directory = std::fs::File::open(scratch.at(".")).unwrap();
        for budget in [0, 1000, 1 << 20] {
            let mut level = Level::default();
            let mut seen = Vec::new();
            let mut parts = 0;
            while parts == 0 || level.more {
                let held = fill(directory.as_fd(), &mut level, budget).unwrap();
                assert!(held <= budget.max(NAME_OVERHEAD + 3));
                while let Some((name, _)) = level.names.pop_first() {
                    seen.push(name.to_str().unwrap().parse::<u32>().unwrap());
                    level.current = name;
                }
                parts += 1;
            }
            assert!(seen.iter().copied().eq(0..300), "{budget}: {seen:?}");
        }
    }
}
