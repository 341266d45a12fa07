//! The state that both sides had in common, kept for the next time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use warren_server::private_file;

use super::Known;
use crate::error::CliError;

const FORMAT: u32 = 1;

/// The common state of a directory and a sandbox's, while nobody else carries anything for the
/// directory.
#[derive(Debug)]
pub(crate) struct Base {
    path: PathBuf,
    pub(super) files: BTreeMap<String, Known>,
    _lock: File,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    /// For people who look: which directory, and what of which sandbox.
    directory: String,
    remote: String,
    files: BTreeMap<String, Known>,
}

impl Base {
    /// Waits for others who carry something for the directory, and reads what is known.
    pub(crate) fn open(directory: &Path, sandbox: &str, remote: &str) -> Result<Self, CliError> {
        Self::open_in(&state_directory()?, directory, sandbox, remote)
    }

    fn open_in(state: &Path, directory: &Path, sandbox: &str, remote: &str) -> Result<Self, CliError> {
        private_file::make_directory(state).map_err(|error| CliError::at(state, error))?;
        let text = directory.to_string_lossy();
        let lock_path = state.join(format!("{}.lock", fingerprint(&[&text])));
        let failed = |error: io::Error| CliError::at(&lock_path, error);
        let lock =
            File::options().create(true).truncate(false).write(true).open(&lock_path).map_err(failed)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let path = state.join(format!("{}.json", fingerprint(&[&text, sandbox, remote])));
        let files = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(CliError::at(&path, error)),
            Ok(text) => match serde_json::from_slice::<Kept>(&text) {
                Ok(kept) if kept.format == FORMAT => kept.files,
                // Without it both sides are compared file by file, and nothing is lost.
                _ => BTreeMap::new(),
            },
        };
        Ok(Self { path, files, _lock: lock })
    }

    pub(super) fn save(&self, directory: &Path, remote: &str) -> Result<(), CliError> {
        let kept = Kept {
            format: FORMAT,
            directory: directory.to_string_lossy().into_owned(),
            remote: remote.to_owned(),
            files: self.files.clone(),
        };
        let text = serde_json::to_string(&kept).map_err(CliError::new)?;
        private_file::write(&self.path, &text).map_err(|error| CliError::at(&self.path, error))
    }

    /// Forgets what the sides had in common.
    pub(crate) fn forget(self) {
        drop(fs::remove_file(&self.path));
    }
}

/// The user's directory for what Warren remembers.
fn state_directory() -> Result<PathBuf, CliError> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let base = base.ok_or_else(|| {
        CliError::new(
            "there is no place to remember files in: neither XDG_STATE_HOME nor HOME is a directory",
        )
    })?;
    Ok(base.join("warren/sync"))
}

/// A directory by its one name.
pub(crate) fn canonical(directory: &Path) -> Result<PathBuf, CliError> {
    let found = directory.canonicalize().map_err(|error| CliError::at(directory, error))?;
    if !found.is_dir() {
        return Err(CliError::new(format!("{} is not a directory", directory.display())));
    }
    Ok(found)
}

/// A short name for texts, the same everywhere and always (FNV-1a).
pub(crate) fn fingerprint(texts: &[&str]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Stamp;

    #[test]
    fn what_was_kept_is_there_again_and_damage_is_no_knowledge() {
        let state = tempfile::tempdir().unwrap();
        let open =
            || Base::open_in(state.path(), Path::new("/project"), "sbx", "/home/user/project").unwrap();
        let stamp = Stamp { size: 1, changed: 2, executable: false, link: None };
        let known = Known { here: stamp.clone(), there: stamp, digest: "d".to_owned(), sure: true };
        let mut base = open();
        base.files.insert("a\nb".to_owned(), known.clone());
        base.save(Path::new("/project"), "sbx:/home/user/project").unwrap();
        let path = base.path.clone();
        drop(base);
        assert_eq!(open().files.get("a\nb"), Some(&known));
        fs::write(path, "{").unwrap();
        assert!(open().files.is_empty());
    }

    #[test]
    fn a_fingerprint_tells_its_texts_apart() {
        assert_eq!(fingerprint(&["a", "b"]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["ab"]), fingerprint(&["a", "b"]));
    }
}
