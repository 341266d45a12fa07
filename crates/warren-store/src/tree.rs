//! Writes a file tree that cannot reach outside its root, whatever it is told to write.
//!
//! Every parent is resolved by the kernel with the tree as its root (`openat2`, `RESOLVE_IN_ROOT`):
//! links in it lead where they would lead inside a sandbox and never out. The last component is
//! never followed: what is there is removed and made anew.

mod attributes;
mod error;
mod path;
mod seal;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub(crate) use attributes::{Attributes, Xattr, canonical_id, modified};
pub use error::EntryError;
pub(crate) use path::TreePath;
pub(crate) use seal::{TreeTotals, is_directory, names, stat};

const MAX_SYMLINK: usize = 4095;
/// The kernel asks to try again when a rename anywhere on the machine races with a `..` in a link.
const RESOLVE_ATTEMPTS: usize = 256;
const PLAIN_DIRECTORY: u32 = 0o755;
/// Bytes of directories' extended attributes that are held until the tree is finished.
const MAX_HELD: usize = 16 << 20;

/// A tree being written. Directories get their attributes when it is finished.
#[derive(Debug)]
pub(crate) struct TreeWriter {
    root: Rc<OwnedFd>,
    max_depth: usize,
    directories: HashMap<u64, Directory>,
    /// The directory of the last entry: archives list a directory's files one after another.
    recent: Option<(PathBuf, Parent)>,
    /// Inodes the current layer wrote, which its whiteouts must spare.
    layer: HashSet<u64>,
    /// Directories that no entry named, made on the way to one since somebody asked last.
    implied: u64,
    /// Bytes of extended attributes among the directories' attributes.
    held_bytes: usize,
}

/// The facts about a directory in the tree, by its inode.
#[derive(Debug)]
struct Directory {
    /// Counted from the root along real directories: a chain of links cannot make a tree that is
    /// too deep to walk.
    depth: usize,
    attributes: Attributes,
}

#[derive(Debug, Clone)]
struct Parent {
    fd: Rc<OwnedFd>,
    depth: usize,
}

impl TreeWriter {
    /// Writes into `root`, an empty directory.
    pub(crate) fn new(root: &Path, max_depth: usize) -> Result<Self, EntryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty()).map_err(EntryError::io("open"))?;
        Self::within(root, max_depth)
    }

    /// Writes into an empty directory that is open.
    pub(crate) fn within(root: OwnedFd, max_depth: usize) -> Result<Self, EntryError> {
        let inode = rustix::fs::fstat(&root).map_err(EntryError::io("look at"))?.st_ino;
        let directory = Directory { depth: 0, attributes: Attributes::root(PLAIN_DIRECTORY) };
        Ok(Self {
            root: Rc::new(root),
            max_depth,
            directories: HashMap::from([(inode, directory)]),
            recent: None,
            layer: HashSet::new(),
            implied: 0,
            held_bytes: 0,
        })
    }

    /// From here on, whiteouts remove what was written before and spare what comes now.
    pub(crate) fn begin_layer(&mut self) {
        self.layer.clear();
    }

    /// How many directories were made since the last call that no entry named: one with a long name
    /// makes many.
    pub(crate) fn take_implied(&mut self) -> u64 {
        std::mem::take(&mut self.implied)
    }

    /// Makes a directory, or gives an existing one new attributes.
    pub(crate) fn directory(
        &mut self,
        path: &TreePath,
        mut attributes: Attributes,
    ) -> Result<(), EntryError> {
        let Some((parent, name)) = self.enter(path)? else {
            // A root that its own user could not pass is never meant.
            attributes.mode |= 0o555;
            let inode = rustix::fs::fstat(&self.root).map_err(EntryError::io("look at"))?.st_ino;
            return self.remember(inode, Directory { depth: 0, attributes });
        };
        let stat = match rustix::fs::statat(parent.fd.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_directory(&stat) => stat,
            Ok(_) => {
                self.remove_at(&parent, &name)?;
                self.make_directory(&parent, &name)?
            }
            Err(Errno::NOENT) => self.make_directory(&parent, &name)?,
            Err(error) => return Err(EntryError::io("look at")(error)),
        };
        self.layer.insert(stat.st_ino);
        self.remember(stat.st_ino, Directory { depth: parent.depth + 1, attributes })
    }

    /// Keeps a directory's attributes for the end, within bounds: an archive may have any number of
    /// directories.
    fn remember(&mut self, inode: u64, directory: Directory) -> Result<(), EntryError> {
        self.held_bytes += directory.attributes.xattr_bytes();
        if let Some(before) = self.directories.insert(inode, directory) {
            self.held_bytes -= before.attributes.xattr_bytes();
        }
        if self.held_bytes > MAX_HELD { Err(EntryError::XattrTotal { limit: MAX_HELD }) } else { Ok(()) }
    }

    /// Makes an empty file that only this process's user can open.
    /// [`finish_file`](Self::finish_file) completes it.
    pub(crate) fn create_file(&mut self, path: &TreePath) -> Result<File, EntryError> {
        let (parent, name) = self.clear_way(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent.fd.as_fd(), &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(EntryError::io("create"))?;
        Ok(file.into())
    }

    /// Gives a written file its attributes.
    pub(crate) fn finish_file(&mut self, file: &File, attributes: &Attributes) -> Result<(), EntryError> {
        attributes.apply(file)?;
        let stat = rustix::fs::fstat(file).map_err(EntryError::io("look at"))?;
        self.layer.insert(stat.st_ino);
        Ok(())
    }

    /// Makes a file with this content.
    pub(crate) fn text_file(
        &mut self,
        path: &TreePath,
        text: &str,
        attributes: &Attributes,
    ) -> Result<(), EntryError> {
        let mut file = self.create_file(path)?;
        file.write_all(text.as_bytes()).map_err(|source| EntryError::Io { action: "write", source })?;
        self.finish_file(&file, attributes)
    }

    /// Makes a symbolic link. Its target is text, for the sandbox to make sense of.
    pub(crate) fn symlink(
        &mut self,
        path: &TreePath,
        target: &[u8],
        attributes: &Attributes,
    ) -> Result<(), EntryError> {
        if target.is_empty() || target.len() > MAX_SYMLINK {
            return Err(EntryError::SymlinkTarget);
        }
        let target = CString::new(target).map_err(|_| EntryError::Nul)?;
        let (parent, name) = self.clear_way(path)?;
        rustix::fs::symlinkat(&target, parent.fd.as_fd(), &name).map_err(EntryError::io("link"))?;
        self.finish_special(&parent, &name, attributes)
    }

    /// Makes a named pipe.
    pub(crate) fn fifo(&mut self, path: &TreePath, attributes: &Attributes) -> Result<(), EntryError> {
        let (parent, name) = self.clear_way(path)?;
        let mode = Mode::from_raw_mode(attributes.mode);
        let fd = parent.fd.as_fd();
        rustix::fs::mknodat(fd, &name, FileType::Fifo, mode, 0).map_err(EntryError::io("create"))?;
        self.finish_special(&parent, &name, attributes)?;
        // `mknod` applied the umask. The name was made a moment ago in a directory nobody else can
        // enter, so it cannot be a link.
        rustix::fs::chmodat(fd, &name, mode, AtFlags::empty()).map_err(EntryError::io("change the mode of"))
    }

    /// Makes the device that hides a name in the layers below this one.
    pub(crate) fn hide(&mut self, path: &TreePath) -> Result<(), EntryError> {
        let (parent, name) = self.clear_way(path)?;
        rustix::fs::mknodat(parent.fd.as_fd(), &name, FileType::CharacterDevice, Mode::empty(), 0)
            .map_err(EntryError::io("create"))
    }

    /// Makes a file of the machine appear here too. `false` where the file system does not allow
    /// it. The file stays as it is: no attribute is set.
    pub(crate) fn link_from(
        &mut self,
        path: &TreePath,
        directory: BorrowedFd<'_>,
        file: &CStr,
    ) -> Result<bool, EntryError> {
        let (parent, name) = self.clear_way(path)?;
        match rustix::fs::linkat(directory, file, parent.fd.as_fd(), &name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::XDEV | Errno::MLINK | Errno::PERM | Errno::NOENT) => Ok(false),
            Err(error) => Err(EntryError::io("link")(error)),
        }
    }

    /// Makes another name for a regular file of the tree.
    pub(crate) fn hard_link(&mut self, path: &TreePath, target: &TreePath) -> Result<(), EntryError> {
        let refused = || EntryError::HardLinkTarget { target: target.as_path().display().to_string() };
        let (directory, target_name) = target.split().ok_or_else(refused)?;
        let target_name = c_name(target_name)?;
        let from = self.resolve(directory).map_err(|_| refused())?;
        let stat =
            rustix::fs::statat(&from, &target_name, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| refused())?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused());
        }
        self.layer.insert(stat.st_ino);
        let (parent, name) = self.enter(path)?.ok_or(EntryError::ReplacesRoot)?;
        let existing = rustix::fs::statat(parent.fd.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW);
        if existing.is_ok_and(|existing| existing.st_ino == stat.st_ino) {
            return Ok(());
        }
        self.remove_at(&parent, &name)?;
        rustix::fs::linkat(&from, &target_name, parent.fd.as_fd(), &name, AtFlags::empty())
            .map_err(|error| if error == Errno::NOENT { refused() } else { EntryError::io("link")(error) })
    }

    /// Removes what earlier layers put at `path`.
    pub(crate) fn whiteout(&mut self, path: &TreePath) -> Result<(), EntryError> {
        let Some((directory, name)) = path.split() else { return Err(EntryError::Whiteout) };
        let name = c_name(name)?;
        match self.resolve(directory) {
            Ok(parent) => {
                self.recent = None;
                seal::remove(&parent, &name)
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(EntryError::io("open the directory of")(error)),
        }
    }

    /// Removes what earlier layers put into the directory at `path`, and keeps what this layer did.
    pub(crate) fn opaque(&mut self, path: &Path) -> Result<(), EntryError> {
        self.recent = None;
        match self.resolve_with(path, OFlags::RDONLY) {
            Ok(directory) => seal::prune(&directory, &self.layer),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(EntryError::io("open")(error)),
        }
    }

    /// Makes sure that `path` is an empty directory of root, whatever it was.
    pub(crate) fn empty_directory(&mut self, path: &TreePath) -> Result<(), EntryError> {
        let (parent, name) = self.clear_way(path)?;
        let stat = self.make_directory(&parent, &name)?;
        let attributes = Attributes::root(PLAIN_DIRECTORY);
        self.directories.insert(stat.st_ino, Directory { depth: parent.depth + 1, attributes });
        Ok(())
    }

    /// Makes a directory where nothing has that name.
    pub(crate) fn missing_directory(
        &mut self,
        path: &TreePath,
        attributes: Attributes,
    ) -> Result<(), EntryError> {
        let Some((parent, name)) = self.enter(path)? else { return Ok(()) };
        match rustix::fs::statat(parent.fd.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => self.directory(path, attributes),
            Ok(_) => Ok(()),
            Err(error) => Err(EntryError::io("look at")(error)),
        }
    }

    /// Gives the directories their attributes and counts what there is.
    pub(crate) fn finish(self) -> Result<TreeTotals, EntryError> {
        let mut totals = TreeTotals::default();
        seal::seal(self.root.as_fd(), &self.directories, &mut totals, &mut HashSet::new())?;
        Ok(totals)
    }

    /// The directory around `path`, made where it is missing, and the name in it. None for the
    /// root.
    fn enter(&mut self, path: &TreePath) -> Result<Option<(Parent, CString)>, EntryError> {
        let Some((directory, name)) = path.split() else { return Ok(None) };
        let name = c_name(name)?;
        if let Some((recent, parent)) = &self.recent
            && recent == directory
        {
            return Ok(Some((parent.clone(), name)));
        }
        let fd = match self.resolve(directory) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => self.make_parents(directory)?,
            Err(Errno::NOTDIR) => {
                return Err(EntryError::ParentNotDirectory { parent: directory.to_owned() });
            }
            Err(Errno::LOOP) => return Err(EntryError::DanglingParent { parent: directory.to_owned() }),
            Err(error) => return Err(EntryError::io("open the directory of")(error)),
        };
        let parent = self.parent(fd)?;
        self.recent = Some((directory.to_owned(), parent.clone()));
        Ok(Some((parent, name)))
    }

    /// As [`enter`](Self::enter), and nothing has the name afterwards.
    fn clear_way(&mut self, path: &TreePath) -> Result<(Parent, CString), EntryError> {
        let (parent, name) = self.enter(path)?.ok_or(EntryError::ReplacesRoot)?;
        self.remove_at(&parent, &name)?;
        Ok((parent, name))
    }

    fn remove_at(&mut self, parent: &Parent, name: &CString) -> Result<(), EntryError> {
        match rustix::fs::statat(parent.fd.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(EntryError::io("look at")(error)),
            // The remembered directory may be below it, or be reached through it.
            Ok(_) => self.recent = None,
        }
        seal::remove(parent.fd.as_fd(), name)
    }

    fn make_parents(&mut self, directory: &Path) -> Result<OwnedFd, EntryError> {
        let failed = EntryError::io("open the directory of");
        let mut reached = self.resolve(Path::new("")).map_err(&failed)?;
        let mut path = PathBuf::new();
        for component in directory {
            path.push(component);
            match self.resolve(&path) {
                Ok(next) => reached = next,
                Err(Errno::NOENT) => {
                    let parent = self.parent(reached)?;
                    let stat = match self.make_directory(&parent, &c_name(component)?) {
                        Err(EntryError::Io { source, .. })
                            if source.kind() == std::io::ErrorKind::AlreadyExists =>
                        {
                            return Err(EntryError::DanglingParent { parent: path });
                        }
                        made => made?,
                    };
                    let attributes = Attributes::root(PLAIN_DIRECTORY);
                    self.directories.insert(stat.st_ino, Directory { depth: parent.depth + 1, attributes });
                    self.implied += 1;
                    reached = self.resolve(&path).map_err(&failed)?;
                }
                Err(Errno::NOTDIR) => return Err(EntryError::ParentNotDirectory { parent: path }),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(reached)
    }

    fn make_directory(&self, parent: &Parent, name: &CString) -> Result<rustix::fs::Stat, EntryError> {
        if parent.depth >= self.max_depth {
            return Err(EntryError::TooDeep { limit: self.max_depth });
        }
        rustix::fs::mkdirat(parent.fd.as_fd(), name, Mode::RWXU).map_err(EntryError::io("create"))?;
        stat(parent.fd.as_fd(), name)
    }

    fn parent(&self, fd: OwnedFd) -> Result<Parent, EntryError> {
        let inode = rustix::fs::fstat(&fd).map_err(EntryError::io("look at"))?.st_ino;
        let depth = self.directories.get(&inode).map_or(self.max_depth, |directory| directory.depth);
        Ok(Parent { fd: Rc::new(fd), depth })
    }

    fn finish_special(
        &mut self,
        parent: &Parent,
        name: &CString,
        attributes: &Attributes,
    ) -> Result<(), EntryError> {
        let (uid, gid) = attributes.owner();
        let fd = parent.fd.as_fd();
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(fd, name, uid, gid, nofollow).map_err(EntryError::io("change the owner of"))?;
        rustix::fs::utimensat(fd, name, &attributes.times(), nofollow)
            .map_err(EntryError::io("set the times of"))?;
        self.layer.insert(stat(fd, name)?.st_ino);
        Ok(())
    }

    fn resolve(&self, directory: &Path) -> Result<OwnedFd, Errno> {
        self.resolve_with(directory, OFlags::PATH)
    }

    fn resolve_with(&self, directory: &Path, access: OFlags) -> Result<OwnedFd, Errno> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let mut attempt = 0;
        loop {
            match rustix::fs::openat2(self.root.as_fd(), directory, flags, Mode::empty(), inside) {
                Err(Errno::AGAIN | Errno::INTR) if attempt < RESOLVE_ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }
}

fn c_name(name: &OsStr) -> Result<CString, EntryError> {
    CString::new(name.as_bytes()).map_err(|_| EntryError::Nul)
}
