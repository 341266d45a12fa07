use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ignore::LeaveOut;
use crate::stack::Stack;

/// The differences between two states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// In the order of their paths.
    pub changes: Vec<Change>,
    /// There are more than was asked for.
    pub truncated: bool,
}

/// Tells a complete list of differences from one that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differences {
    All,
    /// There are more than was asked for.
    More,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Absolute, as seen inside.
    pub path: PathBuf,
    /// Absent for what was added.
    pub before: Option<Entry>,
    /// Absent for what was removed.
    pub after: Option<Entry>,
    /// Filled where it was asked for and the two sides are files or one of them is missing.
    pub text: Option<TextDiff>,
}

impl Change {
    pub fn kind(&self) -> ChangeKind {
        match (&self.before, &self.after) {
            (None, _) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Removed,
            (Some(_), Some(_)) => ChangeKind::Changed,
        }
    }
}

/// The way in which a path changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// The file, directory or other thing at a path in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub kind: EntryKind,
    /// Of a file its length, of a link that of its target, else zero.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime_unix_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// How two files differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextDiff {
    /// Hunks without a header, with three lines of context.
    Unified(String),
    /// One of them is no text.
    Binary,
    /// One of them is larger than is compared, or the hunks are longer than is told.
    TooLarge,
    /// Only what describes the file differs.
    Same,
}

/// The extent of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffOptions {
    /// Only paths at or below this one.
    pub below: PathBuf,
    pub text: bool,
    /// At most this many paths.
    pub most: usize,
    /// Larger files are not compared line by line.
    pub most_text_bytes: u64,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { below: PathBuf::from("/"), text: false, most: 10_000, most_text_bytes: 1 << 20 }
    }
}

/// The states to be joined.
#[derive(Debug, Clone)]
pub struct MergeOrder<'a> {
    /// The state that both come from.
    pub base: &'a Stack,
    /// The state that the result stands on.
    pub ours: &'a Stack,
    pub theirs: &'a Stack,
    /// Only changes at or below this path are taken. Absolute, without `..`.
    pub below: &'a Path,
    pub conflicts: Conflicts,
    /// Changes that are not taken; patterns are relative to `below`.
    pub leave_out: &'a LeaveOut,
}

/// The treatment of paths that both sides changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conflicts {
    /// They are listed, and nothing is made.
    #[default]
    Refuse,
    Ours,
    Theirs,
}

/// The result of joining two states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merge {
    /// Changes that the result makes to `ours`.
    pub changes: Vec<Change>,
    /// Paths that both sides changed differently, and that could not be joined line by line.
    pub conflicts: Vec<Conflict>,
    /// A layer was made.
    pub made: bool,
}

/// A path that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: PathBuf,
    pub ours: ChangeKind,
    pub theirs: ChangeKind,
}
