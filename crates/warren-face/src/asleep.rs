//! Paused sandboxes that do not go on for visitors, in words that clients of all faces know.

use warren_core::{ErrorCode, error_chain};
use warren_engine::EngineError;

/// Why a sandbox is not awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asleep {
    /// It does not wake for visitors, or is gone: the two cannot be told apart.
    Gone,
    /// The token or key that was shown does not wake it.
    Forbidden,
    /// Something else is done with it for so long.
    Busy,
    /// There are as many sandboxes as may be.
    Full,
    /// The server could not.
    Failed,
}

impl Asleep {
    /// Why the engine did not have it go on.
    pub fn because(error: &EngineError) -> Self {
        match error {
            EngineError::NotWoken { source, .. } => Self::because(source),
            EngineError::TimedOut { .. } => Self::Busy,
            EngineError::MaxSandboxes { .. } | EngineError::MaxSandboxesOfOwner { .. } => Self::Full,
            error if error.is_changing() => Self::Busy,
            error if error.is_absent() => Self::Gone,
            error => {
                tracing::error!(error = error_chain(error), "a paused sandbox does not wake");
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
