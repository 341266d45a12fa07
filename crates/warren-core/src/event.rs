use serde::{Deserialize, Serialize};

use crate::id::SandboxId;
use crate::owner::Owner;
use crate::unique::{SessionId, SnapshotId};

/// Something that happened, in the order in which it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Given by the catalog; zero until then. Grows with every event, over restarts too.
    pub number: u64,
    pub at_unix_ms: u64,
    pub owner: Owner,
    pub sandbox: Option<SandboxId>,
    pub session: Option<SessionId>,
    #[serde(flatten)]
    pub event: Event,
}

/// A kind of event, with its details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    SandboxCreated {
        template: String,
        backend: String,
    },
    SandboxReady {
        took_ms: u64,
    },
    SandboxPaused {
        by: crate::sandbox::PausedBy,
    },
    SandboxResumed {
        took_ms: u64,
    },
    /// Its processes are gone; the certificate has the rest.
    SandboxDied {
        cause: crate::death::DeathCause,
        detail: String,
        files_kept: bool,
    },
    SandboxAdopted,
    SandboxRemoved,
    SnapshotTaken {
        snapshot: SnapshotId,
        reason: crate::snapshot::SnapshotReason,
        method: crate::snapshot::SnapshotMethod,
    },
    SnapshotDeleted {
        snapshot: SnapshotId,
    },
    /// It has the files of this snapshot now; `safety` is what they replaced.
    SandboxRolledBack {
        to: SnapshotId,
        safety: SnapshotId,
    },
    /// It runs behind another wall now, with the same files.
    SandboxMoved {
        from: String,
        to: String,
        by: String,
    },
    /// Its backend is away: whether it runs is not known. Nothing of it is given up.
    SandboxUnreachable {
        backend: String,
    },
    /// Its backend answers again, and it runs.
    SandboxReachable {
        backend: String,
    },
    /// The files that these entries of its journal left were not kept as states of their own.
    HistoryNotKept {
        entries: Vec<u64>,
        reason: String,
    },
    SandboxForked {
        snapshot: SnapshotId,
        count: u32,
    },
    /// Changes of another sandbox were merged into it.
    SandboxPromoted {
        from: SandboxId,
        snapshot: SnapshotId,
    },
    /// A connection was refused, or somebody is asked about it.
    NetworkDenied {
        entry: crate::network::NetworkEntry,
    },
    NetworkAsked {
        entry: crate::network::NetworkEntry,
    },
    NetworkChanged {
        mode: crate::network::NetworkMode,
        by: String,
    },
    /// The link that it had before the server started could not be taken over: it is cut off until
    /// it is started again.
    NetworkLost {
        detail: String,
    },
    ExecStarted {
        process: u64,
        command: String,
    },
    ExecEnded {
        process: u64,
        exit_code: i32,
        duration_ms: u64,
    },
    SessionAcquired {
        client: String,
    },
    SessionAttached {
        client: String,
    },
    SessionDetached,
    SessionSuspended,
    SessionResumed,
    SessionReleased,
    SessionExpired {
        reason: String,
    },
    SessionTerminated {
        by: String,
    },
    SessionProvisioned {
        state: String,
    },
    RunRecorded {
        run: u32,
        tokens: u64,
        duration_ms: u64,
    },
    KeyCreated {
        key: String,
        scope: crate::key::Scope,
    },
    KeyRevoked {
        key: String,
    },
    /// It was made or replaced.
    SecretChanged {
        secret: crate::network::SecretName,
    },
    SecretRemoved {
        secret: crate::network::SecretName,
    },
}
