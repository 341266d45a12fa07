use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use warren_core::{DenyReason, ErrorCode, ErrorKind};
use warren_engine::EngineError;
use warren_face::error::ApiError;

use crate::rpc::{Code, DecodeError, EnvelopeError, ErrorBody};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum RpcError {
    Told {
        code: Code,
        message: String,
    },
    /// The sandbox is not there any more, or not now.
    Gone,
}

impl RpcError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self::Told { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn late() -> Self {
        Self::new(Code::DeadlineExceeded, "the call took longer than it may")
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(Code::Unavailable, "the server is shutting down")
    }

    /// The same, as its readers see it.
    pub(crate) fn into_body(self) -> ErrorBody {
        match self {
            Self::Told { code, message } => ErrorBody { code, message },
            Self::Gone => {
                ErrorBody { code: Code::Unavailable, message: "The sandbox was not found".to_owned() }
            }
        }
    }

    /// The answer to a plain call.
    pub(super) fn plain_answer(self) -> Response {
        let body = self.into_body();
        let status = StatusCode::from_u16(body.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(body)).into_response()
    }
}

impl From<EngineError> for RpcError {
    fn from(error: EngineError) -> Self {
        // A sandbox that stands still is as one that is not there; one between two states is there
        // in a moment.
        if let EngineError::Denied {
            reason: DenyReason::Paused | DenyReason::Stopping | DenyReason::Stopped | DenyReason::Failed,
            ..
        } = error
        {
            return Self::Gone;
        }
        match code_of(error.code()) {
            None => Self::Gone,
            Some(Code::Internal) => {
                let error = ApiError::from(error);
                error.log();
                Self::new(Code::Internal, error.problem().detail)
            }
            Some(code) => Self::new(code, error.to_string()),
        }
    }
}

/// The code of this protocol for one of ours. None where the sandbox is gone.
fn code_of(code: ErrorCode) -> Option<Code> {
    Some(match code {
        ErrorCode::SandboxEnded | ErrorCode::SandboxNotFound => return None,
        ErrorCode::InvalidValue | ErrorCode::WrongKind | ErrorCode::CommandTooLarge => Code::InvalidArgument,
        ErrorCode::AlreadyExists => Code::AlreadyExists,
        ErrorCode::PermissionDenied => Code::PermissionDenied,
        ErrorCode::ProcessEnded => Code::FailedPrecondition,
        ErrorCode::SandboxExhausted | ErrorCode::TooManyCalls => Code::ResourceExhausted,
        ErrorCode::Unsupported => Code::Unimplemented,
        ErrorCode::TimedOut => Code::DeadlineExceeded,
        ErrorCode::ShuttingDown
        | ErrorCode::ReadOnly
        | ErrorCode::WrongState
        | ErrorCode::RollbackInProgress
        | ErrorCode::MoveInProgress
        | ErrorCode::BackendUnavailable
        | ErrorCode::ToolsInFlight => Code::Unavailable,
        code if code.kind() == ErrorKind::NotFound => Code::NotFound,
        _ => Code::Internal,
    })
}

impl From<DecodeError> for RpcError {
    fn from(error: DecodeError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<EnvelopeError> for RpcError {
    fn from(error: EnvelopeError) -> Self {
        let code = match error {
            EnvelopeError::TooLarge { .. } => Code::ResourceExhausted,
            EnvelopeError::Compressed => Code::Unimplemented,
            EnvelopeError::Flags { .. } | EnvelopeError::Truncated => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::assert_error_column;

    use super::*;

    #[test]
    fn the_table_of_errors_has_the_codes_of_calls() {
        assert_error_column("E2B calls", |code| code_of(code).map_or("gone", Code::as_str).to_owned());
    }
}
