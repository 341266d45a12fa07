//! Which paths belong to the project: those that no `.gitignore` and no `.warrenignore` names.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use warren_core::{Ignored, MOST_IGNORE_BYTES};

use super::is_of_git;
use crate::error::CliError;

/// The files with rules; the later one counts more.
const FILES: [&str; 2] = [".gitignore", ".warrenignore"];

/// Files on their way to their place, which a copy that was killed leaves behind.
const PARTS: &str = ".warren-cp-*";

/// The rules of a directory. Both sides are seen through the same ones: those of this machine, and
/// those of the sandbox for a directory that has none here.
pub(super) struct Rules {
    top: PathBuf,
    ignored: Ignored,
    /// Texts that were read in the sandbox, by their path.
    remote: HashMap<PathBuf, Vec<u8>>,
}

impl Rules {
    pub(super) fn new(top: &Path, exclude: &[String]) -> Self {
        let always: Vec<String> = exclude.iter().cloned().chain([PARTS.to_owned()]).collect();
        Self { top: top.to_owned(), ignored: Ignored::new(&always), remote: HashMap::new() }
    }

    /// Tells whether a path is left out. `ask` reads a file of rules in the sandbox, where there is
    /// one.
    pub(super) fn leave_out(
        &mut self,
        path: &str,
        is_directory: bool,
        mut ask: impl FnMut(&Path) -> Result<Option<Vec<u8>>, CliError>,
    ) -> Result<bool, CliError> {
        if is_of_git(path) {
            return Ok(true);
        }
        let (top, remote) = (&self.top, &mut self.remote);
        let load = |directory: &Path| {
            let mut texts = Vec::new();
            for name in FILES {
                let path = directory.join(name);
                if let Some(text) = read(&top.join(&path))? {
                    texts.push(text);
                } else if let Some(text) = remote.get(&path) {
                    texts.push(text.clone());
                } else if let Some(text) = ask(&path)? {
                    texts.push(text.clone());
                    remote.insert(path, text);
                }
            }
            Ok::<_, RuleError>(texts)
        };
        self.ignored.is_ignored(Path::new(path), is_directory, load).map_err(|error| match error {
            RuleError::Ignore(error) => CliError::new(error).hint("shorten .gitignore or .warrenignore"),
            RuleError::Other(error) => error,
        })
    }
}

enum RuleError {
    Ignore(warren_core::IgnoreError),
    Other(CliError),
}

impl From<warren_core::IgnoreError> for RuleError {
    fn from(error: warren_core::IgnoreError) -> Self {
        Self::Ignore(error)
    }
}

impl From<CliError> for RuleError {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

/// A file of rules of this machine. A link is not followed: a sandbox may have made it.
fn read(path: &Path) -> Result<Option<Vec<u8>>, CliError> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(CliError::at(path, error));
        }
        Err(_) => return Ok(None),
    };
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Ok(None);
    }
    bounded(file).map(Some).map_err(|error| CliError::at(path, error))
}

/// As much of a file of rules as is looked at, and a byte more if there is more.
pub(super) fn bounded(content: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    content.take(MOST_IGNORE_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
