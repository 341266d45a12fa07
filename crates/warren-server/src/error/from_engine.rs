use warren_core::catalog::{CatalogError, CatalogErrorKind};
use warren_core::{
    Activity, Conflict, DenyReason, IsolationError, IsolationErrorKind, LayerError, LayerErrorKind,
    NetworkError, NetworkErrorKind, Request, SandboxId, Status, TemplateError, TemplateErrorKind, Verdict,
    decide,
};
use warren_engine::{EngineError, Missing};
use warren_wire::guest::{Failure, FailureCode};

use super::{ApiError, Code, chain};
use crate::convert;
use crate::proxy::PortBookError;

/// Conflicts of a merge that are told in one answer.
const MOST_CONFLICTS: usize = 1000;

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let detail = error.to_string();
        match error {
            EngineError::NotFound { what, .. } => Self::new(missing(what), detail),
            EngineError::Denied { id, status, reason } => {
                Self::new(denied(reason), format!("{id}: {reason}")).state(word(&status), allowed_in(status))
            }
            EngineError::SessionState { state, .. } => {
                Self::new(Code::WrongState, detail).state(word(&state), Vec::new())
            }
            EngineError::Invalid { field, .. } => Self::invalid(field, detail),
            EngineError::RunDenied(reason) => {
                Self::new(Code::RunDenied, detail).state(word(&reason), Vec::new())
            }
            EngineError::MaxSandboxes { .. } | EngineError::MaxSandboxesOfOwner { .. } => {
                Self::new(Code::MaxSandboxes, detail)
            }
            EngineError::TooManyCalls { .. } => Self::new(Code::TooManyCalls, detail),
            EngineError::MaxHeavyWork { .. } | EngineError::MaxKeptOutput { .. } => {
                Self::new(Code::MaxHeavyWork, detail)
            }
            EngineError::NoThread(source) => Self::new(Code::Exhausted, detail).caused_by(source),
            EngineError::DiskLow { .. } => Self::new(Code::DiskLow, detail),
            EngineError::ReadOnly(_) => Self::new(Code::ReadOnly, detail),
            EngineError::ShuttingDown => Self::new(Code::ShuttingDown, detail),
            EngineError::NothingFits(_) => Self::new(Code::NothingFits, detail),
            EngineError::IdempotencyMismatch => Self::new(Code::IdempotencyMismatch, detail),
            EngineError::SandboxEnded { .. } => Self::new(Code::SandboxEnded, detail),
            EngineError::TimedOut { .. } => Self::new(Code::TimedOut, detail),
            EngineError::Refused(failure) => failure.into(),
            EngineError::Agent { source, .. } => Self::new(Code::AgentUnreachable, detail).caused_by(source),
            EngineError::StartFailed { id, source } => start_failed(&id, source),
            EngineError::Network { id, source } => network_failed(&id, source),
            EngineError::Backend(source) => source.into(),
            EngineError::Template(source) => source.into(),
            EngineError::Catalog(source) => source.into(),
            EngineError::OtherNode { .. } => Self::new(Code::OtherNode, detail),
            EngineError::SnapshotDamaged { .. } => Self::new(Code::SnapshotDamaged, detail),
            EngineError::SnapshotNameTaken { .. } => Self::new(Code::SnapshotNameTaken, detail),
            EngineError::NothingToUndo { .. } => Self::new(Code::NothingToUndo, detail),
            EngineError::HistoryNotKept { .. } => Self::new(Code::HistoryNotKept, detail),
            EngineError::MergeConflict { into, conflicts } => merge_conflict(&into, &conflicts),
            EngineError::TooDeep { .. } => Self::new(Code::TooDeep, detail),
            EngineError::SnapshotsUnavailable(_) => Self::new(Code::SnapshotsUnavailable, detail),
            EngineError::Layers(source) => source.into(),
        }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let code = match failure.code {
            FailureCode::Invalid => Code::InvalidValue,
            FailureCode::Unsupported => Code::Unsupported,
            FailureCode::NotFound => Code::PathNotFound,
            FailureCode::AlreadyExists => Code::AlreadyExists,
            FailureCode::PermissionDenied => Code::PermissionDenied,
            FailureCode::WrongKind => Code::WrongKind,
            FailureCode::Ended => Code::ProcessEnded,
            FailureCode::Exhausted => Code::SandboxExhausted,
            FailureCode::Io => Code::SandboxIo,
        };
        Self::new(code, failure.message)
    }
}

impl From<IsolationError> for ApiError {
    fn from(error: IsolationError) -> Self {
        let code = match error.kind {
            IsolationErrorKind::NotFound => Code::SandboxNotFound,
            IsolationErrorKind::AlreadyExists => Code::AlreadyExists,
            IsolationErrorKind::Unsupported => Code::Unsupported,
            IsolationErrorKind::Invalid => Code::InvalidValue,
            IsolationErrorKind::Exhausted => Code::Exhausted,
            IsolationErrorKind::Busy => Code::AgentUnreachable,
            IsolationErrorKind::Ended => Code::SandboxEnded,
            IsolationErrorKind::Layer => Code::StartFailed,
            IsolationErrorKind::Host => return Self::internal(error),
        };
        Self::new(code, chain(&error)).caused_by(error)
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        let code = match error.kind {
            TemplateErrorKind::NotFound => Code::TemplateNotFound,
            TemplateErrorKind::InUse => Code::InUse,
            TemplateErrorKind::Broken => Code::TemplateBroken,
            TemplateErrorKind::Host => return Self::internal(error),
        };
        Self::new(code, error.to_string()).caused_by(error)
    }
}

/// What the store says of its own directories is for the log alone.
impl From<LayerError> for ApiError {
    fn from(error: LayerError) -> Self {
        match error.kind {
            LayerErrorKind::NotFound | LayerErrorKind::Damaged => {
                Self::new(Code::SnapshotDamaged, "files that the snapshot is made of are missing or damaged")
                    .caused_by(error)
            }
            LayerErrorKind::Full => {
                Self::new(Code::DiskLow, "there is no room on the disk for this").caused_by(error)
            }
            LayerErrorKind::Invalid => Self::new(Code::InvalidValue, error.to_string()).caused_by(error),
            LayerErrorKind::Abandoned => Self::new(Code::TimedOut, error.to_string()).caused_by(error),
            LayerErrorKind::Host => Self::internal(error),
        }
    }
}

impl From<CatalogError> for ApiError {
    fn from(error: CatalogError) -> Self {
        match error.kind {
            CatalogErrorKind::Busy | CatalogErrorKind::Stale => {
                Self::new(Code::Busy, "somebody else changes the same thing: try again").caused_by(error)
            }
            CatalogErrorKind::Full => {
                Self::new(Code::DiskLow, "there is no room to write records").caused_by(error)
            }
            CatalogErrorKind::AlreadyExists
            | CatalogErrorKind::NotFound
            | CatalogErrorKind::Damaged
            | CatalogErrorKind::WrongKey
            | CatalogErrorKind::Host => Self::internal(error),
        }
    }
}

impl From<PortBookError> for ApiError {
    fn from(error: PortBookError) -> Self {
        match error {
            PortBookError::TooMany => Self::new(Code::SandboxExhausted, error.to_string()),
            PortBookError::Catalog(source) => source.into(),
        }
    }
}

/// What the caller asked for decides, not the state of the machine: a mount that is not there is the caller's to mend.
fn start_failed(id: &SandboxId, source: IsolationError) -> ApiError {
    match source.kind {
        IsolationErrorKind::Unsupported | IsolationErrorKind::Invalid | IsolationErrorKind::Exhausted => {
            source.into()
        }
        IsolationErrorKind::Layer => {
            ApiError::new(Code::StartFailed, format!("{id} could not be started: {}", chain(&source)))
                .caused_by(source)
        }
        IsolationErrorKind::NotFound
        | IsolationErrorKind::AlreadyExists
        | IsolationErrorKind::Busy
        | IsolationErrorKind::Ended
        | IsolationErrorKind::Host => {
            ApiError::new(Code::StartFailed, format!("{id} could not be started")).caused_by(source)
        }
    }
}

/// What the caller can mend is told; of the machine only that it failed.
fn network_failed(id: &SandboxId, source: NetworkError) -> ApiError {
    match source.kind {
        NetworkErrorKind::Unavailable => {
            ApiError::new(Code::NetworkUnavailable, format!("no sandbox can have a network here: {source}"))
        }
        NetworkErrorKind::NoSecret => ApiError::invalid("network.secrets", source.to_string()),
        NetworkErrorKind::NotFound => {
            ApiError::new(Code::WrongState, format!("{id} has no link to the world: stop it and resume it"))
        }
        NetworkErrorKind::Exhausted => {
            ApiError::new(Code::Exhausted, "every address that sandboxes can have is in use")
                .caused_by(source)
        }
        NetworkErrorKind::Host => {
            let detail = format!("the network of {id} could not be set up or changed");
            ApiError::new(Code::StartFailed, detail).caused_by(source)
        }
    }
}

fn missing(what: Missing) -> Code {
    match what {
        Missing::Sandbox => Code::SandboxNotFound,
        Missing::Session => Code::SessionNotFound,
        Missing::Process => Code::ProcessNotFound,
        Missing::DefaultSandbox => Code::NoDefaultSandbox,
        Missing::Snapshot => Code::SnapshotNotFound,
        Missing::Tool => Code::ToolNotFound,
        Missing::NetworkAsk => Code::NetworkRequestNotFound,
        Missing::Secret => Code::SecretNotFound,
    }
}

fn denied(reason: DenyReason) -> Code {
    match reason {
        DenyReason::ToolsInFlight => Code::ToolsInFlight,
        DenyReason::RollbackInProgress => Code::RollbackInProgress,
        DenyReason::StillCreating
        | DenyReason::StillSyncing
        | DenyReason::Paused
        | DenyReason::NotPaused
        | DenyReason::Stopping
        | DenyReason::Stopped
        | DenyReason::Failed
        | DenyReason::SnapshotInProgress
        | DenyReason::OutOfOrder => Code::WrongState,
    }
}

/// The paths are told in `details`, as far as an answer should be long.
pub(crate) fn merge_conflict(into: &SandboxId, conflicts: &[Conflict]) -> ApiError {
    let count = conflicts.len();
    let detail =
        format!("{count} paths were changed on both sides: choose `ours` or `theirs`, or settle them first");
    let told: Vec<_> = conflicts.iter().take(MOST_CONFLICTS).map(convert::conflict).collect();
    ApiError::new(Code::MergeConflict, detail)
        .detail("into", into)
        .detail("conflicts", &told)
        .detail("truncated", &(count > MOST_CONFLICTS))
}

/// What a client may ask of a sandbox in this state.
fn allowed_in(status: Status) -> Vec<String> {
    const ASKED_BY_CLIENTS: [Request; 6] = [
        Request::Execute,
        Request::ReadFiles,
        Request::WriteFiles,
        Request::Pause,
        Request::Resume,
        Request::Stop,
    ];
    let allowed =
        |request: &Request| !matches!(decide(status, Activity::default(), *request), Verdict::Denied(_));
    ASKED_BY_CLIENTS.iter().filter(|request| allowed(request)).map(word).collect()
}

/// A unit variant as it is written on the wire.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_sandbox_says_what_it_allows() {
        assert_eq!(allowed_in(Status::Paused), ["pause", "resume", "stop"]);
    }

    #[test]
    fn a_missing_sandbox_is_not_found() {
        let error = ApiError::from(EngineError::sandbox_not_found("sbx1"));
        assert_eq!((error.status().as_u16(), error.problem().code.as_str()), (404, "sandbox_not_found"));
    }
}
