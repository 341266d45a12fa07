//! Sandboxes that are paused and go on because somebody comes: those whose owner said so, for those who show what they have to.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use warren_core::{ErrorCode, Owner, SandboxId, SandboxRecord};
use warren_engine::{EngineError, Patch, PortStream, Visit};
use warren_face::port::{is_closed, status_at_port};

use crate::state::{BY, E2b};
use crate::traits::Traits;

/// A sandbox that traffic woke is worth waking for a while.
const LEAST_TIME_AFTER_WAKE_S: u64 = 300;

/// How long somebody who comes waits until the sandbox has gone to sleep, if it is about to, and is awake again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The times between two looks at such a port.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LATER_LOOKS: Duration = Duration::from_millis(500);

/// Connects to a port. In a sandbox that has just woken, one that nobody listens on yet is waited for.
pub async fn connect(
    state: &E2b,
    (sandbox, visit): (&SandboxId, &Visit),
    port: u16,
) -> Result<PortStream, EngineError> {
    let mut rest = FIRST_LOOK;
    loop {
        let until = state.woken().patience(sandbox);
        match (visit.connect(port).await, until) {
            (Err(error), Some(_)) if is_closed(&error) => {
                tokio::time::sleep(rest).await;
                rest = (rest * 2).min(LATER_LOOKS);
            }
            (connected, _) => return connected,
        }
    }
}

/// Why a sandbox is not awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asleep {
    /// It does not wake for visitors, or is gone: the two cannot be told apart.
    Gone,
    /// What was shown does not wake it.
    Forbidden,
    /// Something else is done with it for so long.
    Busy,
    /// There are as many sandboxes as may be.
    Full,
    /// The server could not.
    Failed,
}

/// Has a sandbox that somebody paused go on, if it does so for visitors. `shown` says whether what the visitor showed is right. The
/// error is the answer.
pub(crate) async fn wake(
    state: &E2b,
    owner: &Owner,
    record: &SandboxRecord,
    shown: bool,
) -> Result<(), Response> {
    let woken = if !shown && Traits::of(record).auto_resume {
        Err(Asleep::Forbidden)
    } else {
        rouse(state, owner, record).await
    };
    woken.map_err(|asleep| told(&record.id, status_at_port(asleep.code()), asleep.sentence()))
}

/// Wakes a sandbox as `wake` does, for a visitor who may.
pub async fn rouse(state: &E2b, owner: &Owner, record: &SandboxRecord) -> Result<(), Asleep> {
    if !Traits::of(record).auto_resume {
        return Err(Asleep::Gone);
    }
    // Whoever pauses it is waited for: it goes on after that.
    match tokio::time::timeout(PATIENCE, resumed(state, owner, record)).await {
        Ok(Ok(_)) => {
            state.woken().note(&record.id);
            Ok(())
        }
        Ok(Err(error)) => Err(Asleep::because(&error)),
        Err(_) => Err(Asleep::Busy),
    }
}

/// What a visitor is told where there is nobody to answer, in the words that E2B's clients know.
pub(crate) fn told(sandbox: &SandboxId, status: StatusCode, message: &str) -> Response {
    let body = json!({"sandboxId": sandbox, "message": message, "code": status.as_u16()});
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::BAD_GATEWAY {
        response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
    }
    response
}

impl Asleep {
    fn because(error: &EngineError) -> Self {
        match error {
            EngineError::MaxSandboxes { .. } | EngineError::MaxSandboxesOfOwner { .. } => Self::Full,
            error if error.is_changing() => Self::Busy,
            error if error.is_absent() => Self::Gone,
            error => {
                tracing::error!(error = warren_face::error::chain(error), "a paused sandbox does not wake");
                Self::Failed
            }
        }
    }

    pub fn code(self) -> ErrorCode {
        match self {
            Self::Gone => ErrorCode::SandboxNotFound,
            Self::Forbidden => ErrorCode::PortTokenInvalid,
            Self::Busy => ErrorCode::WrongState,
            Self::Full => ErrorCode::MaxSandboxes,
            Self::Failed => ErrorCode::StartFailed,
        }
    }

    pub fn sentence(self) -> &'static str {
        match self {
            Self::Gone => "The sandbox was not found",
            Self::Forbidden => "The sandbox is paused, and does not go on for who shows no valid token",
            Self::Busy => "The sandbox is still changing its state: try again",
            Self::Full => "The sandbox cannot go on now: there are as many sandboxes as may be",
            Self::Failed => "The server could not reach the sandbox",
        }
    }
}

/// Has a paused sandbox go on because somebody wants to use it. It gets the time that it was made with.
async fn resumed(state: &E2b, owner: &Owner, record: &SandboxRecord) -> Result<SandboxRecord, EngineError> {
    let sandbox = state.engine_as(BY, owner).sandbox(&record.id);
    let most_s = state.settings.most_limits.lifetime_s;
    let ttl_s = Traits::of(record).timeout_s.max(LEAST_TIME_AFTER_WAKE_S).min(most_s);
    if record.spec.limits.lifetime_s != ttl_s {
        let patch = Patch { ttl_s: Some(ttl_s), ..Patch::default() };
        sandbox.update(patch).await?;
    }
    sandbox.resume().await
}
