//! Snapshots of sandboxes, and what they make possible: going back, forking, comparing, merging.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use warren_core::catalog::SnapshotFilter;
use warren_core::{
    Conflicts, Diff, DiffOptions, ImportFormat, Merge, OnExpiry, Owner, Page, PageRequest, SandboxId,
    SandboxRecord, SessionId, SessionRecord, SnapshotId, SnapshotRecord, Space, TemplateInfo, TemplateName,
};

use crate::{Acquired, Engine, EngineError};

/// A snapshot that somebody asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakeSnapshot {
    /// 1 to 128 printable characters, unique among the snapshots of the sandbox.
    pub name: Option<String>,
    /// Answer when it survives a power cut.
    pub durable: bool,
    pub session: Option<SessionId>,
}

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub snapshot: SnapshotRecord,
    /// How long the sandbox stood still.
    pub frozen: Duration,
    pub took: Duration,
}

/// A turn that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDone {
    pub turn: u32,
    pub taken: Taken,
    /// What the sandbox alone holds; absent while that is being counted.
    pub space_used: Option<Space>,
}

/// A state: one that was captured, or that of a sandbox now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    Snapshot(SnapshotId),
    Sandbox(SandboxId),
}

/// What forks are to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkOrder {
    /// 1 to 100.
    pub count: u32,
    /// Who uses them, in the words of the client.
    pub client: String,
    /// Absent: what the original has.
    pub lifetime_s: Option<u64>,
    pub on_expiry: Option<OnExpiry>,
    /// On top of the original's.
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
}

/// What a rollback did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBack {
    pub sandbox: SandboxRecord,
    pub to: SnapshotRecord,
    /// What it replaced.
    pub safety: SnapshotRecord,
    pub took: Duration,
}

/// A merge of a fork's changes into another sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromoteOrder {
    /// Absent: the sandbox that it is a fork of.
    pub into: Option<SandboxId>,
    /// Without it the merge is only told.
    pub apply: bool,
    pub conflicts: Conflicts,
    /// Also if work is going on in the other sandbox; it is ended.
    pub force: bool,
}

/// What a merge comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promoted {
    pub into: SandboxId,
    pub merge: Merge,
    /// Present if it was applied.
    pub applied: Option<RolledBack>,
}

/// A session that was ended for good, and the state to go on from another time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSession {
    pub session: SessionRecord,
    pub taken: Taken,
}

/// What is exported of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportOrder {
    /// The files below a directory, as a tar file.
    Tar { below: PathBuf },
    /// What changed since an earlier state, as a patch for git.
    Patch { since: Point, below: PathBuf },
    /// The snapshot with all that came before it, for another Warren.
    History,
}

fn missing() -> EngineError {
    EngineError::NothingFits(vec![("snapshots".to_owned(), "are not there yet".to_owned())])
}

impl Engine {
    /// Captures a sandbox's files.
    pub async fn take_snapshot(
        &self,
        _owner: &Owner,
        _id: &SandboxId,
        _order: TakeSnapshot,
    ) -> Result<Taken, EngineError> {
        Err(missing())
    }

    /// A turn is over: captures the state it left.
    pub async fn complete_turn(
        &self,
        _owner: &Owner,
        _id: &SandboxId,
        _session: Option<SessionId>,
        _name: Option<String>,
    ) -> Result<TurnDone, EngineError> {
        Err(missing())
    }

    pub async fn snapshots(
        &self,
        _owner: &Owner,
        _filter: &SnapshotFilter,
        _page: &PageRequest,
    ) -> Result<Page<SnapshotRecord>, EngineError> {
        Err(missing())
    }

    pub async fn snapshot(&self, _owner: &Owner, _id: &SnapshotId) -> Result<SnapshotRecord, EngineError> {
        Err(missing())
    }

    /// Gives a snapshot a name, or takes it away.
    pub async fn name_snapshot(
        &self,
        _owner: &Owner,
        _id: &SnapshotId,
        _name: Option<String>,
    ) -> Result<SnapshotRecord, EngineError> {
        Err(missing())
    }

    pub async fn delete_snapshot(&self, _owner: &Owner, _id: &SnapshotId) -> Result<(), EngineError> {
        Err(missing())
    }

    /// Gives a sandbox the files of an earlier state, after capturing those it has. Its processes end. `force`: also those
    /// that somebody waits for.
    pub async fn rollback(
        &self,
        _owner: &Owner,
        _id: &SandboxId,
        _to: &SnapshotId,
        _force: bool,
    ) -> Result<RolledBack, EngineError> {
        Err(missing())
    }

    /// Goes back this many states.
    pub async fn undo(
        &self,
        _owner: &Owner,
        _id: &SandboxId,
        _steps: u32,
        _force: bool,
    ) -> Result<RolledBack, EngineError> {
        Err(missing())
    }

    /// Takes back an undo.
    pub async fn redo(
        &self,
        _owner: &Owner,
        _id: &SandboxId,
        _steps: u32,
        _force: bool,
    ) -> Result<RolledBack, EngineError> {
        Err(missing())
    }

    /// Makes sandboxes that share everything with a state until they write.
    pub async fn fork(
        &self,
        _owner: &Owner,
        _from: &Point,
        _order: ForkOrder,
    ) -> Result<Vec<Acquired>, EngineError> {
        Err(missing())
    }

    pub async fn diff(
        &self,
        _owner: &Owner,
        _from: &Point,
        _to: &Point,
        _options: DiffOptions,
    ) -> Result<Diff, EngineError> {
        Err(missing())
    }

    pub async fn promote(
        &self,
        _owner: &Owner,
        _fork: &SandboxId,
        _order: PromoteOrder,
    ) -> Result<Promoted, EngineError> {
        Err(missing())
    }

    /// Writes a state for others. Runs on a thread; an error may come after some bytes.
    pub async fn export(
        &self,
        _owner: &Owner,
        _what: &Point,
        _order: ExportOrder,
        _to: Box<dyn Write + Send>,
    ) -> Result<(), EngineError> {
        Err(missing())
    }

    /// Reads what another Warren exported, or a tar file, which needs a template to stand on. Answers with the snapshots in
    /// order; the last is the newest.
    pub async fn import(
        &self,
        _owner: &Owner,
        _format: ImportFormat,
        _template: Option<TemplateName>,
        _name: Option<String>,
        _from: Box<dyn Read + Send>,
    ) -> Result<Vec<SnapshotRecord>, EngineError> {
        Err(missing())
    }

    /// Makes a template that begins with a snapshot's state.
    pub async fn make_template(
        &self,
        _owner: &Owner,
        _snapshot: &SnapshotId,
        _name: &TemplateName,
    ) -> Result<TemplateInfo, EngineError> {
        Err(missing())
    }

    /// Captures the state that a session leaves, then stops its sandbox. The session can be followed up by another that begins
    /// with the snapshot.
    pub async fn end_session(&self, _owner: &Owner, _id: &SessionId) -> Result<EndedSession, EngineError> {
        Err(missing())
    }
}
