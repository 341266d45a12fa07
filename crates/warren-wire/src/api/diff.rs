use serde::{Deserialize, Serialize};

use super::FileType;

/// The differences between two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diff {
    /// In the order of their paths.
    pub items: Vec<FileDiff>,
    /// There is more than was asked for.
    pub truncated: bool,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileDiff {
    /// Absolute, as seen inside. Bytes that are no text are shown as U+FFFD.
    pub path: String,
    /// The path in base64, where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    pub kind: DiffKind,
    /// Absent for what was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileState>,
    /// Absent for what was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileState>,
    /// The hunks of a unified diff, without a header. Empty: only what describes the file differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// One of the two is no text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// The text is too long to be compared or told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_large: bool,
}

/// The change of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum DiffKind {
    Added,
    Changed,
    Removed,
}

/// The entry at a path in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FileState {
    #[serde(rename = "type")]
    pub kind: FileType,
    /// Of a file its length, of a link that of its target, else zero.
    pub size_bytes: u64,
    /// Permission bits in octal, such as `0644`.
    #[cfg_attr(feature = "schema", schema(pattern = "^[0-7]{4}$", example = "0644"))]
    pub mode: String,
    pub uid: u32,
    pub gid: u32,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub modified_at: String,
}

/// A path that both sides of a merge changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Conflict {
    /// Absolute, as seen inside. Bytes that are no text are shown as U+FFFD.
    pub path: String,
    /// The path in base64, where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The change in the sandbox that is merged into.
    pub ours: DiffKind,
    /// The change in the fork.
    pub theirs: DiffKind,
}
