use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use sha2::{Digest as _, Sha256};

use super::HostError;
use crate::digest::Digest;
use crate::tree::{Attributes, EntryError, TreePath, TreeWriter};

/// Deeper directories are hidden as a whole.
const MAX_DEPTH: usize = 64;
/// Far more than any distribution has. Beyond it something is odd, and nothing is shown.
const MOST_NAMES: usize = 100_000;
const WORLD_READ: u32 = 0o004;
const WORLD_ENTER: u32 = 0o005;
/// Tells programs such as `pip` to leave the Python beside it to the machine's packages. A sandbox
/// has its own, and installs what it wants.
const SYSTEM_PYTHON: &CStr = c"EXTERNALLY-MANAGED";
/// The owner of files that no id inside stands for.
const NOBODY: u32 = 65_534;

/// True if everybody on the machine may read this. Nothing else is seen inside.
pub(crate) fn is_public(mode: u32) -> bool {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => mode & WORLD_READ != 0,
        FileType::Directory => mode & WORLD_ENTER == WORLD_ENTER,
        FileType::Symlink => true,
        _ => false,
    }
}

/// Opens one of the machine's own directories as sandboxes are shown it: without what is mounted on
/// it or below.
pub(crate) fn open_machine(path: &Path) -> Result<OwnedFd, Errno> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(CWD, path, clone | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    open_directory(&mount, c".")
}

fn open_directory(parent: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), inside)
}

/// The names below a directory that are not for everybody, and the directories around them.
#[derive(Debug)]
pub(super) struct Private {
    names: Vec<PathBuf>,
    /// The directories around a name, outer ones first.
    directories: BTreeMap<PathBuf, Attributes>,
}

impl Private {
    /// Looks through all of it. What comes or goes meanwhile is seen or not.
    pub(super) fn below(machine: &Path) -> Result<Self, HostError> {
        let failed = |error: Errno| HostError::Survey { path: machine.to_owned(), source: error.into() };
        let top = open_machine(machine).map_err(failed)?;
        let look = look_of(&rustix::fs::fstat(&top).map_err(failed)?);
        let mut found = Self { names: Vec::new(), directories: BTreeMap::new() };
        found.walk(&top, &mut vec![(PathBuf::new(), look.clone())]).map_err(failed)?;
        // An overlay takes the appearance of its root from the topmost layer.
        found.directories.insert(PathBuf::new(), look);
        if found.names.len() > MOST_NAMES {
            return Err(HostError::TooPrivate { path: machine.to_owned(), most: MOST_NAMES });
        }
        found.names.sort();
        Ok(found)
    }

    pub(super) fn count(&self) -> usize {
        self.names.len()
    }

    /// `way` is the directories from the top to this one.
    fn walk(&mut self, directory: &OwnedFd, way: &mut Vec<(PathBuf, Attributes)>) -> Result<(), Errno> {
        let here = way.last().map(|(path, _)| path.clone()).unwrap_or_default();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." || entry.file_type() == FileType::Symlink {
                continue;
            }
            let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            };
            let path = here.join(OsStr::from_bytes(name.to_bytes()));
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let is_whole = !is_directory || way.len() < MAX_DEPTH;
            if !is_public(stat.st_mode) || !is_whole || name == SYSTEM_PYTHON {
                self.hide(path, way);
            } else if is_directory {
                match open_directory(directory, name) {
                    Ok(inner) => {
                        way.push((path, look_of(&stat)));
                        self.walk(&inner, way)?;
                        way.pop();
                    }
                    // It went, or something was mounted there this moment.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(Errno::XDEV) => self.hide(path, way),
                    Err(error) => return Err(error),
                }
            }
            if self.names.len() > MOST_NAMES {
                break;
            }
        }
        Ok(())
    }

    fn hide(&mut self, path: PathBuf, way: &[(PathBuf, Attributes)]) {
        self.names.push(path);
        for (path, attributes) in way {
            self.directories.entry(path.clone()).or_insert_with(|| attributes.clone());
        }
    }

    /// Tells one finding from another.
    pub(super) fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for (path, look) in &self.directories {
            add_name(&mut hash, path);
            [look.mode, look.uid, look.gid].iter().for_each(|number| hash.update(number.to_le_bytes()));
            let modified = look.modified.map_or((0, 0), |time| (time.tv_sec, time.tv_nsec));
            hash.update(modified.0.to_le_bytes());
            hash.update(modified.1.to_le_bytes());
        }
        self.names.iter().for_each(|path| add_name(&mut hash, path));
        Digest::finish(hash)
    }

    /// Writes the layer into `root`, an empty directory.
    pub(super) fn write(&self, root: &Path) -> Result<(), HostError> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |source| HostError::Write { path, source }
        };
        let place =
            |path: &Path| TreePath::parse(path.as_os_str().as_bytes(), MAX_DEPTH).map_err(failed(path));
        let mut writer = TreeWriter::new(root, MAX_DEPTH).map_err(failed(root))?;
        for (path, look) in &self.directories {
            let at = if path.as_os_str().is_empty() { Path::new("/") } else { path };
            writer.directory(&place(at)?, look.clone()).map_err(failed(at))?;
        }
        for path in &self.names {
            writer.hide(&place(path)?).map_err(failed(path))?;
        }
        writer.finish().map(drop).map_err(|source: EntryError| failed(root)(source))
    }
}

fn add_name(hash: &mut Sha256, path: &Path) {
    hash.update(path.as_os_str().as_bytes());
    hash.update([0]);
}

/// The attributes of a directory above this one, chosen so that nobody sees that it is there.
fn look_of(stat: &Stat) -> Attributes {
    let mapped = |id: u32| if id < NOBODY { id } else { NOBODY };
    Attributes {
        mode: stat.st_mode & 0o7777,
        uid: mapped(stat.st_uid),
        gid: mapped(stat.st_gid),
        modified: crate::tree::modified(stat),
        xattrs: Vec::new(),
    }
}
