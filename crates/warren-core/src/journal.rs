use serde::{Deserialize, Serialize};

use crate::id::SandboxId;
use crate::owner::Owner;
use crate::unique::{SessionId, SnapshotId};

/// Something that was done in a sandbox, bound to the states before and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Counts a sandbox's entries from 1. Given by the catalog; zero until then.
    pub number: u64,
    pub owner: Owner,
    pub sandbox: SandboxId,
    pub session: Option<SessionId>,
    /// The turn during which it happened, counted from 1.
    pub turn: u32,
    pub action: Action,
    /// The caller: a key's id, or the name that the caller gives itself.
    pub by: String,
    pub began_unix_ms: u64,
    /// Absent while it goes on.
    pub ended_unix_ms: Option<u64>,
    pub outcome: Option<Outcome>,
    /// The state it began with, if that was captured.
    pub before: Option<SnapshotId>,
    /// The state it left, once that is captured. Commands that overlap share theirs.
    pub after: Option<SnapshotId>,
    /// Why the state it left was not kept, if it was not: `after` is then a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A kind of operation, with its details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    Exec {
        /// As a shell would be told, cut at a few kilobytes.
        command: String,
        /// The agent's number for the process.
        process: Option<u64>,
    },
    /// A program with a terminal: a session of somebody who types.
    Terminal {
        command: String,
        process: Option<u64>,
    },
    Tool {
        tool: String,
        call: Option<String>,
        /// The parameters in a line, cut at a few kilobytes.
        summary: String,
    },
    /// A call on files, or several that were one thing to the caller.
    Files {
        operation: FileDeed,
        /// Where; the first of several files that were written together. Cut at a few kilobytes.
        path: String,
        /// Of a rename: the new name. Of a link: where it leads.
        #[serde(default)]
        to: Option<String>,
        /// Bytes that were written, once they are.
        #[serde(default)]
        bytes: Option<u64>,
        /// How many files were written, where that need not be one.
        #[serde(default)]
        files: Option<u64>,
    },
    Turn,
    Rollback {
        to: SnapshotId,
    },
    /// It was moved from one backend to another.
    Move {
        from: String,
        to: String,
    },
    Promote {
        from: SandboxId,
        /// Only what was at or below this came. Absent: everything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The work done in the fork, in one line. Absent: none, or not known.
        #[serde(default)]
        command: Option<String>,
    },
}

/// The effect of a call on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Outcome {
    pub exit_code: Option<i32>,
    /// In words, where there is more to say than a code: a signal, a time limit, an error.
    pub detail: Option<String>,
}

/// A tool call's answer, kept so that a repeated call gets it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolAnswer {
    pub owner: Owner,
    pub sandbox: SandboxId,
    /// The caller's own word for the call, 1 to 255 visible ASCII characters.
    pub call: String,
    /// Tells whether a repeated call is the same one.
    pub fingerprint: String,
    /// The answer as it was sent; absent while the first call goes on.
    pub answer: Option<String>,
    pub at_unix_ms: u64,
}
