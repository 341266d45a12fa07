use serde::{Deserialize, Serialize};

/// The actions in a sandbox, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Journal {
    pub items: Vec<JournalEntry>,
    /// Give this back as `before` to go on. Null at the end.
    pub next_before: Option<u64>,
}

/// Something that was done in a sandbox, bound to the states before and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JournalEntry {
    /// Counts a sandbox's entries from 1.
    pub number: u64,
    /// The turn during which it happened, counted from 1.
    pub turn: u32,
    pub action: JournalAction,
    /// Of an `exec` or a `terminal`: the command as a shell would be told, cut where it is long. Of
    /// a `promote`: what was done in the fork, in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Of an `exec` or a `terminal`: its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<u64>,
    /// Of a `tool`: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Of a `tool`: the caller's own word for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Of a `tool`: its parameters in a line, cut where they are long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<String>,
    /// Of `files`: what was done to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<FileDeed>,
    /// Of `files`: where; the first of several files that were written together. Of a `promote`:
    /// where the changes are that came, if not all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of a `move`: the backend that it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Of `files`: the new name of what was renamed, or where a new link leads. Of a `move`: the
    /// backend that it went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Of `files`: how many bytes were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of `files`: how many files were written, where that need not be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Of a `rollback`: where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Of a `promote`: the sandbox whose changes came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_id: Option<String>,
    /// The session in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The client that asked.
    pub by: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub began_at: String,
    /// Absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How it ended, where there is more to say than a code: a signal, a time limit, an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The snapshot of the state it began with, if that was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_id: Option<String>,
    /// The snapshot of the state it left, once that is captured. Commands that overlap share
    /// theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_id: Option<String>,
    /// Why the state it left was not kept, if it was not: `after_id` is then a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
    /// How many paths differ between the two. Only where it was asked for and both are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
}

/// The kind of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum JournalAction {
    Exec,
    /// A session at a terminal.
    Terminal,
    Tool,
    /// A call on files: an upload, a new directory, a removal.
    Files,
    Turn,
    Rollback,
    /// It went behind another wall.
    Move,
    Promote,
    /// One that this client is too old to know.
    #[serde(other)]
    Unknown,
}

/// The effect of a call on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum FileDeed {
    Write,
    /// An archive was unpacked below a directory.
    Unpack,
    MakeDirectory,
    Rename,
    Remove,
    SetPermissions,
    SetOwner,
    MakeSymlink,
    SetAttributes,
    /// One that this client is too old to know.
    #[serde(other)]
    Unknown,
}

/// The last change of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Blame {
    /// As it was asked for.
    pub path: String,
    /// The newest first; several where they overlapped. Empty: nobody changed it, or nobody who is
    /// known.
    pub items: Vec<JournalEntry>,
    /// Its state since the sandbox began. Absent: the server is too old to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PathState>,
}

/// The state of a path since the sandbox began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum PathState {
    /// It is there, and not as it was.
    Changed,
    AsItBegan,
    /// It was there, and is not any more.
    Removed,
    /// It is not there, and no state is known in which it was.
    NeverThere,
    /// One that this client is too old to know.
    #[serde(other)]
    Unknown,
}
