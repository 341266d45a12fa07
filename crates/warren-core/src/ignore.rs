//! Paths that a project does not count as its own, by the rules of `.gitignore` files.
//!
//! The files are often a sandbox's: how many rules they may have, and how much work one path may
//! make, is bounded, and no pattern costs more than its length times that of the path.

mod pattern;

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use self::pattern::Pattern;

/// Bytes of one file of rules.
pub const MOST_IGNORE_BYTES: usize = 256 << 10;
/// Rules that count for one path.
const MOST_RULES: usize = 4096;
/// Steps of comparing that one path may take.
const MOST_STEPS: usize = 1 << 20;

/// Why paths cannot be told apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    #[error("the rules of what to ignore in `{}` are longer than {MOST_IGNORE_BYTES} bytes", directory.display())]
    TooLong { directory: PathBuf },
    #[error("`{}` and the directories above it have more than {MOST_RULES} rules of what to ignore", directory.display())]
    TooMany { directory: PathBuf },
    #[error("the rules of what to ignore take too long to compare with `{}`", path.display())]
    TooMuchWork { path: PathBuf },
}

/// Paths that a patch or a merge passes over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaveOut {
    /// Pass over what the `.gitignore` files of the state name.
    pub ignored: bool,
    /// Pass over what matches one of these lines.
    pub patterns: Vec<String>,
}

impl LeaveOut {
    pub fn is_empty(&self) -> bool {
        !self.ignored && self.patterns.is_empty()
    }
}

/// A line of a file of rules.
#[derive(Debug, Clone)]
struct Rule {
    pattern: Pattern,
    /// Takes back what an earlier rule says.
    includes: bool,
    directories_only: bool,
    /// Compared with the whole path below the file's directory, and not with the last name alone.
    whole_path: bool,
}

/// A directory on the way to the path that was asked for last.
#[derive(Debug)]
struct Level {
    directory: PathBuf,
    rules: Vec<Rule>,
    ignored: bool,
}

/// Tells which paths below a directory are ignored. Remembers the directories on the way to the
/// last path, so that asking in the order of a walk reads each file of rules once.
#[derive(Debug)]
pub struct Ignored {
    /// Rules that nothing takes back.
    always: Vec<Rule>,
    levels: Vec<Level>,
}

impl Ignored {
    /// `always` are lines that count for all paths and that no file takes back.
    pub fn new<T: AsRef<str>>(always: &[T]) -> Self {
        let always = always.iter().filter_map(|line| Rule::parse(line.as_ref().as_bytes())).collect();
        Self { always, levels: Vec::new() }
    }

    /// Tells whether a path is ignored: by itself, or since a directory above it is. `load` gives
    /// the files of rules of a directory, those that count more last.
    pub fn is_ignored<E: From<IgnoreError>>(
        &mut self,
        path: &Path,
        is_directory: bool,
        mut load: impl FnMut(&Path) -> Result<Vec<Vec<u8>>, E>,
    ) -> Result<bool, E> {
        let parent = path.parent().unwrap_or_else(|| Path::new(""));
        while self.levels.last().is_some_and(|level| !parent.starts_with(&level.directory)) {
            self.levels.pop();
        }
        if self.levels.is_empty() {
            let rules = rules(Path::new(""), load(Path::new(""))?)?;
            self.levels.push(Level { directory: PathBuf::new(), rules, ignored: false });
        }
        let mut at = self.levels.last().map(|level| level.directory.clone()).unwrap_or_default();
        for name in parent.strip_prefix(&at).unwrap_or(parent).to_owned().iter() {
            at.push(name);
            let ignored = self.verdict(&at, true)?;
            // What is ignored needs no rules of its own: nothing in it is taken back.
            let rules = if ignored { Vec::new() } else { rules(&at, load(&at)?)? };
            let all = self.levels.iter().map(|level| level.rules.len()).sum::<usize>() + rules.len();
            if all > MOST_RULES {
                return Err(IgnoreError::TooMany { directory: at }.into());
            }
            self.levels.push(Level { directory: at.clone(), rules, ignored });
        }
        Ok(self.verdict(path, is_directory)?)
    }

    /// The answer for a path in the directory that was entered last.
    fn verdict(&self, path: &Path, is_directory: bool) -> Result<bool, IgnoreError> {
        if self.levels.last().is_some_and(|level| level.ignored) {
            return Ok(true);
        }
        let mut left = MOST_STEPS;
        let mut told = |rules: &[Rule], below: &Path| {
            let path = path.strip_prefix(below).unwrap_or(path);
            for rule in rules.iter().rev().filter(|rule| is_directory || !rule.directories_only) {
                let text =
                    if rule.whole_path { path.as_os_str() } else { path.file_name().unwrap_or_default() };
                let text = text.as_bytes();
                left = left
                    .checked_sub(rule.pattern.cost(text))
                    .ok_or_else(|| IgnoreError::TooMuchWork { path: path.to_owned() })?;
                if rule.pattern.matches(text) {
                    return Ok(Some(!rule.includes));
                }
            }
            Ok(None)
        };
        if told(&self.always, Path::new(""))? == Some(true) {
            return Ok(true);
        }
        for level in self.levels.iter().rev() {
            if let Some(ignored) = told(&level.rules, &level.directory)? {
                return Ok(ignored);
            }
        }
        Ok(false)
    }
}

fn rules(directory: &Path, files: Vec<Vec<u8>>) -> Result<Vec<Rule>, IgnoreError> {
    if files.iter().any(|text| text.len() > MOST_IGNORE_BYTES) {
        return Err(IgnoreError::TooLong { directory: directory.to_owned() });
    }
    let lines = files.iter().flat_map(|text| text.split(|byte| *byte == b'\n'));
    let rules: Vec<Rule> = lines.filter_map(Rule::parse).take(MOST_RULES + 1).collect();
    if rules.len() > MOST_RULES {
        return Err(IgnoreError::TooMany { directory: directory.to_owned() });
    }
    Ok(rules)
}

impl Rule {
    /// Reads a line; `None` if it says nothing.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = trimmed(line);
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        let (includes, line) = line.strip_prefix(b"!").map_or((false, line), |rest| (true, rest));
        let (directories_only, line) = line.strip_suffix(b"/").map_or((false, line), |rest| (true, rest));
        let whole_path = line.contains(&b'/');
        let pattern = Pattern::parse(line.strip_prefix(b"/").unwrap_or(line))?;
        Some(Self { pattern, includes, directories_only, whole_path })
    }
}

/// A line without what editors leave at its end. A space after a backslash stays.
fn trimmed(line: &[u8]) -> &[u8] {
    let mut line = line.strip_suffix(b"\r").unwrap_or(line);
    while let Some(rest) = line.strip_suffix(b" ")
        && rest.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    {
        line = rest;
    }
    line
}

#[cfg(test)]
#[path = "ignore_tests.rs"]
mod tests;
