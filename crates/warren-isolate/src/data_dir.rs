//! Checks that a directory may be the data directory. Everything is checked before anything is
//! made, changed or locked, so a refused directory stays as it was. The mode of a directory that
//! Warren did not make is never changed.
//!
//! It holds keys, the sockets of agents, and layers with set-id files. So it must belong to this
//! user alone, nobody else may be able to replace it, and no sandbox may see it. One that is not
//! empty must be Warren's: it has the file `instance`, which is written first, or only files that
//! the first start of an earlier version left behind.

mod walk;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use self::walk::{Trusted, Walk, WalkError};

/// The file that names this data directory's control groups, and marks it as Warren's.
const MARK: &str = "instance";

/// A mark that is being written.
const DRAFT: &str = "instance.";

/// Files and directories allowed in a directory without the mark: Warren's configuration, what a
/// new file system has, and what earlier versions made before they wrote the mark.
const FILES: [&str; 10] = [
    MARK,
    "warren.yaml",
    "catalog.lock",
    "catalog.json",
    "catalog.json.new",
    "catalog.db",
    "catalog.db-wal",
    "catalog.db-shm",
    "catalog.db.new",
    "catalog.db.new-journal",
];
const DIRECTORIES: [&str; 10] = [
    "lost+found",
    "sandboxes",
    "trash",
    "ranges",
    "projects",
    "templates",
    "templates-host",
    "common",
    "layers",
    "tls",
];

/// A directory cannot be the data directory.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be the data directory", path.display())]
pub struct DataDirError {
    pub path: PathBuf,
    #[source]
    pub reason: DataDirRefusal,
}

/// The reason why a directory cannot be the data directory.
#[derive(Debug, thiserror::Error)]
pub enum DataDirRefusal {
    #[error("it holds `{name}`, which is not Warren's")]
    NotEmpty { name: String },
    #[error("`{}` is not a directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error("it belongs to user {owner}, and not to user {user}, who runs this")]
    Owner { owner: u32, user: u32 },
    #[error("others may write in it (mode {mode:03o})")]
    Writable { mode: u32 },
    #[error("user {owner}, who owns `{}`, could put something else in its place", at.display())]
    ParentOwner { at: PathBuf, owner: u32 },
    #[error("others may write in `{}` (mode {mode:03o}) and could put something else in its place", at.display())]
    ParentWritable { at: PathBuf, mode: u32 },
    #[error("it is in `{}`, which sandboxes can read", tree.display())]
    Shown { tree: PathBuf },
    #[error("look at `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("make `{}`", path.display())]
    Make { path: PathBuf, source: io::Error },
}

impl DataDirError {
    /// A hint to the user.
    pub fn advice(&self) -> String {
        let path = self.path.display();
        match &self.reason {
            DataDirRefusal::NotEmpty { .. } => {
                "name a directory that is empty, new or Warren's own: --data-dir".to_owned()
            }
            DataDirRefusal::NotADirectory { .. }
            | DataDirRefusal::Look { .. }
            | DataDirRefusal::Make { .. } => "name another place: --data-dir".to_owned(),
            DataDirRefusal::Owner { user, .. } => {
                format!("if it is meant: chown {user} {path}; else name another place: --data-dir")
            }
            DataDirRefusal::Writable { .. } => format!("close it to others: chmod go-w {path}"),
            DataDirRefusal::ParentOwner { .. } | DataDirRefusal::ParentWritable { .. } => {
                "choose a place where root owns every directory above, such as /var/lib/warren: --data-dir"
                    .to_owned()
            }
            DataDirRefusal::Shown { .. } => {
                "choose a place outside of it, such as /var/lib/warren: --data-dir".to_owned()
            }
        }
    }
}

/// A directory that may be the data directory. It need not exist yet.
#[derive(Debug)]
pub struct DataDir {
    named: PathBuf,
    walk: Walk,
}

impl DataDir {
    /// Checks a directory and all above it, and changes nothing. `shown` are trees of the host that
    /// templates show to sandboxes.
    pub fn examine<P: AsRef<Path>>(path: &Path, shown: &[P]) -> Result<Self, DataDirError> {
        let trusted = Trusted::here();
        examine(path, shown, &trusted).map_err(|reason| DataDirError { path: path.to_owned(), reason })
    }

    /// Its path without links.
    pub fn path(&self) -> &Path {
        &self.walk.path
    }

    /// Makes the directory if it is missing, and marks it as Warren's.
    pub fn claim(self) -> Result<PathBuf, DataDirError> {
        let refused = |reason| DataDirError { path: self.named.clone(), reason };
        self.make().and_then(|()| self.mark()).map_err(refused)?;
        Ok(self.walk.path)
    }

    fn make(&self) -> Result<(), DataDirRefusal> {
        let count = self.walk.missing;
        let missing: Vec<&Path> = self.walk.path.ancestors().take(count).collect();
        for path in missing.into_iter().rev() {
            let made = fs::DirBuilder::new().mode(0o700).create(path);
            match made {
                // Another process of ours was first, or somebody else who may write here: the check
                // finds that out.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    examine(&self.walk.path, &[] as &[&Path], &Trusted::here())?;
                }
                Err(source) => return Err(DataDirRefusal::Make { path: path.to_owned(), source }),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn mark(&self) -> Result<(), DataDirRefusal> {
        let path = self.walk.path.join(MARK);
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        draw_instance(&path).map_err(|source| DataDirRefusal::Make { path, source })
    }
}

fn examine<P: AsRef<Path>>(path: &Path, shown: &[P], trusted: &Trusted) -> Result<DataDir, DataDirRefusal> {
    let walk = Walk::to(path, trusted)?;
    for tree in shown.iter().map(AsRef::as_ref) {
        let Ok(found) = fs::metadata(tree) else { continue };
        if walk.is_in(&found) {
            return Err(DataDirRefusal::Shown { tree: tree.to_owned() });
        }
    }
    if walk.missing == 0 {
        let found = fs::metadata(&walk.path).map_err(look(&walk.path))?;
        if found.uid() != trusted.user {
            return Err(DataDirRefusal::Owner { owner: found.uid(), user: trusted.user });
        }
        if found.mode() & 0o022 != 0 {
            return Err(DataDirRefusal::Writable { mode: found.mode() & 0o7777 });
        }
        if let Some(name) = foreign(&walk.path, trusted.user).map_err(look(&walk.path))? {
            return Err(DataDirRefusal::NotEmpty { name });
        }
    }
    Ok(DataDir { named: path.to_owned(), walk })
}

fn look(path: &Path) -> impl FnOnce(io::Error) -> DataDirRefusal {
    let path = path.to_owned();
    move |source| DataDirRefusal::Look { path, source }
}

impl From<WalkError> for DataDirRefusal {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Look { path, source } => Self::Look { path, source },
            WalkError::NotADirectory { path } => Self::NotADirectory { path },
            WalkError::Owner { at, owner } => Self::ParentOwner { at, owner },
            WalkError::Writable { at, mode } => Self::ParentWritable { at, mode },
        }
    }
}

/// An entry of the directory that is not Warren's, if there is one.
fn foreign(directory: &Path, user: u32) -> io::Result<Option<String>> {
    if read_instance(&directory.join(MARK)).is_ok_and(|word| word.is_some()) {
        return Ok(None);
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = match entry.metadata() {
            // The draft of another process that makes the directory at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        let name = entry.file_name();
        let known = name.to_str().is_some_and(|name| {
            if found.is_dir() {
                // As Warren makes them, and as a new file system has its own.
                let closed = found.uid() == user && found.mode() & 0o777 == 0o700;
                DIRECTORIES.contains(&name) && closed
            } else {
                found.is_file() && (FILES.contains(&name) || name.starts_with(DRAFT))
            }
        });
        if !known {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

/// A random word that tells this data directory from others on the machine.
pub(crate) fn instance(root: &Path) -> io::Result<String> {
    let path = root.join(MARK);
    loop {
        match read_instance(&path)? {
            Some(word) => return Ok(word),
            None => draw_instance(&path)?,
        }
    }
}

fn read_instance(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(word) if word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(Some(word)),
        Ok(_) => Err(io::Error::other("the file `instance` does not hold 16 hexadecimal digits")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts the word in place in one step; if another process was first, its word stays.
fn draw_instance(path: &Path) -> io::Result<()> {
    let word = format!("{:016x}", getrandom::u64().map_err(io::Error::other)?);
    let staging = path.with_extension(&word);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staging)?;
    // After a power cut an empty file would make the directory unusable.
    let written = file.write_all(word.as_bytes()).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| fs::hard_link(&staging, path));
    fs::remove_file(&staging)?;
    match placed {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "data_dir_tests.rs"]
mod tests;
