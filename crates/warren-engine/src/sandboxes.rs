use std::collections::BTreeMap;

use futures_util::Stream;
use serde::Serialize;
use warren_core::catalog::SandboxFilter;
use warren_core::{
    DeathCause, DeathCertificate, DiskSpace, EventRecord, OnExpiry, Owner, Page, PageRequest, SandboxId, SandboxRecord,
    TemplateInfo, TemplateName, Usage,
};

use crate::{Engine, EngineError, Mode};

/// Whether the files of a sandbox that is ended stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedFiles {
    Keep,
    Delete,
}

/// What can be changed of a sandbox that exists. `None` leaves it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    pub labels: Option<BTreeMap<String, String>>,
    pub metadata: Option<BTreeMap<String, String>>,
    /// Time to live, counted from now.
    pub ttl_s: Option<u64>,
    pub on_expiry: Option<OnExpiry>,
}

/// Figures since the engine started, and of this moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    pub created: u64,
    pub create_failed: u64,
    pub destroyed: u64,
    pub destroyed_by_timeout: u64,
    pub active_sandboxes: u64,
    pub paused_sandboxes: u64,
    pub stopped_sandboxes: u64,
    pub active_sessions: u64,
    pub detached_sessions: u64,
    pub pool_size: u64,
    pub pool_hit_rate: f64,
    pub mean_creation_ms: f64,
    pub execs: u64,
}

/// Whether work can be done here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    pub status: HealthStatus,
    /// What is wrong, in sentences. Empty when all is well.
    pub problems: Vec<String>,
    /// Each backend, and whether it can make sandboxes.
    pub backends: BTreeMap<String, bool>,
    pub disk: Option<DiskSpace>,
    pub sandboxes: u64,
    pub max_sandboxes: u64,
    pub sessions: u64,
    pub uptime_s: u64,
    /// Errors of the engine's own making since it started.
    pub errors: u64,
    #[serde(skip)]
    pub mode: Option<Mode>,
}

/// In order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    Ok,
    Warning,
    /// New work is refused.
    Critical,
}

/// Events as they happen. Ends when the engine does; a reader that falls behind goes on from the log and misses nothing
/// that the log still has.
pub type EventStream = std::pin::Pin<Box<dyn Stream<Item = EventRecord> + Send>>;

impl Engine {
    pub async fn sandbox(&self, owner: &Owner, id: &SandboxId) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    pub async fn sandboxes(
        &self,
        owner: &Owner,
        filter: &SandboxFilter,
        page: &PageRequest,
    ) -> Result<Page<SandboxRecord>, EngineError> {
        unimplemented!()
    }

    pub async fn update_sandbox(
        &self,
        owner: &Owner,
        id: &SandboxId,
        patch: Patch,
    ) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    /// Freezes every process. Idempotent.
    pub async fn pause(&self, owner: &Owner, id: &SandboxId) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    /// Thaws a paused sandbox, or starts again one that was stopped with its files kept. Idempotent.
    pub async fn resume(&self, owner: &Owner, id: &SandboxId) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    /// Ends a sandbox and its sessions. With [`StoppedFiles::Delete`] also one that was stopped before. Idempotent.
    pub async fn stop(
        &self,
        owner: &Owner,
        id: &SandboxId,
        files: StoppedFiles,
        by: &str,
    ) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    /// Ends a sandbox for a reason of the engine's own; otherwise as [`Engine::stop`].
    pub(crate) async fn stop_because(
        &self,
        owner: &Owner,
        id: &SandboxId,
        cause: DeathCause,
        detail: String,
        files: StoppedFiles,
    ) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    /// How it ended; `None` while it lives.
    pub async fn death(
        &self,
        owner: &Owner,
        id: &SandboxId,
    ) -> Result<Option<DeathCertificate>, EngineError> {
        unimplemented!()
    }

    pub async fn usage(&self, owner: &Owner, id: &SandboxId) -> Result<Usage, EngineError> {
        unimplemented!()
    }

    /// Waits until the sandbox's record has a later generation than `seen`, or for `patience_ms`.
    pub async fn changed(
        &self,
        owner: &Owner,
        id: &SandboxId,
        seen: u64,
        patience_ms: u64,
    ) -> Result<SandboxRecord, EngineError> {
        unimplemented!()
    }

    pub async fn events(
        &self,
        owner: &Owner,
        after: u64,
        limit: u32,
    ) -> Result<Vec<EventRecord>, EngineError> {
        unimplemented!()
    }

    /// The owner's events after a number, then every new one.
    pub async fn follow_events(&self, owner: &Owner, after: u64) -> Result<EventStream, EngineError> {
        unimplemented!()
    }

    /// The number of the newest event.
    pub fn last_event(&self) -> u64 {
        unimplemented!()
    }

    pub async fn templates(&self) -> Result<Vec<TemplateInfo>, EngineError> {
        unimplemented!()
    }

    pub async fn remove_template(&self, name: &TemplateName) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Templates that existing sandboxes were made from.
    pub fn templates_in_use(&self) -> Vec<TemplateName> {
        unimplemented!()
    }

    pub async fn stats(&self) -> Stats {
        unimplemented!()
    }

    pub async fn health(&self) -> Health {
        unimplemented!()
    }
}
