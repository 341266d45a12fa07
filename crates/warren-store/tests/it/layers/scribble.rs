//! Random things that a sandbox may do to its files, and overlayfs on its behalf.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};

const BLOCK: u64 = 4096;

/// One change. What cannot be done, because a name is missing or taken, is not.
#[derive(Debug, Clone)]
pub(crate) enum Scribble {
    Write { at: PathBuf, block: u64, length: u16, byte: u8 },
    Truncate { at: PathBuf, blocks: u64 },
    Directory { at: PathBuf },
    Symlink { at: PathBuf, goal: PathBuf },
    Link { from: PathBuf, at: PathBuf },
    Fifo { at: PathBuf },
    Socket { at: PathBuf },
    Whiteout { at: PathBuf },
    Opaque { at: PathBuf },
    Mark { at: PathBuf, name: &'static str, value: Vec<u8> },
    Capability { at: PathBuf },
    AccessList { at: PathBuf, default: bool, user: u32 },
    Mode { at: PathBuf, mode: u32 },
    Owner { at: PathBuf, uid: u32, gid: u32 },
    Times { at: PathBuf, accessed: i64, modified: i64, nanoseconds: i64 },
    Rename { from: PathBuf, at: PathBuf },
    Remove { at: PathBuf },
}

pub(crate) fn scribbles() -> impl Strategy<Value = Vec<Scribble>> {
    prop::collection::vec(scribble(), 1..80)
}

fn scribble() -> impl Strategy<Value = Scribble> {
    let block = prop_oneof![0..4_u64, Just(100), Just(1000)];
    let value = prop::collection::vec(any::<u8>(), 0..600);
    let names = prop_oneof![
        Just("user.note"),
        Just("user.overlay.opaque"),
        Just("trusted.overlay.origin"),
        Just("trusted.overlay.impure"),
        Just("trusted.mine"),
    ];
    prop_oneof![
        6 => (path(), block, 1..6000_u16, any::<u8>())
            .prop_map(|(at, block, length, byte)| Scribble::Write { at, block, length, byte }),
        1 => (path(), 0..40_u64).prop_map(|(at, blocks)| Scribble::Truncate { at, blocks }),
        6 => path().prop_map(|at| Scribble::Directory { at }),
        2 => (path(), goal()).prop_map(|(at, goal)| Scribble::Symlink { at, goal }),
        3 => (path(), path()).prop_map(|(from, at)| Scribble::Link { from, at }),
        1 => path().prop_map(|at| Scribble::Fifo { at }),
        1 => path().prop_map(|at| Scribble::Socket { at }),
        2 => path().prop_map(|at| Scribble::Whiteout { at }),
        2 => path().prop_map(|at| Scribble::Opaque { at }),
        3 => (path(), names, value).prop_map(|(at, name, value)| Scribble::Mark { at, name, value }),
        1 => path().prop_map(|at| Scribble::Capability { at }),
        2 => (path(), any::<bool>(), 0..65_536_u32)
            .prop_map(|(at, default, user)| Scribble::AccessList { at, default, user }),
        2 => (path(), 0..0o10000_u32).prop_map(|(at, mode)| Scribble::Mode { at, mode }),
        2 => (path(), 0..65_536_u32, 0..65_536_u32).prop_map(|(at, uid, gid)| Scribble::Owner { at, uid, gid }),
        2 => (path(), 0..4_000_000_000_i64, 0..4_000_000_000_i64, 0..1_000_000_000_i64).prop_map(
            |(at, accessed, modified, nanoseconds)| Scribble::Times { at, accessed, modified, nanoseconds }
        ),
        2 => (path(), path()).prop_map(|(from, at)| Scribble::Rename { from, at }),
        1 => path().prop_map(|at| Scribble::Remove { at }),
    ]
}

/// Few names, so that changes meet; one of them is no text.
fn path() -> impl Strategy<Value = PathBuf> {
    let name = prop::sample::select(vec![&b"a"[..], b"b", b"c d", b"\xff\n"]);
    let tree = prop_oneof![4 => Just("upper-0"), 1 => Just("upper-1")];
    (tree, prop::collection::vec(name, 0..4)).prop_map(|(tree, names)| {
        names.iter().fold(PathBuf::from(tree), |path, name| path.join(OsStr::from_bytes(name)))
    })
}

/// None that exists leads out of the tree: changes are made by path, and would follow it.
fn goal() -> impl Strategy<Value = PathBuf> {
    prop_oneof![Just("a".into()), Just("/nowhere".into()), Just("../nowhere/../..".into()), Just("\n".into())]
}

pub(crate) fn apply(area: &Path, scribbles: &[Scribble]) {
    for scribble in scribbles {
        drop(attempt(area, scribble));
    }
}

fn attempt(area: &Path, scribble: &Scribble) -> io::Result<()> {
    let place = |at: &PathBuf| area.join(at);
    match scribble {
        Scribble::Write { at, block, length, byte } => {
            // A link must not lead out of the area.
            if place(at).is_symlink() || fs::metadata(place(at)).is_ok_and(|found| !found.is_file()) {
                return Ok(());
            }
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(place(at))?;
            file.write_all_at(&vec![*byte; usize::from(*length)], block * BLOCK)
        }
        Scribble::Truncate { at, blocks } => {
            let plain = fs::symlink_metadata(place(at)).is_ok_and(|found| found.is_file());
            if plain {
                File::options().write(true).open(place(at))?.set_len(blocks * BLOCK + 7)
            } else {
                Ok(())
            }
        }
        Scribble::Directory { at } => fs::create_dir(place(at)),
        Scribble::Symlink { at, goal } => symlink(goal, place(at)),
        Scribble::Link { from, at } => fs::hard_link(place(from), place(at)),
        Scribble::Fifo { at } => node(&place(at), FileType::Fifo),
        Scribble::Socket { at } => UnixListener::bind(place(at)).map(drop),
        Scribble::Whiteout { at } => node(&place(at), FileType::CharacterDevice),
        Scribble::Opaque { at } => mark(&place(at), "trusted.overlay.opaque", b"y"),
        Scribble::Mark { at, name, value } => mark(&place(at), name, value),
        Scribble::Capability { at } => {
            let net_bind = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            mark(&place(at), "security.capability", &net_bind)
        }
        Scribble::AccessList { at, default, user } => {
            let name = if *default { "system.posix_acl_default" } else { "system.posix_acl_access" };
            mark(&place(at), name, &access_list(*user))
        }
        Scribble::Mode { at, mode } => {
            let link = place(at).is_symlink();
            if link { Ok(()) } else { fs::set_permissions(place(at), fs::Permissions::from_mode(*mode)) }
        }
        Scribble::Owner { at, uid, gid } => {
            let (uid, gid) = (Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)));
            Ok(rustix::fs::chownat(CWD, place(at), uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
        }
        Scribble::Times { at, accessed, modified, nanoseconds } => {
            let time = |seconds: &i64| Timespec { tv_sec: *seconds, tv_nsec: *nanoseconds };
            let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
            Ok(rustix::fs::utimensat(CWD, place(at), &times, AtFlags::SYMLINK_NOFOLLOW)?)
        }
        // The trees themselves stay.
        Scribble::Rename { from, at } if is_tree(from) || is_tree(at) => Ok(()),
        Scribble::Rename { from, at } => fs::rename(place(from), place(at)),
        Scribble::Remove { at } if is_tree(at) => Ok(()),
        Scribble::Remove { at } => fs::remove_file(place(at)).or_else(|_| fs::remove_dir_all(place(at))),
    }
}

fn is_tree(path: &Path) -> bool {
    path.iter().count() < 2
}

fn node(path: &Path, kind: FileType) -> io::Result<()> {
    Ok(rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), 0)?)
}

fn mark(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?)
}

/// Owner, one user, group, mask and others, as the kernel stores them.
fn access_list(user: u32) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 7_u16, u32::MAX), (2, 5, user), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 1, u32::MAX)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}
