//! A file as the protocol describes it.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;
use warren_wire::guest::{ByteString, Detail, EntryKind, FileEntry, Resolved};

use super::attributes;
use crate::identity::Accounts;

/// Names of owners, read from the sandbox's account files at the first question of a call.
#[derive(Default)]
pub(super) struct Names {
    known: Option<(HashMap<u32, ByteString>, HashMap<u32, ByteString>)>,
}

impl Names {
    fn of(&mut self, stat: &Stat) -> (Option<ByteString>, Option<ByteString>) {
        let (users, groups) = self.known.get_or_insert_with(|| {
            let accounts = Accounts::load();
            (by_id(accounts.user_names()), by_id(accounts.group_names()))
        });
        (users.get(&stat.st_uid).cloned(), groups.get(&stat.st_gid).cloned())
    }
}

/// Describes `name` in the directory `dir`; `path` is what the entry will be called. A final
/// symbolic link is described itself unless `flags` say otherwise.
pub(super) fn describe(
    dir: impl AsFd,
    name: impl Arg + Copy,
    path: ByteString,
    flags: AtFlags,
    names: &mut Names,
) -> Result<FileEntry, Errno> {
    let stat = rustix::fs::statat(&dir, name, flags)?;
    let mut entry = from_stat(&stat, path, names);
    if entry.kind == EntryKind::Symlink {
        // A link that was replaced in between simply has no target to tell.
        let target = rustix::fs::readlinkat(&dir, name, Vec::new());
        entry.target = target.ok().map(|target| target.into_bytes().into());
    }
    Ok(entry)
}

/// Adds to an entry that [`describe`] has made what is asked beyond it.
pub(super) fn elaborate(entry: &mut FileEntry, dir: impl AsFd, name: impl Arg + Copy, detail: &Detail) {
    if detail.resolve && entry.kind == EntryKind::Symlink {
        let nowhere = || Resolved { path: entry.path.clone(), kind: None, permissions: 0, size: 0 };
        entry.resolved = Some(resolve(&dir, name).unwrap_or_else(|_| nowhere()));
    }
    if let Some(prefix) = &detail.attributes {
        let has = matches!(entry.kind, EntryKind::File | EntryKind::Directory);
        entry.attributes = Some(if has { attributes::tell(dir, name, prefix) } else { Vec::new() });
    }
}

/// Where a link leads. The kernel follows it and then names what it found, so both are of the same
/// moment.
fn resolve(dir: impl AsFd, name: impl Arg) -> Result<Resolved, Errno> {
    let found = rustix::fs::openat(dir, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    let path = rustix::fs::readlink(format!("/proc/self/fd/{}", found.as_raw_fd()), Vec::new())?;
    Ok(Resolved {
        path: path.into_bytes().into(),
        kind: Some(kind_of(&stat)),
        permissions: stat.st_mode & 0o7777,
        size: size_of(&stat),
    })
}

pub(super) fn from_stat(stat: &Stat, path: ByteString, names: &mut Names) -> FileEntry {
    let (owner, group) = names.of(stat);
    FileEntry {
        path,
        kind: kind_of(stat),
        size: size_of(stat),
        permissions: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified_ns: modified_ns(stat),
        target: None,
        owner,
        group,
        inode: stat.st_ino,
        links: stat.st_nlink,
        resolved: None,
        attributes: None,
    }
}

pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn kind_of(stat: &Stat) -> EntryKind {
    match file_type(stat) {
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice,
        FileType::BlockDevice => EntryKind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => EntryKind::File,
    }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

fn modified_ns(stat: &Stat) -> i64 {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// The first name of an id wins, as it does for the system's own tools.
fn by_id<'a>(names: impl Iterator<Item = (u32, &'a [u8])>) -> HashMap<u32, ByteString> {
    let mut known = HashMap::new();
    for (id, name) in names {
        known.entry(id).or_insert_with(|| name.to_vec().into());
    }
    known
}
