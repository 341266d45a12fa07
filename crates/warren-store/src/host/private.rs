use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use parking_lot::Mutex;
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
/// Each has a few directories open at a time.
const MOST_THREADS: usize = 8;
/// Directories so far below the top are shared among threads: `/usr/share/doc`, for instance.
const LEVELS: usize = 2;
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
#[derive(Debug, Default)]
pub(super) struct Private {
    names: Vec<PathBuf>,
    /// The directories around a name, outer ones first.
    directories: BTreeMap<PathBuf, Attributes>,
}

/// The directories from the top to one that is looked through.
type Way = Vec<(PathBuf, Attributes)>;

/// A directory that is yet to be looked through.
struct Task {
    parent: Arc<OwnedFd>,
    name: CString,
    /// To the directory itself.
    way: Way,
}

impl Private {
    /// Looks through all of it. What comes or goes meanwhile is seen or not.
    pub(super) fn below(machine: &Path) -> Result<Self, HostError> {
        let failed = |error: Errno| HostError::Survey { path: machine.to_owned(), source: error.into() };
        let top = Arc::new(open_machine(machine).map_err(failed)?);
        let look = look_of(&rustix::fs::fstat(&top).map_err(failed)?);
        let mut found = Self::default();
        let mut tasks = Vec::new();
        found.walk(&top, &mut vec![(PathBuf::new(), look.clone())], &mut Some(&mut tasks)).map_err(failed)?;
        found.share(tasks).map_err(failed)?;
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

    /// Looks through directories with as many threads as there are processors: it is all waiting
    /// for the kernel.
    fn share(&mut self, tasks: Vec<Task>) -> Result<(), Errno> {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
        let tasks = Mutex::new(tasks);
        let work = || {
            let mut found = Self::default();
            loop {
                let task = tasks.lock().pop();
                let Some(mut task) = task else { return Ok(found) };
                match open_directory(&task.parent, &task.name) {
                    Ok(inner) => found.walk(&Arc::new(inner), &mut task.way, &mut None)?,
                    Err(error) => found.not_opened(error, &mut task.way)?,
                }
            }
        };
        let all: Vec<Result<Self, Errno>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let join = |other: ScopedJoinHandle<'_, _>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            [own].into_iter().chain(others.into_iter().map(join)).collect()
        });
        for found in all {
            let found = found?;
            self.names.extend(found.names);
            self.directories.extend(found.directories);
        }
        Ok(())
    }

    /// `way` is the directories from the top to this one. With `later`, directories two levels down
    /// are left to somebody else.
    fn walk(
        &mut self,
        directory: &Arc<OwnedFd>,
        way: &mut Way,
        later: &mut Option<&mut Vec<Task>>,
    ) -> Result<(), Errno> {
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
                way.push((path, look_of(&stat)));
                match later {
                    Some(later) if way.len() > LEVELS => {
                        let (parent, way) = (Arc::clone(directory), way.clone());
                        later.push(Task { parent, name: name.to_owned(), way });
                    }
                    _ => match open_directory(directory, name) {
                        Ok(inner) => self.walk(&Arc::new(inner), way, later)?,
                        Err(error) => self.not_opened(error, way)?,
                    },
                }
                way.pop();
            }
            if self.names.len() > MOST_NAMES {
                break;
            }
        }
        Ok(())
    }

    /// The last directory of the way could not be opened.
    fn not_opened(&mut self, error: Errno, way: &mut Way) -> Result<(), Errno> {
        match error {
            // It went, or something was mounted there this moment.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(()),
            Errno::XDEV => {
                let around = way.len().saturating_sub(1);
                if let Some((path, _)) = way.last().cloned() {
                    self.hide(path, &way[..around]);
                }
                Ok(())
            }
            error => Err(error),
        }
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
