use serde::{Deserialize, Serialize};

use crate::id::SandboxId;
use crate::node::NodeId;
use crate::owner::Owner;
use crate::spec::{SandboxKind, SandboxSpec};
use crate::stack::{Space, Stack};
use crate::unique::{LayerId, SessionId, SnapshotId};

/// A point in the history of a sandbox's files. History is a tree: a fork's first parent belongs to
/// another sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    pub id: SnapshotId,
    pub owner: Owner,
    /// The node that holds its layers. No other node touches it.
    pub node: NodeId,
    /// The sandbox that it was taken of, which may be gone.
    pub sandbox: SandboxId,
    pub session: Option<SessionId>,
    pub parent: Option<SnapshotId>,
    /// The state that the operation replaced which led to this one, where that is not the parent: a
    /// rollback takes its files from one state and replaces another. An undo goes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SnapshotId>,
    /// How many operations of the journal led here from the state before. Zero: programs that ran
    /// in the background changed files by themselves. Absent: nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u32>,
    /// Entries of the journal that led here and whose own states were not kept, but for the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u64>,
    /// One that has a name is kept until it is deleted. Unique among the snapshots of a sandbox.
    pub name: Option<String>,
    pub reason: SnapshotReason,
    /// The turn that it ended.
    pub turn: Option<u32>,
    pub created_unix_ms: u64,
    pub method: SnapshotMethod,
    pub stack: Stack,
    /// Where its processes are, if it holds them too: a layer of its own, without files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<LayerId>,
    /// The room that its topmost layer takes, once it is counted.
    pub space: Option<Space>,
    /// It survives a power cut.
    pub durable: bool,
    /// The machine stopped before it was safely on disk: it is listed, and cannot be used.
    #[serde(default)]
    pub damaged: bool,
    /// The spec of the sandbox, so that another can be made without it.
    pub spec: SandboxSpec,
    pub kind: SandboxKind,
    pub disk_limit_required: bool,
    pub backend: String,
}

impl SnapshotRecord {
    /// Every layer that it needs, the topmost first.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = &LayerId> {
        self.memory.iter().chain(&self.stack.0)
    }
}

/// Why a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotReason {
    /// The state that a sandbox began with.
    Start,
    /// Somebody asked for it.
    Request,
    /// A turn was complete.
    Turn,
    /// A tool call asked for it.
    Tool,
    /// A command ended, or another was about to begin.
    Command,
    /// The state that a rollback replaced.
    Safety,
    /// The files of an earlier snapshot, to which a sandbox was sent back.
    Rollback,
    /// To make forks of.
    Fork,
    /// A session ended.
    End,
    /// A fork's changes were merged.
    Promote,
    Import,
    /// It is the state of an image or of a step of one, and goes when that does.
    Image,
}

/// How a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotMethod {
    /// Nothing was written since the snapshot before: it has the same layers.
    Unchanged,
    /// The writable layer became an immutable one, and a new one was put on top.
    Sealed,
    /// The writable layer was copied while the sandbox stood still.
    Copied,
    /// As a copy, but the data is shared: a reflink or a subvolume's snapshot.
    Cloned,
}

/// Where a sandbox stands in its history. Part of its record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// The layers below its writable one.
    pub stack: Stack,
    /// The snapshot that its state comes from.
    pub head: Option<SnapshotId>,
    /// Snapshots that were undone, the next to be redone last. Forgotten at the next change.
    pub redo: Vec<SnapshotId>,
    /// Turns completed.
    pub turn: u32,
    pub automatic: Automatic,
    /// The sandbox of which this is a fork.
    pub forked_from: Option<SandboxId>,
    /// The layers that it began with, which it shares with others.
    pub began: Stack,
    /// It was sent to another state and has not been started since: what its writable layers hold
    /// is not part of that.
    pub moved: bool,
    /// The processes with which its next start goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<LayerId>,
}

/// When what a sandbox writes is put on the disk itself, where a power cut cannot reach it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Flush {
    /// As the machine does it: some seconds later. Snapshots are put there by Warren, soon after
    /// they were taken.
    #[default]
    Background,
    /// Before anybody is told that a command has ended.
    Commands,
}

/// Which snapshots are taken without being asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Automatic {
    /// Around every operation that changes files, and at the end of each turn.
    #[default]
    Commands,
    /// At the end of each turn.
    Turns,
    /// None.
    Off,
}
