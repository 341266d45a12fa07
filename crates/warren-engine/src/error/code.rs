//! Every error in the words that all interfaces share.

use warren_core::catalog::CatalogErrorKind;
use warren_core::{
    DenyReason, ErrorCode, IsolationError, IsolationErrorKind, LayerError, LayerErrorKind, NetworkError,
    NetworkErrorKind, SandboxId, error_chain,
};
use warren_wire::guest::{Failure, FailureCode, FailureReason};

use super::{EngineError, Missing};

impl EngineError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { what, .. } => what.code(),
            Self::Denied { reason, .. } => reason.code(),
            Self::SessionState { .. } => ErrorCode::WrongState,
            Self::Invalid { .. } => ErrorCode::InvalidValue,
            Self::RunDenied(_) => ErrorCode::RunDenied,
            Self::MaxSandboxes { .. } | Self::MaxSandboxesOfOwner { .. } => ErrorCode::MaxSandboxes,
            Self::TooManyCalls { .. } => ErrorCode::TooManyCalls,
            Self::MaxHeavyWork { .. } | Self::MaxKeptOutput { .. } => ErrorCode::MaxHeavyWork,
            Self::NoThread(_) => ErrorCode::Exhausted,
            Self::DiskLow { .. } => ErrorCode::DiskLow,
            Self::ReadOnly(_) => ErrorCode::ReadOnly,
            Self::ShuttingDown => ErrorCode::ShuttingDown,
            Self::NothingFits { .. } => ErrorCode::NothingFits,
            Self::BackendUnavailable { .. } => ErrorCode::BackendUnavailable,
            Self::IdempotencyMismatch => ErrorCode::IdempotencyMismatch,
            Self::SandboxEnded { .. } => ErrorCode::SandboxEnded,
            Self::TimedOut { .. } => ErrorCode::TimedOut,
            Self::NotWoken { source, .. } => source.code(),
            Self::Refused(failure) => of_agent(failure),
            Self::Agent { .. } => ErrorCode::AgentUnreachable,
            Self::StartFailed { source, .. } => source.kind.code_of_start(),
            Self::Network { source, .. } => source.kind.code(),
            Self::Backend(source) => source.kind.code(),
            Self::Template(source) => source.kind.code(),
            Self::Catalog(source) => source.kind.code(),
            Self::OtherNode { .. } => ErrorCode::OtherNode,
            Self::SnapshotDamaged { .. } => ErrorCode::SnapshotDamaged,
            Self::SandboxNameTaken { .. } => ErrorCode::SandboxNameTaken,
            Self::AmbiguousPrefix { .. } => ErrorCode::AmbiguousPrefix,
            Self::SnapshotNameTaken { .. } => ErrorCode::SnapshotNameTaken,
            Self::NothingToUndo { .. } => ErrorCode::NothingToUndo,
            Self::HistoryNotKept { .. } => ErrorCode::HistoryNotKept,
            Self::MergeConflict { .. } => ErrorCode::MergeConflict,
            Self::TooDeep { .. } => ErrorCode::TooDeep,
            Self::SnapshotsUnavailable(_) => ErrorCode::SnapshotsUnavailable,
            Self::Layers(source) => source.kind.code(),
        }
    }

    /// The error in words that callers may read. Of the machine and its directories they say
    /// nothing that the caller did not name; the log has the causes.
    pub fn told(&self) -> String {
        match self {
            Self::Denied { id, reason, .. } => format!("{id}: {reason}"),
            Self::StartFailed { id, source } => start_failed(id, source),
            Self::Network { id, source } => network_failed(id, source),
            Self::NotWoken { source, .. } => format!("{self}: {}", source.told()),
            _ if self.code() == ErrorCode::Internal => "the server failed".to_owned(),
            Self::Backend(source) => error_chain(source),
            Self::Catalog(source) if source.kind == CatalogErrorKind::Full => {
                "there is no room to write records".to_owned()
            }
            Self::Catalog(_) => "somebody else changes the same thing: try again".to_owned(),
            Self::Layers(source) => layers_failed(source),
            _ => self.to_string(),
        }
    }
}

impl EngineError {
    /// True if the sandbox is between two states, which will be over in a moment.
    pub fn is_changing(&self) -> bool {
        let Self::Denied { reason, .. } = self else { return false };
        matches!(
            reason,
            DenyReason::RollbackInProgress | DenyReason::MoveInProgress | DenyReason::StillCreating
        )
    }

    /// True if no sandbox can answer: it does not exist, has ended, or is paused.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::Denied { .. } | Self::SandboxEnded { .. })
    }
}

impl Missing {
    fn code(self) -> ErrorCode {
        match self {
            Self::Sandbox => ErrorCode::SandboxNotFound,
            Self::Session => ErrorCode::SessionNotFound,
            Self::Process => ErrorCode::ProcessNotFound,
            Self::DefaultSandbox => ErrorCode::NoDefaultSandbox,
            Self::Snapshot => ErrorCode::SnapshotNotFound,
            Self::Tool => ErrorCode::ToolNotFound,
            Self::NetworkAsk => ErrorCode::NetworkRequestNotFound,
            Self::Secret => ErrorCode::SecretNotFound,
        }
    }
}

fn of_agent(failure: &Failure) -> ErrorCode {
    match failure.code {
        _ if failure.reason == Some(FailureReason::TooLarge) => ErrorCode::CommandTooLarge,
        FailureCode::Invalid => ErrorCode::InvalidValue,
        FailureCode::Unsupported => ErrorCode::Unsupported,
        FailureCode::NotFound => ErrorCode::PathNotFound,
        FailureCode::AlreadyExists => ErrorCode::AlreadyExists,
        FailureCode::PermissionDenied => ErrorCode::PermissionDenied,
        FailureCode::WrongKind => ErrorCode::WrongKind,
        FailureCode::Ended => ErrorCode::ProcessEnded,
        FailureCode::Exhausted => ErrorCode::SandboxExhausted,
        FailureCode::Io => ErrorCode::SandboxIo,
    }
}

fn start_failed(id: &SandboxId, source: &IsolationError) -> String {
    match source.kind {
        IsolationErrorKind::Unsupported | IsolationErrorKind::Invalid | IsolationErrorKind::Exhausted => {
            error_chain(source)
        }
        IsolationErrorKind::Layer => format!("{id} could not be started: {}", error_chain(source)),
        IsolationErrorKind::NotFound
        | IsolationErrorKind::AlreadyExists
        | IsolationErrorKind::Busy
        | IsolationErrorKind::Ended
        | IsolationErrorKind::Away
        | IsolationErrorKind::Host => format!("{id} could not be started"),
    }
}

fn network_failed(id: &SandboxId, source: &NetworkError) -> String {
    match source.kind {
        NetworkErrorKind::Unavailable => format!("no sandbox can have a network here: {source}"),
        NetworkErrorKind::NoSecret => source.to_string(),
        NetworkErrorKind::NotFound => format!("{id} has no link to the world: stop it and resume it"),
        NetworkErrorKind::Exhausted => "every address that sandboxes can have is in use".to_owned(),
        NetworkErrorKind::Host => format!("the network of {id} could not be set up or changed"),
    }
}

/// The store speaks of its own directories, which are for the log alone.
fn layers_failed(source: &LayerError) -> String {
    match source.kind {
        LayerErrorKind::NotFound | LayerErrorKind::Damaged => {
            "files that the snapshot is made of are missing or damaged".to_owned()
        }
        LayerErrorKind::Full => "there is no room on the disk for this".to_owned(),
        LayerErrorKind::Invalid | LayerErrorKind::Abandoned | LayerErrorKind::Host => source.to_string(),
    }
}
