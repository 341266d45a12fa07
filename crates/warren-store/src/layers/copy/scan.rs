//! Looking at everything in a sandbox's writable directories, while programs may be changing it or
//! stand still.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::super::for_each_upper;
use super::super::walk::{self, Walk};
use super::attributes::{OPAQUE, REDIRECT};
use super::stamps::{Kind, MOST, Moment, Path, Stamp, Stamps};

/// Paths that are longer cannot be named to the kernel in one word.
const LONGEST_PATH: usize = 3800;
const BLOCK: u64 = 512;
/// How many entries are looked at between two looks at the clock.
const STRIDE: usize = 64;

/// Why a scan has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Failed(Errno),
    /// There are more entries than are remembered.
    Many,
    Deep,
    Late,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// Looks at all `upper-<n>` in a directory. What vanishes meanwhile is left out. `known` saves a
/// second look at directories that have not changed.
pub(super) fn scan(
    writable: BorrowedFd<'_>,
    known: Option<&Stamps>,
    deadline: Option<Instant>,
) -> Result<Stamps, Stop> {
    let mut uppers = Vec::new();
    for_each_upper(writable, |_, name| {
        uppers.push(name.to_owned());
        Ok(())
    })?;
    let mut scan = Scan { stamps: Stamps::new(), known, deadline };
    for name in uppers {
        scan.tree(writable, &name)?;
    }
    Ok(scan.stamps)
}

struct Scan<'a> {
    stamps: Stamps,
    known: Option<&'a Stamps>,
    deadline: Option<Instant>,
}

impl Scan<'_> {
    fn tree(&mut self, writable: BorrowedFd<'_>, name: &str) -> Result<(), Stop> {
        let root = walk::open(writable, name)?;
        let mut here = Path(name.as_bytes().to_vec());
        let stat = look(root.as_fd(), c"", AtFlags::EMPTY_PATH)?;
        let stamp = self.directory(&here, &stat, root.as_fd())?;
        let mut walk = Walk::new(root)?;
        let mut first = walk.next()?;
        // A writable layer that was only put there is no change. The root has one from the start.
        if first.is_none() && name != "upper-0" && is_untouched(&stat) && !self.knows(&here) {
            return Ok(());
        }
        self.note(here.clone(), stamp)?;
        loop {
            let Some(name) = (match first.take() {
                Some(name) => Some(name),
                None => walk.next()?,
            }) else {
                if !walk.leave()? {
                    return Ok(());
                }
                here = here.parent().unwrap_or(here);
                continue;
            };
            let Some(stat) = present(look(walk.directory()?, &name, AtFlags::SYMLINK_NOFOLLOW))? else {
                continue;
            };
            let path = here.join(name.to_bytes());
            if path.0.len() > LONGEST_PATH {
                return Err(Stop::Deep);
            }
            if kind_of(&stat) != FileType::Directory {
                self.note(path, entry(&stat))?;
            } else if present(walk.enter(&name))?.is_some() {
                let stamp = self.directory(&path, &stat, walk.directory()?)?;
                self.note(path.clone(), stamp)?;
                here = path;
            }
        }
    }

    fn knows(&self, path: &Path) -> bool {
        self.known.is_some_and(|known| known.entries.contains_key(path))
    }

    fn note(&mut self, path: Path, stamp: Stamp) -> Result<(), Stop> {
        self.stamps.entries.insert(path, stamp);
        let count = self.stamps.entries.len();
        if count > MOST {
            return Err(Stop::Many);
        }
        let late =
            count.is_multiple_of(STRIDE) && self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        if late { Err(Stop::Late) } else { Ok(()) }
    }

    fn directory(&self, path: &Path, stat: &Statx, open: BorrowedFd<'_>) -> Result<Stamp, Errno> {
        let birth = Moment { seconds: stat.stx_btime.tv_sec, nanoseconds: stat.stx_btime.tv_nsec };
        let born = (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then_some(birth);
        let mut stamp = Stamp { kind: Kind::Directory { born, opaque: false, moved: false }, ..entry(stat) };
        stamp.bytes = 0;
        let known = self.known.and_then(|known| known.entries.get(path));
        match known {
            Some(known) if known.is_same_directory(&stamp) && known.changed == stamp.changed => {
                stamp.kind = known.kind;
            }
            _ => {
                let (opaque, moved) = (has(open, OPAQUE)?, has(open, REDIRECT)?);
                stamp.kind = Kind::Directory { born, opaque, moved };
            }
        }
        Ok(stamp)
    }
}

/// True for a directory as it is made: root's, with the usual rights.
fn is_untouched(stat: &Statx) -> bool {
    (stat.stx_mode & 0o7777, stat.stx_uid, stat.stx_gid) == (0o755, 0, 0)
}

fn look(directory: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<Statx, Errno> {
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// Takes an entry that has gone since its name was read for absent, not for a failure.
fn present<T>(looked: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

fn kind_of(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

fn entry(stat: &Statx) -> Stamp {
    let whiteout =
        kind_of(stat) == FileType::CharacterDevice && (stat.stx_rdev_major, stat.stx_rdev_minor) == (0, 0);
    Stamp {
        kind: if whiteout { Kind::Whiteout } else { Kind::Other },
        inode: stat.stx_ino,
        changed: Moment { seconds: stat.stx_ctime.tv_sec, nanoseconds: stat.stx_ctime.tv_nsec },
        bytes: stat.stx_size.min(stat.stx_blocks.saturating_mul(BLOCK)),
    }
}

fn has(directory: BorrowedFd<'_>, attribute: &CStr) -> Result<bool, Errno> {
    match rustix::fs::fgetxattr(directory, attribute, &mut [0_u8; 0][..]) {
        Ok(_) | Err(Errno::RANGE) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The clock by which the kernel tells the time of a change. It moves in steps of some
/// milliseconds.
pub(super) fn clock_of_changes() -> Moment {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Moment { seconds: now.tv_sec, nanoseconds: u32::try_from(now.tv_nsec).unwrap_or(0) }
}
