use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use warren_core::DenyReason;
use warren_engine::{EngineError, Missing};
use warren_face::error::ApiError;
use warren_wire::guest::{Failure, FailureCode};

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

    /// The same for those who read it.
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
        match error {
            EngineError::Refused(failure) => failure.into(),
            EngineError::SandboxEnded { .. } | EngineError::NotFound { what: Missing::Sandbox, .. } => {
                Self::Gone
            }
            EngineError::Denied { reason, .. } => match reason {
                DenyReason::Paused | DenyReason::Stopping | DenyReason::Stopped | DenyReason::Failed => {
                    Self::Gone
                }
                _ => Self::new(Code::Unavailable, error.to_string()),
            },
            EngineError::NotFound { .. } => Self::new(Code::NotFound, error.to_string()),
            EngineError::Invalid { .. } => Self::invalid(error.to_string()),
            EngineError::TooManyCalls { .. } => Self::new(Code::ResourceExhausted, error.to_string()),
            EngineError::TimedOut { .. } => Self::new(Code::DeadlineExceeded, error.to_string()),
            EngineError::ShuttingDown => Self::shutting_down(),
            EngineError::ReadOnly(_) => Self::new(Code::Unavailable, error.to_string()),
            error => {
                let error = ApiError::from(error);
                error.log();
                Self::new(Code::Internal, error.problem().detail)
            }
        }
    }
}

impl From<Failure> for RpcError {
    fn from(failure: Failure) -> Self {
        let code = match failure.code {
            FailureCode::Invalid | FailureCode::WrongKind => Code::InvalidArgument,
            FailureCode::NotFound => Code::NotFound,
            FailureCode::AlreadyExists => Code::AlreadyExists,
            FailureCode::PermissionDenied => Code::PermissionDenied,
            FailureCode::Ended => Code::FailedPrecondition,
            FailureCode::Exhausted => Code::ResourceExhausted,
            FailureCode::Unsupported => Code::Unimplemented,
            FailureCode::Io => Code::Internal,
        };
        Self::new(code, failure.message)
    }
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
