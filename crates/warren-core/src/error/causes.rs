//! The code of every error of the domain and of its ports, by its kind.

use super::ErrorCode;
use crate::catalog::CatalogErrorKind;
use crate::{
    DenyReason, IsolationErrorKind, LayerErrorKind, NetworkErrorKind, RegistryErrorKind, TemplateErrorKind,
};

impl IsolationErrorKind {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NotFound => ErrorCode::SandboxNotFound,
            Self::AlreadyExists => ErrorCode::AlreadyExists,
            Self::Unsupported => ErrorCode::Unsupported,
            Self::Invalid => ErrorCode::InvalidValue,
            Self::Exhausted => ErrorCode::Exhausted,
            Self::Busy => ErrorCode::AgentUnreachable,
            Self::Ended => ErrorCode::SandboxEnded,
            Self::Away => ErrorCode::BackendUnavailable,
            Self::Layer => ErrorCode::StartFailed,
            Self::Host => ErrorCode::Internal,
        }
    }

    /// The code where a sandbox was to be started. What the caller asked for decides, not the state
    /// of the machine: a mount that is not there is the caller's to correct.
    pub fn code_of_start(self) -> ErrorCode {
        match self {
            Self::Unsupported | Self::Invalid | Self::Exhausted | Self::Away => self.code(),
            Self::NotFound | Self::AlreadyExists | Self::Busy | Self::Ended | Self::Layer | Self::Host => {
                ErrorCode::StartFailed
            }
        }
    }
}

impl NetworkErrorKind {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Unavailable => ErrorCode::NetworkUnavailable,
            Self::NoSecret => ErrorCode::InvalidValue,
            Self::NotFound => ErrorCode::WrongState,
            Self::Exhausted => ErrorCode::Exhausted,
            Self::Host => ErrorCode::StartFailed,
        }
    }
}

impl TemplateErrorKind {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NotFound => ErrorCode::TemplateNotFound,
            Self::InUse => ErrorCode::InUse,
            Self::Broken => ErrorCode::TemplateBroken,
            Self::Registry(kind) => kind.code(),
            Self::NotOpen => ErrorCode::Forbidden,
            Self::Image => ErrorCode::InvalidValue,
            Self::TooLarge => ErrorCode::PayloadTooLarge,
            Self::NameTaken => ErrorCode::AlreadyExists,
            Self::Host => ErrorCode::Internal,
        }
    }
}

impl RegistryErrorKind {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NotFound => ErrorCode::ImageNotFound,
            Self::Denied => ErrorCode::RegistryDenied,
            Self::Unreachable => ErrorCode::RegistryUnavailable,
            Self::Refused => ErrorCode::InvalidValue,
        }
    }
}

impl LayerErrorKind {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NotFound | Self::Damaged => ErrorCode::SnapshotDamaged,
            Self::Full => ErrorCode::DiskLow,
            Self::Invalid => ErrorCode::InvalidValue,
            Self::Abandoned => ErrorCode::TimedOut,
            Self::Host => ErrorCode::Internal,
        }
    }
}

impl CatalogErrorKind {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Busy | Self::Stale => ErrorCode::Busy,
            Self::Full => ErrorCode::DiskLow,
            Self::NameTaken => ErrorCode::SandboxNameTaken,
            Self::AlreadyExists | Self::NotFound | Self::Damaged | Self::WrongKey | Self::Host => {
                ErrorCode::Internal
            }
        }
    }
}

impl DenyReason {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::ToolsInFlight => ErrorCode::ToolsInFlight,
            Self::RollbackInProgress => ErrorCode::RollbackInProgress,
            Self::MoveInProgress => ErrorCode::MoveInProgress,
            Self::StillCreating
            | Self::Paused
            | Self::Stopping
            | Self::Stopped
            | Self::Failed
            | Self::SnapshotInProgress
            | Self::OutOfOrder => ErrorCode::WrongState,
        }
    }
}
