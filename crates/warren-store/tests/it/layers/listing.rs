//! All that can be told of a tree, to be compared with another.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

pub(crate) type Listing = BTreeMap<PathBuf, Entry>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: FileType,
    mode: u32,
    owner: (u32, u32),
    device: u64,
    modified: (i64, u64),
    /// Reading a link changes it.
    accessed: Option<(i64, u64)>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Content,
    /// The first path of the same file, if there are several.
    same_as: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq)]
enum Content {
    None,
    Link(Vec<u8>),
    /// With the ranges that have data.
    File {
        bytes: Vec<u8>,
        data: Vec<(u64, u64)>,
    },
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::Link(goal) => write!(f, "-> {}", String::from_utf8_lossy(goal)),
            Self::File { bytes, data } => {
                let sum = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
                write!(f, "{} bytes, sum {sum:x}, data at {data:?}", bytes.len())
            }
        }
    }
}

/// Lists a tree without leaving a trace in it. Of what is trusted only the mark of an opaque
/// directory belongs to its state.
pub(crate) fn list(root: &Path) -> Listing {
    let mut listing = Listing::new();
    let mut firsts = HashMap::new();
    visit(root, Path::new(""), &mut listing, &mut firsts);
    listing
}

fn visit(root: &Path, path: &Path, listing: &mut Listing, firsts: &mut HashMap<u64, PathBuf>) {
    let full = root.join(path);
    let stat = rustix::fs::lstat(&full).unwrap();
    let kind = FileType::from_raw_mode(stat.st_mode);
    // Whiteouts may share an inode, as overlayfs has it, or not.
    let several = stat.st_nlink > 1 && !matches!(kind, FileType::Directory | FileType::CharacterDevice);
    let same_as = several.then(|| firsts.entry(stat.st_ino).or_insert_with(|| path.to_owned()).clone());
    let entry = Entry {
        kind,
        mode: stat.st_mode,
        owner: (stat.st_uid, stat.st_gid),
        device: stat.st_rdev,
        modified: (stat.st_mtime, stat.st_mtime_nsec),
        accessed: (kind != FileType::Symlink).then_some((stat.st_atime, stat.st_atime_nsec)),
        attributes: attributes(&full),
        content: content(&full, kind, &stat),
        same_as,
    };
    listing.insert(path.to_owned(), entry);
    if kind == FileType::Directory {
        let directory = open(&full, OFlags::DIRECTORY);
        let mut names: Vec<_> = Dir::read_from(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_owned())
            .filter(|name| name.as_c_str() != c"." && name.as_c_str() != c"..")
            .collect();
        names.sort();
        for name in names {
            let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.as_bytes());
            visit(root, &path.join(name), listing, firsts);
        }
    }
}

fn open(path: &Path, flags: OFlags) -> std::os::fd::OwnedFd {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::CLOEXEC | flags;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).unwrap()
}

fn content(path: &Path, kind: FileType, stat: &Stat) -> Content {
    match kind {
        FileType::Symlink => {
            Content::Link(rustix::fs::readlinkat(CWD, path, Vec::new()).unwrap().into_bytes())
        }
        FileType::RegularFile => {
            let file = open(path, OFlags::empty());
            let data = ranges(&file, stat.st_size.unsigned_abs());
            rustix::fs::seek(&file, SeekFrom::Start(0)).unwrap();
            let mut bytes = Vec::new();
            File::from(file).read_to_end(&mut bytes).unwrap();
            Content::File { bytes, data }
        }
        _ => Content::None,
    }
}

fn ranges(file: impl AsFd, size: u64) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut position = 0;
    while position < size {
        match rustix::fs::seek(&file, SeekFrom::Data(position)) {
            Ok(start) => {
                position = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap();
                ranges.push((start, position));
            }
            Err(Errno::NXIO) => break,
            Err(error) => panic!("{error}"),
        }
    }
    ranges
}

pub(crate) fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let of_state = |name: &[u8]| !name.starts_with(b"trusted.") || name == b"trusted.overlay.opaque";
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty() && of_state(name))
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            value.truncate(length);
            (name.to_owned(), value)
        })
        .collect()
}
