use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::files::place::Place;
use crate::files::walk::{Found, Walk};

/// Directories watched by one call.
const DIRECTORIES: usize = 8192;

/// Entries told of one directory that appears full, as when it is moved in.
const FOUND: usize = 4096;

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// Added to those of the root itself where that is its own parent.
const PARENT_EVENTS: WatchFlags =
    WatchFlags::DELETE.union(WatchFlags::MOVED_FROM).union(WatchFlags::ONLYDIR).union(WatchFlags::MASK_ADD);

/// An entry of a directory that was read.
pub(super) struct Seen {
    pub(super) path: Vec<u8>,
    /// It is a file that is not empty.
    pub(super) holds_bytes: bool,
}

/// The watched directories by their watch descriptors. Paths are relative to the root, which is
/// empty.
pub(super) struct Tree<'a> {
    inotify: &'a OwnedFd,
    root: PathBuf,
    root_wd: i32,
    root_id: (u64, u64),
    root_suspect: bool,
    /// The directory above the root. The kernel tells of a removed directory itself only once
    /// nobody uses it any more, so the removal is learned from above.
    parent_wd: Option<i32>,
    recursive: bool,
    partial: bool,
    directories: HashMap<i32, Vec<u8>>,
    found: HashSet<Vec<u8>>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(inotify: &'a OwnedFd, place: &Place, recursive: bool) -> Result<Self, Errno> {
        let root_wd = inotify::add_watch(inotify, place.path(), EVENTS)?;
        let stat = rustix::fs::stat(place.path())?;
        let mut tree = Self {
            inotify,
            root: place.path().to_owned(),
            root_wd,
            root_id: (stat.st_dev, stat.st_ino),
            root_suspect: false,
            parent_wd: inotify::add_watch(inotify, place.path().join(".."), PARENT_EVENTS).ok(),
            recursive,
            partial: false,
            directories: HashMap::from([(root_wd, Vec::new())]),
            found: HashSet::new(),
        };
        tree.rescan();
        Ok(tree)
    }

    /// True if something was left out, for want of watches or of room, since this was last asked.
    pub(super) fn take_partial(&mut self) -> bool {
        std::mem::take(&mut self.partial)
    }

    /// Watches every directory of the tree that can be read and is not watched yet.
    pub(super) fn rescan(&mut self) {
        if self.recursive {
            self.read_below(&[], &mut |_| {});
        }
    }

    /// Watches a directory that has appeared in the tree, and everything below it; tells what is in
    /// it.
    pub(super) fn add(&mut self, path: &[u8], mut tell: impl FnMut(Seen)) {
        if !self.recursive || !self.watch(path) {
            return;
        }
        let mut found = Vec::new();
        let mut more = false;
        self.read_below(path, &mut |entry| {
            more |= found.len() == FOUND;
            if !more {
                found.push(entry);
            }
        });
        self.partial |= more;
        for entry in found {
            self.found.insert(entry.path.clone());
            tell(entry);
        }
    }

    /// True if a reading has told this entry already, but only once.
    pub(super) fn was_found(&mut self, path: &[u8]) -> bool {
        self.found.remove(path)
    }

    /// Every event that was queued when a directory was read has passed.
    pub(super) fn settle(&mut self) {
        self.found.clear();
    }

    pub(super) fn path_of(&self, wd: i32, name: &[u8]) -> Option<Vec<u8>> {
        self.directories.get(&wd).map(|directory| join(directory, name))
    }

    /// Notes what happens to a watched directory itself.
    pub(super) fn on_directory(&mut self, wd: i32, what: ReadFlags) {
        let ends = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
        self.root_suspect |= wd == self.root_wd && what.intersects(ends);
        if what.contains(ReadFlags::IGNORED) {
            self.directories.remove(&wd);
        }
    }

    /// Notes that something beside the root was removed or moved, perhaps the root.
    pub(super) fn on_parent(&mut self, wd: i32) {
        self.root_suspect |= Some(wd) == self.parent_wd;
    }

    pub(super) fn root_exists(&mut self) -> bool {
        if !std::mem::take(&mut self.root_suspect) {
            return true;
        }
        let same = |stat: Stat| (stat.st_dev, stat.st_ino) == self.root_id;
        self.directories.contains_key(&self.root_wd) && rustix::fs::stat(&self.root).is_ok_and(same)
    }

    /// The watches of a directory and of everything below it.
    pub(super) fn watches_below(&self, path: &[u8]) -> Vec<i32> {
        self.directories.iter().filter(|(_, watched)| is_below(watched, path)).map(|(wd, _)| *wd).collect()
    }

    /// Follows directories that moved within the tree.
    pub(super) fn rename(&mut self, watches: &[i32], from: &[u8], to: &[u8]) {
        for wd in watches {
            if let Some(path) = self.directories.get_mut(wd)
                && is_below(path, from)
            {
                *path = [to, &path[from.len()..]].concat();
            }
        }
    }

    /// Stops watching directories that have left the tree.
    pub(super) fn forget(&mut self, watches: &[i32]) {
        for wd in watches {
            self.directories.remove(wd);
            // It may be gone already, and its watch with it.
            inotify::remove_watch(self.inotify, *wd).ok();
        }
    }

    fn read_below(&mut self, path: &[u8], tell: &mut dyn FnMut(Seen)) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let top = rustix::fs::open(self.absolute(path), flags, Mode::empty());
        let Ok(mut walk) = top.and_then(|top| Walk::new(top, u32::MAX)) else { return };
        while let Some(found) = walk.next() {
            let relative = join(path, found.path);
            let enter = found.kind != FileType::Directory || self.watch(&relative);
            tell(Seen { path: relative, holds_bytes: holds_bytes(&found) });
            if !enter {
                walk.skip();
            }
        }
    }

    /// Watches one directory; `false` if it is not, for whatever reason.
    fn watch(&mut self, path: &[u8]) -> bool {
        if self.directories.len() >= DIRECTORIES {
            self.partial = true;
            return false;
        }
        match inotify::add_watch(self.inotify, self.absolute(path), EVENTS | WatchFlags::DONT_FOLLOW) {
            Ok(wd) => {
                self.directories.insert(wd, path.to_vec());
                true
            }
            Err(Errno::NOSPC | Errno::NOMEM | Errno::NAMETOOLONG) => {
                self.partial = true;
                false
            }
            // Unreadable, or gone again.
            Err(_) => false,
        }
    }

    fn absolute(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }
}

fn holds_bytes(found: &Found<'_>) -> bool {
    let size = || rustix::fs::statat(found.directory, found.name, AtFlags::SYMLINK_NOFOLLOW);
    found.kind == FileType::RegularFile && size().is_ok_and(|stat| stat.st_size > 0)
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}
