//! Stamps of a sandbox's writable directories at their last copy: enough to tell later which
//! entries changed.
//!
//! A file's inode and the time of its last change say whether it is the same, and no program can
//! set that time. A directory is known by its inode and its birth: an inode's number is soon used
//! again. Kept beside the layer that the copy became, and worth nothing after the machine was
//! started anew: overlays are mounted in a way that a power cut may cost them what they noted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};

use minicbor::{Decode, Encode};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

const FILE: &str = "stamps";
/// More than this many entries are not remembered: the next copy is then one of everything.
pub(super) const MOST: usize = 50_000;
const MOST_BYTES: u64 = 64 << 20;

/// A moment in seconds and nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub(super) struct Moment {
    #[n(0)]
    pub(super) seconds: i64,
    #[n(1)]
    pub(super) nanoseconds: u32,
}

/// The kind of an entry, as far as a copy cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) enum Kind {
    #[n(0)]
    Directory {
        /// When it was made; absent where the file system does not say.
        #[n(0)]
        born: Option<Moment>,
        /// It hides what is below it.
        #[n(1)]
        opaque: bool,
        /// It was renamed, and the layers below have it elsewhere.
        #[n(2)]
        moved: bool,
    },
    /// A removed name. The kernel makes many of one inode, whose time says nothing about any of
    /// them.
    #[n(1)]
    Whiteout,
    #[n(2)]
    Other,
}

/// One entry at one moment.
#[derive(Debug, Clone, Copy, Encode, Decode)]
pub(super) struct Stamp {
    #[n(0)]
    pub(super) kind: Kind,
    #[n(1)]
    pub(super) inode: u64,
    #[n(2)]
    pub(super) changed: Moment,
    /// The bytes that a copy of it holds.
    #[n(3)]
    pub(super) bytes: u64,
}

impl Stamp {
    /// True if nothing happened to the entry between the two.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (Kind::Whiteout, Kind::Whiteout) => true,
            (one, another) => one == another && (self.inode, self.changed) == (other.inode, other.changed),
        }
    }

    /// True if the two are the same directory, whatever happened to it.
    pub(super) fn is_same_directory(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (Kind::Directory { born: Some(one), .. }, Kind::Directory { born: Some(another), .. }) => {
                (one, self.inode) == (another, other.inode)
            }
            _ => false,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory { .. })
    }
}

/// All entries by their paths, beginning with the `upper-<n>`. A directory comes before what is in
/// it.
#[derive(Debug, Default, Encode, Decode)]
pub(super) struct Stamps {
    #[n(0)]
    boot: String,
    #[n(1)]
    pub(super) entries: BTreeMap<Path, Stamp>,
}

/// A path's bytes, which are no text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub(super) struct Path(#[cbor(n(0), with = "minicbor::bytes")] pub(super) Vec<u8>);

impl Path {
    pub(super) fn join(&self, name: &[u8]) -> Self {
        Self([&self.0, b"/".as_slice(), name].concat())
    }

    /// The directory it is in, and its name there; `None` for an `upper-<n>`.
    pub(super) fn split(&self) -> Option<(Self, &[u8])> {
        let at = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some((Self(self.0.get(..at)?.to_vec()), self.0.get(at + 1..)?))
    }

    pub(super) fn parent(&self) -> Option<Self> {
        self.split().map(|(parent, _)| parent)
    }
}

impl Stamps {
    pub(super) fn new() -> Self {
        Self { boot: this_boot(), entries: BTreeMap::new() }
    }

    /// Writes them into the directory of a layer.
    pub(super) fn save(&self, layer: BorrowedFd<'_>) -> std::io::Result<()> {
        let bytes = minicbor::to_vec(self).map_err(std::io::Error::other)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = rustix::fs::openat(layer, FILE, flags, Mode::RUSR | Mode::WUSR)?;
        std::io::Write::write_all(&mut fs::File::from(file), &bytes)
    }

    /// The stamps in the directory of a layer. Nothing rests on them: `None` for any reason.
    pub(super) fn load(layer: BorrowedFd<'_>) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(layer, FILE, flags, Mode::empty()).ok()?;
        let mut bytes = Vec::new();
        fs::File::from(file).take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        minicbor::decode::<Self>(&bytes).ok().filter(|stamps| stamps.boot == this_boot())
    }

    /// A later copy knows better.
    pub(super) fn forget(layer: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::unlinkat(layer.as_fd(), FILE, AtFlags::empty())
    }
}

fn this_boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_as_they_were_written_and_only_during_one_boot() {
        let place = tempfile::tempdir().unwrap();
        let directory = fs::File::open(place.path()).unwrap();
        assert!(Stamps::load(directory.as_fd()).is_none());
        let mut stamps = Stamps::new();
        let moment = Moment { seconds: 7, nanoseconds: 8 };
        let kind = Kind::Directory { born: Some(moment), opaque: true, moved: false };
        let stamp = Stamp { kind, inode: 3, changed: moment, bytes: 0 };
        stamps.entries.insert(Path(b"upper-0/\xff".to_vec()), stamp);
        stamps.save(directory.as_fd()).unwrap();
        let read = Stamps::load(directory.as_fd()).unwrap();
        let (path, found) = read.entries.first_key_value().unwrap();
        assert!(path.0 == b"upper-0/\xff" && found.is(&stamp) && found.is_same_directory(&stamp));
        stamps.boot = "another".to_owned();
        stamps.save(directory.as_fd()).unwrap();
        assert!(Stamps::load(directory.as_fd()).is_none());
        Stamps::forget(directory.as_fd()).unwrap();
        fs::write(place.path().join(FILE), "nonsense").unwrap();
        assert!(Stamps::load(directory.as_fd()).is_none());
    }

    #[test]
    fn a_number_that_is_used_again_is_another_directory() {
        let at = |seconds| Moment { seconds, nanoseconds: 0 };
        let made = |born| Stamp {
            kind: Kind::Directory { born, opaque: false, moved: false },
            inode: 3,
            changed: at(9),
            bytes: 0,
        };
        assert!(made(Some(at(1))).is_same_directory(&made(Some(at(1)))));
        assert!(!made(Some(at(1))).is_same_directory(&made(Some(at(2)))));
        assert!(!made(None).is_same_directory(&made(None)), "nobody knows");
    }
}
