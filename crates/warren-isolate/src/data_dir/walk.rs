//! Following a path link by link, with a check of who could change it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;
const STICKY: u32 = 0o1000;

/// The path cannot be trusted or followed.
#[derive(Debug)]
pub(super) enum WalkError {
    Look { path: PathBuf, source: io::Error },
    NotADirectory { path: PathBuf },
    Owner { at: PathBuf, owner: u32 },
    Writable { at: PathBuf, mode: u32 },
}

/// Users and groups that may be able to change the path to the data directory.
#[derive(Debug)]
pub(super) struct Trusted {
    /// The user that runs this, and owns the data directory itself.
    pub(super) user: u32,
    /// Root, and the user who became root with sudo and so could do anything already.
    pub(super) others: Vec<u32>,
    pub(super) groups: Vec<u32>,
}

impl Trusted {
    pub(super) fn here() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        Self {
            user: rustix::process::geteuid().as_raw(),
            others: [Some(0), number("SUDO_UID")].into_iter().flatten().collect(),
            groups: [Some(0), number("SUDO_GID")].into_iter().flatten().collect(),
        }
    }

    fn owns(&self, found: &Metadata) -> bool {
        found.uid() == self.user || self.others.contains(&found.uid())
    }

    /// True if nobody else can rename an entry that belongs to one of these users.
    fn keeps(&self, found: &Metadata) -> bool {
        let mode = found.mode();
        let by_others = mode & 0o002 != 0 || mode & 0o020 != 0 && !self.groups.contains(&found.gid());
        !by_others || mode & STICKY != 0
    }
}

/// The target of a path.
#[derive(Debug)]
pub(super) struct Walk {
    /// Without links.
    pub(super) path: PathBuf,
    /// How many names at its end do not exist yet.
    pub(super) missing: usize,
}

impl Walk {
    /// Follows the path from the root. The last directory is not judged here, as it has to meet
    /// stricter rules.
    pub(super) fn to(path: &Path, trusted: &Trusted) -> Result<Self, WalkError> {
        let whole =
            std::path::absolute(path).map_err(|source| WalkError::Look { path: path.to_owned(), source })?;
        let mut ahead = steps(&whole);
        let mut walk = Self { path: PathBuf::from("/"), missing: 0 };
        let mut links = 0;
        while let Some(step) = ahead.pop_front() {
            let Step::Down(name) = step else {
                walk.path.pop();
                continue;
            };
            walk.judge(trusted)?;
            let next = walk.path.join(&name);
            let found = match fs::symlink_metadata(&next) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return walk.end(name, ahead),
                Err(source) => return Err(WalkError::Look { path: next, source }),
            };
            if found.is_dir() {
                walk.path = next;
                continue;
            }
            if !found.is_symlink() {
                return Err(WalkError::NotADirectory { path: next });
            }
            if !trusted.owns(&found) {
                return Err(WalkError::Owner { at: next, owner: found.uid() });
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(WalkError::Look { path: next, source: rustix::io::Errno::LOOP.into() });
            }
            let target = fs::read_link(&next).map_err(look(&next))?;
            if target.is_absolute() {
                walk.path = PathBuf::from("/");
            }
            steps(&target).into_iter().rev().for_each(|step| ahead.push_front(step));
        }
        Ok(walk)
    }

    /// True if it is this directory or below it.
    pub(super) fn is_in(&self, directory: &Metadata) -> bool {
        let same = |found: Metadata| (found.dev(), found.ino()) == (directory.dev(), directory.ino());
        self.path.ancestors().filter_map(|path| fs::metadata(path).ok()).any(same)
    }

    /// Checks the present directory before an entry of it is followed.
    fn judge(&self, trusted: &Trusted) -> Result<(), WalkError> {
        let found = fs::symlink_metadata(&self.path).map_err(look(&self.path))?;
        let at = || self.path.clone();
        if !trusted.owns(&found) {
            return Err(WalkError::Owner { at: at(), owner: found.uid() });
        }
        if !trusted.keeps(&found) {
            return Err(WalkError::Writable { at: at(), mode: found.mode() & 0o7777 });
        }
        Ok(())
    }

    /// Adds the names that do not exist.
    fn end(mut self, first: OsString, rest: VecDeque<Step>) -> Result<Self, WalkError> {
        let names = [Step::Down(first)].into_iter().chain(rest);
        for step in names {
            let Step::Down(name) = step else {
                return Err(WalkError::Look { path: self.path, source: io::ErrorKind::NotFound.into() });
            };
            self.path.push(name);
            self.missing += 1;
        }
        Ok(self)
    }
}

enum Step {
    Down(OsString),
    Up,
}

fn steps(path: &Path) -> VecDeque<Step> {
    let step = |component: Component<'_>| match component {
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::ParentDir => Some(Step::Up),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(step).collect()
}

fn look(path: &Path) -> impl FnOnce(io::Error) -> WalkError {
    let path = path.to_owned();
    move |source| WalkError::Look { path, source }
}
