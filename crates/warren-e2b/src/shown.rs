//! The sandboxes that clients of E2B may know of, and in which state.

use warren_core::{PausedBy, SandboxId, SandboxRecord, Status};
use warren_face::auth::Caller;

use crate::error::E2bError;
use crate::rest;
use crate::state::E2b;

/// A sandbox's state, as clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Running,
    /// With its memory.
    Paused,
    /// Its files alone are left.
    PausedCold,
}

/// Nothing is told of what has ended for good, nor of sandboxes in which images are built.
pub(crate) fn shown_as(record: &SandboxRecord) -> Option<Shown> {
    if record.build.is_some() {
        return None;
    }
    match record.status {
        Status::Creating | Status::Ready => Some(Shown::Running),
        Status::Paused => {
            let asked = record.paused.as_ref().is_some_and(|paused| paused.by == PausedBy::Request);
            Some(if asked { Shown::Paused } else { Shown::Running })
        }
        Status::Stopping | Status::Stopped | Status::Failed => {
            record.files_kept().then_some(Shown::PausedCold)
        }
    }
}

impl Shown {
    pub(crate) fn state(self) -> rest::State {
        match self {
            Self::Running => rest::State::Running,
            Self::Paused | Self::PausedCold => rest::State::Paused,
        }
    }

    pub(crate) fn pause_mode(self) -> Option<rest::PauseMode> {
        match self {
            Self::Running => None,
            Self::Paused => Some(rest::PauseMode::Full),
            Self::PausedCold => Some(rest::PauseMode::Filesystem),
        }
    }
}

/// A sandbox that the caller may know of. One that has ended for good is as if it had never been.
pub(crate) async fn find(state: &E2b, caller: &Caller, id: &SandboxId) -> Result<SandboxRecord, E2bError> {
    let record = state.engine.as_(caller).sandbox(id).record().await?;
    if shown_as(&record).is_none() {
        return Err(E2bError::no_sandbox(id));
    }
    Ok(record)
}
