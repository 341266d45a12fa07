use warren_core::{NewRun, Owner, RunDenied, RunRecord, SessionId, SessionRecord};

use crate::{Engine, EngineError, SessionView};

/// Whether a session may have another run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    pub denied: Option<RunDenied>,
    pub runs_left: u32,
    pub tokens_left: u64,
    /// Absent: no limit of its own.
    pub seconds_left: Option<u64>,
}

/// All there is to know of a session.
#[derive(Debug, Clone)]
pub struct SessionDetails {
    pub view: SessionView,
    pub runs: Vec<RunRecord>,
}

impl Engine {
    /// Appends a run; sums are exact however many do so at once.
    pub async fn record_run(
        &self,
        owner: &Owner,
        id: &SessionId,
        run: NewRun,
    ) -> Result<RunRecord, EngineError> {
        unimplemented!()
    }

    pub async fn can_run(&self, owner: &Owner, id: &SessionId) -> Result<Allowance, EngineError> {
        unimplemented!()
    }

    pub async fn runs(&self, owner: &Owner, id: &SessionId) -> Result<Vec<RunRecord>, EngineError> {
        unimplemented!()
    }

    pub async fn session_details(
        &self,
        owner: &Owner,
        id: &SessionId,
    ) -> Result<SessionDetails, EngineError> {
        unimplemented!()
    }

    /// What the session needs is there, at this address.
    pub async fn mark_ready(
        &self,
        owner: &Owner,
        id: &SessionId,
        url: Option<String>,
        job: Option<String>,
    ) -> Result<SessionRecord, EngineError> {
        unimplemented!()
    }

    pub async fn mark_failed(
        &self,
        owner: &Owner,
        id: &SessionId,
        reason: String,
    ) -> Result<SessionRecord, EngineError> {
        unimplemented!()
    }

    /// Marks the session expired; its sandbox is stopped in the background, files kept as the sandbox was told.
    pub async fn expire(&self, owner: &Owner, id: &SessionId) -> Result<SessionRecord, EngineError> {
        unimplemented!()
    }
}
