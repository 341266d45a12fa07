//! The space that a layer alone takes, counted once.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use warren_core::{LayerError, LayerId, Space};

use super::LayerDirectory;
use super::failure::failed;
use super::manifest::replace;
use super::stand::upper;
use super::walk::{self, Walk, is_directory};

const FILE_NAME: &str = "space.json";
const FORMAT: u32 = 1;
const MAX_BYTES: u64 = 4096;
const BLOCK: u64 = 512;

#[derive(Serialize, Deserialize)]
struct Remembered {
    format: u32,
    #[serde(flatten)]
    space: Space,
}

pub(super) fn space(
    store: &LayerDirectory,
    id: &LayerId,
    most_entries: Option<u64>,
) -> Result<Option<Space>, LayerError> {
    let known = store.known(id)?;
    let directory = store.directory_of(id)?;
    if let Some(space) = remembered(directory.as_fd()) {
        return Ok(Some(space));
    }
    let mut count = Count { left: most_entries, ..Count::default() };
    for &tree in &known.trees {
        let root = walk::open(directory.as_fd(), upper(tree));
        let counted = root.and_then(|root| count.tree(root));
        if !counted.map_err(failed(format!("count the files of {id}")))? {
            return Ok(None);
        }
    }
    if let Ok(text) = serde_json::to_vec(&Remembered { format: FORMAT, space: count.space }) {
        // A disk that is full now costs another count later.
        drop(replace(directory.as_fd(), FILE_NAME, &text));
    }
    Ok(Some(count.space))
}

/// The remembered count. One that cannot be read is counted again: it is only ever a copy of what
/// the files tell.
fn remembered(directory: BorrowedFd<'_>) -> Option<Space> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, FILE_NAME, flags, Mode::empty()).ok()?;
    let mut text = Vec::new();
    File::from(file).take(MAX_BYTES).read_to_end(&mut text).ok()?;
    let remembered: Remembered = serde_json::from_slice(&text).ok()?;
    (remembered.format == FORMAT).then_some(remembered.space)
}

#[derive(Default)]
struct Count {
    space: Space,
    linked: HashSet<u64>,
    left: Option<u64>,
}

impl Count {
    /// Says whether it came to the end.
    fn tree(&mut self, root: OwnedFd) -> Result<bool, Errno> {
        let mut walk = Walk::new(root)?;
        self.add(&rustix::fs::fstat(walk.directory()?)?);
        loop {
            let Some(name) = walk.next()? else {
                if walk.leave()? {
                    continue;
                }
                return Ok(true);
            };
            if let Some(left) = &mut self.left {
                let Some(fewer) = left.checked_sub(1) else { return Ok(false) };
                *left = fewer;
            }
            let stat = rustix::fs::statat(walk.directory()?, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            self.add(&stat);
            if is_directory(&stat) {
                walk.enter(&name)?;
            }
        }
    }

    fn add(&mut self, stat: &Stat) {
        if stat.st_nlink < 2 || is_directory(stat) || self.linked.insert(stat.st_ino) {
            self.space.inodes += 1;
            self.space.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK;
        }
    }
}
