mod code;
mod image;
mod wording;

use warren_core::catalog::CatalogError;
use warren_core::{
    Conflict, DenyReason, IsolationError, IsolationErrorKind, LayerError, NetworkError, NodeId, RunDenied,
    SandboxId, SandboxName, SessionId, SessionState, SnapshotId, Status, TemplateError,
};
use warren_wire::guest::{CallError, Failure};

pub use image::{ImageError, Unbuilt};
pub use wording::Wording;

pub(crate) use warren_core::{Field, PolicyField, error_chain as sentence};

use crate::work_kind::WorkKind;

/// Why the engine did not do what was asked. Nothing is half done when one of these comes back.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// It does not exist, or belongs to somebody else: the two cannot be told apart.
    #[error("there is no {} `{id}`", .what.word())]
    NotFound { what: Missing, id: String },
    #[error("{id} is {status:?}: {reason}")]
    Denied { id: SandboxId, status: Status, reason: DenyReason },
    #[error("session {id} is {state:?}: {advice}")]
    SessionState { id: SessionId, state: SessionState, advice: &'static str },
    #[error("{}", .wording.of(&.field.to_string()))]
    Invalid { field: Field, wording: Wording },
    #[error("{0}")]
    RunDenied(RunDenied),
    #[error("{alive} sandboxes exist, and no more than {most} may: end one, or try again later")]
    MaxSandboxes { alive: usize, most: usize },
    #[error(
        "the owner has {alive} sandboxes, and no more than {most} may be one owner's (limits.max_sandboxes_per_owner): end one"
    )]
    MaxSandboxesOfOwner { alive: usize, most: usize },
    /// `whose` is a sandbox, or all of an owner's; `setting` is the limit that says so.
    #[error("{whose} may have {most} calls under way ({setting}), and as many are: wait for one to end")]
    TooManyCalls { whose: String, most: usize, setting: &'static str },
    /// The owner's line is full, or nobody in it got a place in time.
    #[error("{}: wait for one to end, and try again", .kind.limit(*.each_owner, *.all))]
    MaxHeavyWork { kind: WorkKind, each_owner: usize, all: usize },
    #[error(
        "answers of one owner that are kept in memory come to {each_owner_mib} MiB at most: ask for less output, or wait for others to end"
    )]
    MaxKeptOutput { each_owner_mib: usize },
    #[error("the machine has no thread left for this")]
    NoThread(#[source] std::io::Error),
    #[error("the disk has {free_mib} MiB left, and new work is refused below {critical_mib} MiB")]
    DiskLow { free_mib: u64, critical_mib: u64 },
    #[error("the server only answers questions: {0}")]
    ReadOnly(String),
    #[error("the server is shutting down")]
    ShuttingDown,
    /// For each backend why not.
    #[error("no backend can serve this: {}", .reasons.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; "))]
    NothingFits {
        /// The part of the request that left no more to choose from.
        asked: Option<Field>,
        reasons: Vec<(String, String)>,
    },
    /// Nothing can be done with its sandboxes, which are kept, until the backend is back.
    #[error("the backend `{name}` is away: {why}")]
    BackendUnavailable { name: String, why: String },
    #[error("the idempotency key was used for a different request")]
    IdempotencyMismatch,
    #[error("{id} ended: {detail}")]
    SandboxEnded { id: SandboxId, detail: String },
    #[error("{what} took longer than {seconds} s")]
    TimedOut { what: String, seconds: u64 },
    /// Traffic came for a paused sandbox that wakes for it, and it did not.
    #[error("{id} is paused and does not go on")]
    NotWoken {
        id: SandboxId,
        #[source]
        source: Box<EngineError>,
    },
    /// The agent refused: a file that is not there, a user who may not.
    #[error(transparent)]
    Refused(Failure),
    #[error("talk to the agent of {id}")]
    Agent {
        id: SandboxId,
        #[source]
        source: CallError,
    },
    #[error("{id} could not be started")]
    StartFailed {
        id: SandboxId,
        #[source]
        source: IsolationError,
    },
    #[error("the network of {id} could not be set up or changed")]
    Network {
        id: SandboxId,
        #[source]
        source: NetworkError,
    },
    #[error("the backend failed")]
    Backend(#[source] IsolationError),
    #[error(transparent)]
    Template(TemplateError),
    #[error("the catalog failed")]
    Catalog(#[from] CatalogError),
    /// Only the node that holds a sandbox or a snapshot can do this.
    #[error("{id} is held by another node, {node}: ask the server there")]
    OtherNode { id: String, node: NodeId },
    /// The machine stopped before it was safely on disk, or its files are not what they should be.
    #[error("{id} is damaged and cannot be used: go back to an earlier one")]
    SnapshotDamaged { id: SnapshotId },
    /// `holder` is absent if it let go of the name meanwhile.
    #[error("another of your sandboxes, {}, has the name `{name}`", .holder.as_ref().map_or("which just ended", SandboxId::as_str))]
    SandboxNameTaken { name: SandboxName, holder: Option<SandboxId> },
    /// Some of those that begin so, the newest first.
    #[error("`{beginning}` may be {}: write more of it", list_of(.ids, *.more))]
    AmbiguousPrefix { beginning: String, ids: Vec<SandboxId>, more: bool },
    #[error("another snapshot of {sandbox} has the name `{name}`")]
    SnapshotNameTaken { sandbox: SandboxId, name: String },
    /// `what` is `undo` or `redo`.
    #[error("{id} has nothing to {what}")]
    NothingToUndo { id: SandboxId, what: &'static str },
    /// An undo would take back more than was asked for, because the states in between were not
    /// kept.
    #[error(
        "that would also take back {}, whose states were not kept: force it to take back all of that, or ask for more steps",
        .entries.iter().map(LostEntry::sentence).collect::<Vec<_>>().join(", ")
    )]
    HistoryNotKept { id: SandboxId, entries: Vec<LostEntry> },
    /// Both sides changed these; nothing was merged.
    #[error("{} paths were changed on both sides: choose `ours` or `theirs`, or settle them first", .conflicts.len())]
    MergeConflict { into: SandboxId, conflicts: Vec<Conflict> },
    #[error(
        "{id} stands on {depth} layers, and on more it cannot: try again when they have been joined, or fork it"
    )]
    TooDeep { id: SandboxId, depth: usize },
    #[error("snapshots are not available here: {0}")]
    SnapshotsUnavailable(String),
    #[error(transparent)]
    Layers(#[from] LayerError),
}

/// Ids in a sentence.
fn list_of(ids: &[SandboxId], more: bool) -> String {
    let listed: Vec<&str> = ids.iter().map(SandboxId::as_str).collect();
    let listed = listed.join(" or ");
    if more { format!("{listed}, or others") } else { listed }
}

/// An entry of the journal whose state was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostEntry {
    pub number: u64,
    /// The operation, in words for people.
    pub what: String,
    /// Why it was not kept.
    pub reason: String,
}

impl LostEntry {
    fn sentence(&self) -> String {
        format!("entry {} (`{}`; {})", self.number, self.what, self.reason)
    }
}

/// The kind of thing that was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missing {
    Sandbox,
    Session,
    Process,
    DefaultSandbox,
    Snapshot,
    Tool,
    NetworkAsk,
    Secret,
}

impl Missing {
    pub fn word(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Session => "session",
            Self::Process => "process",
            Self::DefaultSandbox => "default sandbox of",
            Self::Snapshot => "snapshot",
            Self::Tool => "tool",
            Self::NetworkAsk => "network request",
            Self::Secret => "secret",
        }
    }
}

impl EngineError {
    pub fn sandbox_not_found(id: impl ToString) -> Self {
        Self::NotFound { what: Missing::Sandbox, id: id.to_string() }
    }

    pub fn session_not_found(id: impl ToString) -> Self {
        Self::NotFound { what: Missing::Session, id: id.to_string() }
    }

    pub fn snapshot_not_found(id: impl ToString) -> Self {
        Self::NotFound { what: Missing::Snapshot, id: id.to_string() }
    }

    pub fn invalid(field: Field, wording: impl Into<Wording>) -> Self {
        Self::Invalid { field, wording: wording.into() }
    }

    /// A wrong value, with a text that follows the field's name: `must be between 1 and 5`.
    pub(crate) fn predicate(field: Field, text: impl Into<String>) -> Self {
        Self::invalid(field, Wording::Predicate(text.into()))
    }

    /// A wrong value, with a text that follows the field's name and a colon.
    pub(crate) fn reason(field: Field, text: impl Into<String>) -> Self {
        Self::invalid(field, Wording::Reason(text.into()))
    }

    /// True if it says that the sandbox's life is over.
    pub(crate) fn is_end(&self) -> bool {
        match self {
            Self::SandboxEnded { .. } => true,
            Self::Backend(error) => {
                matches!(error.kind, IsolationErrorKind::Ended | IsolationErrorKind::NotFound)
            }
            _ => false,
        }
    }
}
