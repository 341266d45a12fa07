use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::HostError;
use crate::tree::{self, Attributes, EntryError, TreePath, TreeWriter};

const MAX_FILE: i64 = 1 << 20;
const MAX_LIBRARY_CACHE: i64 = 4 << 20;
/// The database of packages, and each of their lists.
const MAX_PACKAGES: i64 = 64 << 20;
const MAX_ENTRIES: usize = 8192;
pub(super) const MAX_DEPTH: usize = 16;
const WORLD_READ: u32 = 0o004;
const WORLD_ENTER: u32 = 0o005;

/// Copies what every user of the machine may read. Anything else, and anything that is neither
/// file, directory nor link, is left out: `host` must work on a machine with odd files in `/etc`.
pub(super) struct Copier<'a> {
    writer: &'a mut TreeWriter,
    machine: BorrowedFd<'a>,
    entries: usize,
}

impl<'a> Copier<'a> {
    /// `machine` is the root of the machine.
    pub(super) fn new(machine: BorrowedFd<'a>, writer: &'a mut TreeWriter) -> Self {
        Self { writer, machine, entries: 0 }
    }

    /// Copies a path of the machine, with everything in it.
    pub(super) fn copy(&mut self, name: &str) -> Result<(), HostError> {
        let (directory, base) = name.rsplit_once('/').unwrap_or((".", name));
        let failed = |source| HostError::Write { path: name.to_owned(), source };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let parent = match rustix::fs::openat2(self.machine, directory, flags, Mode::empty(), inside) {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(error) => return Err(failed(EntryError::io("open the directory of")(error))),
        };
        let path = TreePath::parse(name.as_bytes(), MAX_DEPTH).map_err(failed)?;
        let base = CString::new(base).map_err(|_| failed(EntryError::Nul))?;
        self.entry(parent.as_fd(), &base, &path, 0).map_err(failed)
    }

    fn entry(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &TreePath,
        depth: usize,
    ) -> Result<(), EntryError> {
        if self.entries >= MAX_ENTRIES || depth >= MAX_DEPTH {
            return Ok(());
        }
        let Ok(stat) = tree::stat(parent, name) else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let Ok(target) = rustix::fs::readlinkat(parent, name, Vec::new()) else { return Ok(()) };
                self.entries += 1;
                self.writer.symlink(path, target.as_bytes(), &dated(&stat, 0o777))
            }
            FileType::RegularFile => self.file(parent, name, path),
            FileType::Directory => self.directory(parent, name, path, depth),
            _ => Ok(()),
        }
    }

    /// A file that everybody may read and that gives nobody access to anything.
    pub(super) fn file(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &TreePath,
    ) -> Result<(), EntryError> {
        // Never waits, should the name have become a pipe since it was looked at.
        let Some((file, stat)) = open(parent, name, OFlags::NONBLOCK) else { return Ok(()) };
        let limit = match name.to_bytes() {
            b"ld.so.cache" => MAX_LIBRARY_CACHE,
            _ if path.as_path().starts_with("var") => MAX_PACKAGES,
            _ => MAX_FILE,
        };
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !regular || stat.st_mode & WORLD_READ == 0 || stat.st_size > limit {
            return Ok(());
        }
        let failed = |source| EntryError::Io { action: "copy", source };
        let mut content = Vec::new();
        File::from(file).take(limit.unsigned_abs()).read_to_end(&mut content).map_err(failed)?;
        if name.to_bytes().ends_with(b".list") {
            content = without_logins(&content);
        } else if has_login(&content) {
            return Ok(());
        }
        self.entries += 1;
        let mut copy = self.writer.create_file(path)?;
        copy.write_all(&content).map_err(failed)?;
        self.writer.finish_file(&copy, &dated(&stat, stat.st_mode & 0o755 | 0o600))
    }

    fn directory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: &TreePath,
        depth: usize,
    ) -> Result<(), EntryError> {
        let Some((directory, stat)) = open(parent, name, OFlags::DIRECTORY) else { return Ok(()) };
        if stat.st_mode & WORLD_ENTER != WORLD_ENTER {
            return Ok(());
        }
        self.entries += 1;
        self.writer.directory(path, dated(&stat, 0o755))?;
        for name in tree::names(&directory)? {
            let child = path.join(OsStr::from_bytes(name.as_bytes()));
            self.entry(directory.as_fd(), &name, &child, depth + 1)?;
        }
        Ok(())
    }
}

/// True if an address in it names a user, who may have a password behind the name.
fn has_login(content: &[u8]) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'"' | b'\'' | b'<' | b'>');
    let behind = content.windows(3).enumerate().filter(|(_, three)| *three == b"://");
    behind.filter_map(|(at, _)| content.get(at + 3..)).any(|rest| {
        let place = rest.iter().position(is_end).unwrap_or(rest.len());
        rest[..place].contains(&b'@')
    })
}

/// A file of lines that mean something each, such as apt's sources.
fn without_logins(content: &[u8]) -> Vec<u8> {
    content
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !has_login(line))
        .flatten()
        .copied()
        .collect()
}

fn open(parent: impl AsFd, name: &CStr, extra: OFlags) -> Option<(OwnedFd, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra;
    let fd = rustix::fs::openat(parent, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    Some((fd, stat))
}

fn dated(stat: &Stat, mode: u32) -> Attributes {
    Attributes { modified: tree::modified(stat), ..Attributes::root(mode) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_user_is_told_from_one_without() {
        for text in ["deb http://user:secret@host/ x", "a \"https://token@host\"", "x://me@y"] {
            assert!(has_login(text.as_bytes()), "{text}");
        }
        for text in ["deb http://host/ x", "http://host/a@b", "me@host", "https://host \"@\"", "://"] {
            assert!(!has_login(text.as_bytes()), "{text}");
        }
        let lines = b"deb http://a/ b\ndeb http://u:p@c/ d\ndeb http://e/ f";
        assert_eq!(without_logins(lines), b"deb http://a/ b\ndeb http://e/ f");
    }
}
