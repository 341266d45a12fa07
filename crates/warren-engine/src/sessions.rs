use std::collections::BTreeMap;
use std::path::PathBuf;

use warren_core::catalog::SessionFilter;
use warren_core::{
    ByteSize, OnExpiry, Owner, Page, PageRequest, RunLimits, SandboxId, SandboxKind, SandboxRecord,
    SandboxSpec, SessionId, SessionRecord, Timeouts,
};

use crate::{Engine, EngineError};

/// What a fresh sandbox is to be.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    /// Validated by the engine. The time to live is `limits.lifetime_s`.
    pub spec: SandboxSpec,
    pub disk_limit_required: bool,
    pub kind: SandboxKind,
    pub metadata: BTreeMap<String, String>,
    pub on_expiry: OnExpiry,
}

/// A request for a session with a sandbox.
#[derive(Debug, Clone)]
pub struct Acquire {
    pub client: String,
    pub sandbox: NewSandbox,
    /// Attach to this one if it exists and fits, unless `fresh`.
    pub preferred: Option<SandboxId>,
    pub fresh: bool,
    pub required: Requirements,
    /// A named backend serves, or it is an error.
    pub backend: Option<String>,
    pub timeouts: Option<Timeouts>,
    /// Present: the session is one of an agent with limited runs, and ends after `limits.duration_s`.
    pub limits: Option<RunLimits>,
    /// Take the limits of this class of customers; an unknown one is an error.
    pub tier: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    /// Whether the session is answered at once and its sandbox made in the background.
    pub background: bool,
    pub idempotency: Option<Expected>,
}

/// A create that may be repeated.
#[derive(Debug, Clone)]
pub struct Expected {
    pub key: String,
    /// Of the request's body.
    pub fingerprint: String,
}

/// What the sandbox must be able to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    pub network: bool,
    pub write_access: bool,
    pub memory: Option<ByteSize>,
    pub readable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
    /// Labels that a preferred sandbox must have; a fresh one gets them.
    pub labels: BTreeMap<String, String>,
}

/// A session with its sandbox.
#[derive(Debug, Clone)]
pub struct Acquired {
    pub session: SessionRecord,
    pub sandbox: SandboxRecord,
    /// The sandbox was made for this call.
    pub fresh: bool,
    /// An earlier call with the same idempotency key made it.
    pub repeated: bool,
}

/// A request to join a sandbox.
#[derive(Debug, Clone)]
pub struct Attach {
    pub sandbox: SandboxId,
    pub client: String,
    /// Make one of this if there is no such sandbox any more.
    pub create_if_missing: Option<NewSandbox>,
    pub timeouts: Option<Timeouts>,
}

/// What becomes of the sandbox of a released session that no other session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It is stopped and its files stay. (With a pool: it goes back there after a reset.)
    KeepAlive,
    Destroy,
}

/// A session and where its sandbox stands.
#[derive(Debug, Clone)]
pub struct SessionView {
    pub session: SessionRecord,
    /// Absent once the sandbox's record is forgotten.
    pub sandbox: Option<SandboxRecord>,
}

impl Engine {
    /// A session with a sandbox: the preferred one, else a fresh one.
    pub async fn acquire(&self, owner: &Owner, request: Acquire) -> Result<Acquired, EngineError> {
        unimplemented!()
    }

    pub async fn attach(&self, owner: &Owner, request: Attach) -> Result<Acquired, EngineError> {
        unimplemented!()
    }

    pub async fn detach(&self, owner: &Owner, id: &SessionId) -> Result<SessionRecord, EngineError> {
        unimplemented!()
    }

    pub async fn suspend(&self, owner: &Owner, id: &SessionId) -> Result<SessionView, EngineError> {
        unimplemented!()
    }

    /// Makes a detached, suspended or expired session active again, and its sandbox run.
    pub async fn resume_session(&self, owner: &Owner, id: &SessionId) -> Result<SessionView, EngineError> {
        unimplemented!()
    }

    pub async fn release(
        &self,
        owner: &Owner,
        id: &SessionId,
        release: Release,
    ) -> Result<SessionRecord, EngineError> {
        unimplemented!()
    }

    /// Ends the session and, whoever else uses it, its sandbox with all files.
    pub async fn terminate(
        &self,
        owner: &Owner,
        id: &SessionId,
        by: &str,
    ) -> Result<SessionRecord, EngineError> {
        unimplemented!()
    }

    pub async fn session(&self, owner: &Owner, id: &SessionId) -> Result<SessionView, EngineError> {
        unimplemented!()
    }

    pub async fn sessions(
        &self,
        owner: &Owner,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionRecord>, EngineError> {
        unimplemented!()
    }

    /// The client's model works for up to `seconds`: the sandbox does not count as idle. Zero ends the lease.
    pub async fn think(
        &self,
        owner: &Owner,
        id: &SessionId,
        seconds: u64,
    ) -> Result<SessionRecord, EngineError> {
        unimplemented!()
    }

    pub async fn default_sandbox(&self, owner: &Owner) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    pub async fn set_default_sandbox(
        &self,
        owner: &Owner,
        id: Option<&SandboxId>,
    ) -> Result<(), EngineError> {
        unimplemented!()
    }
}

impl Engine {
    /// The sandbox has ended or could not be made: its sessions no longer hold it. Called by its driver, once the record says so.
    pub(crate) async fn sandbox_ended(&self, sandbox: &SandboxRecord) {
        unimplemented!()
    }

    /// The sandbox was made or started again. Called by its driver, once the record says so.
    pub(crate) async fn sandbox_ready(&self, sandbox: &SandboxRecord) {
        unimplemented!()
    }

    /// Ends sessions whose time is over. Part of every sweep.
    pub(crate) async fn sweep_sessions(&self) {
        unimplemented!()
    }

    /// Whether a client's model works, so that the sandbox does not count as idle. Must not wait.
    pub(crate) fn is_thinking(&self, id: &SandboxId) -> bool {
        unimplemented!()
    }
}
