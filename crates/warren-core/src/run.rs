//! Recorded runs, and the limits that decide whether there may be another.

use serde::{Deserialize, Serialize};

use crate::session::{Provision, SessionRecord, SessionState};
use crate::unique::{RunId, SessionId};
use crate::world::Clock;

/// A run as its client reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    pub task: String,
    #[serde(default)]
    pub result: Option<String>,
    pub duration_ms: u64,
    pub tokens: u64,
    /// Addresses or names of pictures.
    #[serde(default)]
    pub screenshots: Vec<String>,
    /// The provider of the model.
    #[serde(default)]
    pub provider: Option<String>,
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: RunId,
    pub session: SessionId,
    /// 1 for the session's first.
    pub number: u32,
    pub status: RunStatus,
    pub at_unix_ms: u64,
    #[serde(flatten)]
    pub run: NewRun,
}

/// How a run stands against its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Completed,
    /// It took longer than one run may.
    OverTime,
    /// With it the session's tokens were used up.
    OverTokens,
}

/// Why a session may not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum RunDenied {
    #[error("the session is not active")]
    Inactive,
    #[error("what the session needs is not ready")]
    NotReady,
    #[error("the session's time is over")]
    Expired,
    #[error("the session has used all its runs")]
    OutOfRuns,
    #[error("the session has used all its tokens")]
    OutOfTokens,
}

/// Checks that the session may have another run.
pub fn can_run(session: &SessionRecord, clock: &dyn Clock) -> Result<(), RunDenied> {
    match session.state {
        SessionState::Active => {}
        SessionState::Expired => return Err(RunDenied::Expired),
        SessionState::Detached
        | SessionState::Suspended
        | SessionState::Released
        | SessionState::Terminated => return Err(RunDenied::Inactive),
    }
    if session.deadline.as_ref().is_some_and(|deadline| deadline.is_due(clock)) {
        return Err(RunDenied::Expired);
    }
    match session.provision {
        Provision::Ready { .. } => {}
        Provision::Pending | Provision::Failed { .. } => return Err(RunDenied::NotReady),
    }
    if session.totals.runs >= session.limits.runs {
        return Err(RunDenied::OutOfRuns);
    }
    if session.totals.tokens >= session.limits.tokens {
        return Err(RunDenied::OutOfTokens);
    }
    Ok(())
}

/// Adds a run to the session, or says why not. The caller keeps session and run in one transaction.
pub fn record_run(
    session: &mut SessionRecord,
    id: RunId,
    run: NewRun,
    clock: &dyn Clock,
) -> Result<RunRecord, RunDenied> {
    can_run(session, clock)?;
    let totals = &mut session.totals;
    totals.runs = totals.runs.saturating_add(1);
    totals.tokens = totals.tokens.saturating_add(run.tokens);
    totals.duration_ms = totals.duration_ms.saturating_add(run.duration_ms);
    session.last_activity_unix_ms = clock.unix_ms();
    let status = if run.duration_ms > session.limits.run_s.saturating_mul(1000) {
        RunStatus::OverTime
    } else if totals.tokens > session.limits.tokens {
        RunStatus::OverTokens
    } else {
        RunStatus::Completed
    };
    let (number, at_unix_ms) = (totals.runs, clock.unix_ms());
    Ok(RunRecord { id, session: session.id.clone(), number, status, at_unix_ms, run })
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
