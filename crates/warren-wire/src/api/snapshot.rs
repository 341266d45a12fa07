use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Conflict, FileDiff, OnExpiry, Sandbox, Session};

/// A point in the history of a sandbox's files. History is a tree: the first parent of a fork
/// belongs to another sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Snapshot {
    #[cfg_attr(feature = "schema", schema(pattern = "^snap-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub snapshot_id: String,
    /// The sandbox whose files these are. It may be gone.
    #[cfg_attr(feature = "schema", schema(pattern = "^sbx[a-z2-7]{26}$"))]
    pub sandbox_id: String,
    /// The session for which it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The snapshot before it. Absent for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// One that has a name is kept until it is deleted. Unique among the snapshots of a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub reason: SnapshotReason,
    /// The turn that it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    pub method: SnapshotMethod,
    /// It survives a power cut.
    pub durable: bool,
    /// The machine stopped before it was safely on disk: it is listed, and cannot be used.
    pub damaged: bool,
    /// How many layers its files stand on.
    pub depth: u32,
    /// It holds the processes too.
    #[serde(default)]
    pub memory: bool,
    /// The bytes that it holds beyond its parent, once they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Files and directories that it holds beyond its parent, once they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// The template below it. Not used where `image` is present.
    pub template: String,
    /// The image of its backend below it, instead of a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How long the sandbox stood still, in milliseconds. Only in the answer to the request that
    /// took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_ms: Option<f64>,
    /// How long it took, in milliseconds. Only in the answer to the request that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<f64>,
}

/// Why a snapshot was taken: `start` is what a sandbox began with, `safety` what a rollback
/// replaced, `rollback` where that led, `fork` what forks were made of, and `command` the state
/// between two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SnapshotReason {
    Start,
    Request,
    Turn,
    Tool,
    Command,
    Safety,
    Rollback,
    Fork,
    End,
    Promote,
    Import,
}

/// How a snapshot was taken: `unchanged` needed nothing, `sealed` made what was written immutable,
/// `copied` copied it, and `cloned` made a copy that shares its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SnapshotMethod {
    Unchanged,
    Sealed,
    Copied,
    Cloned,
}

/// Which snapshots are taken without being asked for: around `commands` and at the end of turns, at
/// the end of `turns`, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum HistoryMode {
    #[default]
    Commands,
    Turns,
    Off,
}

/// Several snapshots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SnapshotList {
    /// Parents before their children.
    pub items: Vec<Snapshot>,
}

/// Captures a sandbox's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"name": "before the upgrade"})))]
pub struct TakeSnapshot {
    /// One that has a name is kept until it is deleted. Unique among the snapshots of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(min_length = 1, max_length = 128, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")
    )]
    pub name: Option<String>,
    /// Answer when it survives a power cut. Otherwise it does soon after.
    pub durable: bool,
    /// Capture the processes too: they stand still meanwhile and then go on, and a rollback to the
    /// snapshot and its forks go on from there. Only behind a backend whose `memory_snapshots` is
    /// true, and without a network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub memory: bool,
    /// With `memory`: also while somebody waits for a command. That connection breaks, and the
    /// command goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Gives a snapshot a name, or takes it away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"name": "it works"})))]
pub struct NameSnapshot {
    /// Null takes the name away: the snapshot is then kept no longer than others.
    #[serde(deserialize_with = "given")]
    #[cfg_attr(
        feature = "schema",
        schema(required, min_length = 1, max_length = 128, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")
    )]
    pub name: Option<String>,
}

/// A value that may be null and must be there.
fn given<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(reader)
}

/// Says that a turn is over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"name": "tests pass"})))]
pub struct CompleteTurn {
    /// A name for the snapshot of what it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(min_length = 1, max_length = 128, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")
    )]
    pub name: Option<String>,
    /// The session whose turn it was. Not where the path names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^sess-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub session_id: Option<String>,
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Turn {
    /// 1 for the sandbox's first.
    pub turn: u32,
    /// The state it left.
    pub snapshot: Snapshot,
    /// The bytes that the sandbox alone holds on disk. Absent while they are being counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_used_bytes: Option<u64>,
    /// Files and directories that are the sandbox's alone. Absent while they are being counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_used_inodes: Option<u64>,
}

/// A session that was ended, and the state to go on from another time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EndedSession {
    pub session: Session,
    /// Create a sandbox with this `snapshot_id` to go on.
    pub snapshot: Snapshot,
}

/// Gives a sandbox the files of an earlier state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"snapshot_id": "snap-00000000-0000-4000-8000-000000000000"})))]
pub struct Rollback {
    /// Where to.
    #[cfg_attr(feature = "schema", schema(pattern = "^snap-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub snapshot_id: String,
    /// Also if somebody waits for a command in it; the command ends.
    #[serde(default)]
    pub force: bool,
}

/// Takes back operations, or brings back what was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Steps {
    /// How many operations.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000, default = 1))]
    pub steps: u32,
    /// Also if somebody waits for a command in it, which ends; and if an undo takes back more than
    /// was asked for, because states in between were not kept.
    pub force: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self { steps: 1, force: false }
    }
}

/// The result of a rollback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RolledBack {
    pub sandbox: Sandbox,
    /// The state that it has now.
    pub to: Snapshot,
    /// The state that was replaced: roll back to it to have everything as it was.
    pub safety: Snapshot,
    /// The processes that ran in it, and ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedProcess>,
    /// True if the snapshot's processes go on, or will when the sandbox is resumed; absent if it
    /// holds none. They cannot in a sandbox that has got a network or another backend since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// How to come back to the state that was replaced, if an undo or a redo leads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<WayBack>,
    /// How long it took, in milliseconds.
    pub took_ms: f64,
}

/// A command that ended with the state it ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EndedProcess {
    pub process_id: u64,
    /// As a shell would be told, cut where it is long.
    pub command: String,
}

/// So many steps of an undo or a redo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WayBack {
    pub by: WayBackBy,
    pub steps: u32,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum WayBackBy {
    Undo,
    Redo,
}

/// The forks to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"count": 3, "labels": {"try": "yes"}})))]
pub struct Fork {
    /// How many.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 100, default = 1))]
    pub count: u32,
    /// A name to call it by, for a single one. The original's name stays the original's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"))]
    pub name: Option<String>,
    /// The name of their user, in the caller's own words. Left out: the name of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            min_length = 1,
            max_length = 200,
            pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
        )
    )]
    pub client: Option<String>,
    /// Time to live, in seconds. Left out: as the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub ttl_s: Option<u64>,
    /// The treatment of their files when their time is over. Left out: as the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
    /// On top of the original's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words))]
    pub labels: BTreeMap<String, String>,
    /// Anything to remember with them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words))]
    pub metadata: BTreeMap<String, String>,
}

impl Default for Fork {
    fn default() -> Self {
        Self {
            count: 1,
            name: None,
            client: None,
            ttl_s: None,
            on_expiry: None,
            labels: BTreeMap::new(),
            metadata: BTreeMap::new(),
        }
    }
}

/// Forks that were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Forks {
    /// Each with the session that was made with it.
    pub sandboxes: Vec<Sandbox>,
}

/// Merges a fork's changes into another sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"apply": true, "conflicts": "refuse"})))]
pub struct Promote {
    /// Which one, by any word for it. Left out: the sandbox that it is a fork of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^(@last|@default|[a-z][a-z0-9-]{0,62})$"))]
    pub into: Option<String>,
    /// Do it. Otherwise the answer only tells what it would come to.
    pub apply: bool,
    /// The treatment of paths that both sides changed.
    pub conflicts: ConflictRule,
    /// Also if somebody waits for a command in the other sandbox; the command ends.
    pub force: bool,
    /// Take only what changed at or below this path, which is absolute and has no `..`. What is
    /// elsewhere is no conflict either. Left out: everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095, pattern = "^/"))]
    pub path: Option<String>,
    /// Do not take what the `.gitignore` files of the fork name.
    pub leave_ignored: bool,
    /// Do not take what matches one of these, each as a line of a `.gitignore` in
    /// `path`, or in the root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_items = 256))]
    pub exclude: Vec<String>,
}

/// The treatment of paths that both sides changed: with `refuse` nothing is merged, `ours` keeps
/// those of the sandbox that is merged into, `theirs` takes those of the fork.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ConflictRule {
    #[default]
    Refuse,
    Ours,
    Theirs,
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Promoted {
    /// The sandbox that is merged into.
    pub into: String,
    /// The changes that the merge makes to it.
    pub changes: Vec<FileDiff>,
    /// The paths that both sides changed differently.
    pub conflicts: Vec<Conflict>,
    /// There are more changes or conflicts than are told.
    pub truncated: bool,
    /// Present if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<RolledBack>,
}

/// The header of an export that tells about how many bytes will come.
pub const EXPORT_SIZE_HEADER: &str = "warren-export-bytes";

/// Makes a template that begins with a snapshot's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"name": "with-tools"})))]
pub struct MakeTemplate {
    /// Its name.
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$"))]
    pub name: String,
}
