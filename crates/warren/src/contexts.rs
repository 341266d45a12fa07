//! Servers by name, in a file of the user's own.
//!
//! `$XDG_CONFIG_HOME/warren/contexts.json` holds addresses and keys, for its owner's eyes alone. It
//! is replaced as a whole, by one command at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use warren_server::private_file;

use crate::error::CliError;

/// The name for the server of this machine, which needs no context.
pub(crate) const LOCAL: &str = "local";

const MOST_NAME: usize = 64;

/// All that the user has named.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contexts {
    /// The one that commands use; this machine's server if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A server and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    pub(crate) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The authority that vouches for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
}

impl Contexts {
    pub(crate) fn load() -> Result<Self, CliError> {
        match directory() {
            Some(directory) => Self::read(&directory),
            None => Ok(Self::default()),
        }
    }

    fn read(directory: &Path) -> Result<Self, CliError> {
        let path = file(directory);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(error) => return Err(CliError::at(&path, error)),
        };
        serde_json::from_slice(&text).map_err(|error| {
            CliError::new(format!("{}: {error}", path.display()))
                .hint("mend the file, or remove it and add your contexts again")
        })
    }

    /// Changes the file, while no other command does.
    pub(crate) fn change<T>(change: impl FnOnce(&mut Self) -> Result<T, CliError>) -> Result<T, CliError> {
        let directory = directory().ok_or_else(|| {
            CliError::new("there is no place for settings: neither XDG_CONFIG_HOME nor HOME is a directory")
        })?;
        Self::change_in(&directory, change)
    }

    fn change_in<T>(
        directory: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let failed = |error: io::Error| CliError::at(directory, error);
        private_file::make_directory(directory).map_err(failed)?;
        let lock = File::open(directory).map_err(failed)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let mut contexts = Self::read(directory)?;
        let answer = change(&mut contexts)?;
        let text = serde_json::to_string_pretty(&contexts).map_err(CliError::new)?;
        let path = file(directory);
        private_file::write(&path, &format!("{text}\n")).map_err(|error| CliError::at(&path, error))?;
        Ok(answer)
    }

    /// The context of this name.
    pub(crate) fn get(&self, name: &str) -> Result<&Context, CliError> {
        self.contexts.get(name).ok_or_else(|| {
            CliError::new(format!("there is no context `{}`", name.escape_default()))
                .hint("`warren context ls` lists them, `warren context add NAME URL` makes one")
        })
    }

    /// A context with this address, the current one first.
    pub(crate) fn of_url(&self, url: &str) -> Option<&Context> {
        let current = self.current.as_ref().and_then(|name| self.contexts.get(name));
        current.into_iter().chain(self.contexts.values()).find(|context| same_url(&context.url, url))
    }
}

pub(crate) fn same_url(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// A name for a context: a word that needs no quoting anywhere.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text == LOCAL {
        return Err(format!("`{LOCAL}` is this machine's own server"));
    }
    if text.is_empty() || text.len() > MOST_NAME || text.starts_with('-') || !text.chars().all(plain) {
        return Err(format!("a name has letters, digits, `-`, `_` and `.`, {MOST_NAME} at most"));
    }
    Ok(text.to_owned())
}

fn file(directory: &Path) -> PathBuf {
    directory.join("contexts.json")
}

/// The user's directory for Warren's settings.
fn directory() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(base.join("warren"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn add(directory: &Path, name: &str) {
        let context = Context { url: format!("https://{name}"), key: Some("k".to_owned()), ca: None };
        Contexts::change_in(directory, |contexts| {
            contexts.contexts.insert(name.to_owned(), context);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn the_file_is_private_and_whoever_comes_at_the_same_time_loses_nothing() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("warren");
        let names: Vec<String> = (0..16).map(|number| format!("n{number}")).collect();
        std::thread::scope(|scope| {
            for name in &names {
                scope.spawn(|| add(&directory, name));
            }
        });
        assert_eq!(Contexts::read(&directory).unwrap().contexts.len(), names.len());
        assert_eq!(std::fs::metadata(file(&directory)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing_and_a_damaged_file_is_said() {
        let place = tempfile::tempdir().unwrap();
        add(place.path(), "a");
        let refused = Contexts::change_in(place.path(), |contexts| {
            contexts.contexts.clear();
            Err::<(), _>(CliError::new("no"))
        });
        assert!(refused.is_err());
        assert_eq!(Contexts::read(place.path()).unwrap().contexts.len(), 1);
        std::fs::write(file(place.path()), "{").unwrap();
        let damaged = Contexts::read(place.path()).unwrap_err();
        assert!(damaged.chain().contains("contexts.json"), "{}", damaged.chain());
    }

    #[test]
    fn names_need_no_quoting() {
        for name in ["prod", "eu-1.b_c"] {
            assert_eq!(parse_name(name).as_deref(), Ok(name));
        }
        for name in ["", "local", "-x", "a b", "a/b", "ü", &"n".repeat(65)] {
            assert!(parse_name(name).is_err(), "{name}");
        }
    }
}
