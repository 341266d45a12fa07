use serde::{Deserialize, Serialize};

/// What was done in a sandbox, the newest first.
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
    /// Of an `exec`: the command as a shell would be told, cut where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Of an `exec`: its process.
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
    /// Of a `rollback`: where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Of a `promote`: the sandbox whose changes came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_id: Option<String>,
    /// The session in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Who asked.
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
    /// The snapshot of the state it left, once that is captured. Commands that overlap share theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_id: Option<String>,
    /// How many paths differ between the two. Only where it was asked for and both are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<u64>,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum JournalAction {
    Exec,
    Tool,
    Turn,
    Rollback,
    Promote,
}

/// What last changed a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Blame {
    /// As it was asked for.
    pub path: String,
    /// The newest first; several where commands overlapped. Empty: it is as the sandbox began with it.
    pub items: Vec<JournalEntry>,
}
