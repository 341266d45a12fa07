use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::header::RETRY_AFTER;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use warren_core::SandboxId;
use warren_engine::EngineError;
use warren_face::error::{self, ApiError, Code};
use warren_wire::guest::{Failure, FailureCode};

/// Tells clients whether the same request may work later.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// The kernel's numbers for a disk that is full, and for a quota that is used up.
const NO_SPACE: [i32; 2] = [28, 122];

/// Why a request to a sandbox is not served.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is unknown, ended, or stands still: clients need not tell these apart.
    NoSandbox,
    /// A route that is not for those outside.
    Internal,
    /// Somebody else has made the answer already.
    Answered(Box<Response>),
    Told {
        status: StatusCode,
        message: String,
        retry_after_s: Option<u64>,
    },
}

/// The body for a sandbox that cannot be reached.
#[derive(Serialize)]
struct OfSandbox<'a> {
    #[serde(rename = "sandboxId")]
    sandbox_id: &'a str,
    message: &'a str,
    code: u16,
}

/// The body of every other error.
#[derive(Serialize)]
struct Plain<'a> {
    code: u16,
    message: &'a str,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self::Told { status, message: message.into(), retry_after_s: None }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    /// A user that the sandbox does not know.
    pub(super) fn no_user(name: &str) -> Self {
        Self::unauthenticated(format!("invalid username: '{name}'"))
    }

    /// The answer where no sandbox is known.
    pub(super) fn plain(self) -> Response {
        match self {
            Self::NoSandbox | Self::Internal => StatusCode::NOT_FOUND.into_response(),
            Self::Answered(response) => *response,
            Self::Told { status, message, retry_after_s } => {
                let body = Plain { code: status.as_u16(), message: &message };
                let mut response = (status, Json(body)).into_response();
                if let Some(seconds) = retry_after_s {
                    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                }
                response
            }
        }
    }

    pub(super) fn told(self, sandbox: &SandboxId) -> Response {
        let of_sandbox = |status: StatusCode, message| {
            let body = OfSandbox { sandbox_id: sandbox.as_str(), message, code: status.as_u16() };
            (status, [(SHOULD_RETRY, "false")], Json(body)).into_response()
        };
        match self {
            Self::NoSandbox => of_sandbox(StatusCode::BAD_GATEWAY, "The sandbox was not found"),
            Self::Internal => of_sandbox(StatusCode::NOT_FOUND, "There is no such route"),
            Self::Answered(_) | Self::Told { .. } => self.plain(),
        }
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Denied { ref id, .. } if error.is_changing() => Self::Told {
                status: StatusCode::SERVICE_UNAVAILABLE,
                message: format!("{id} is busy: {error}"),
                retry_after_s: Some(1),
            },
            error if error.is_absent() => Self::NoSandbox,
            EngineError::Refused(failure) if is_full(&failure) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, failure.message)
            }
            error => ApiError::from(error).into(),
        }
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        error.log();
        if matches!(error.code(), Code::SandboxNotFound | Code::SandboxEnded) {
            return Self::NoSandbox;
        }
        let (status, problem) = (status_of(error.code()), error.problem());
        Self::Told { status, message: problem.detail, retry_after_s: problem.retry_after_s }
    }
}

/// The status that these clients know for a code.
fn status_of(code: Code) -> StatusCode {
    match code {
        Code::WrongKind | Code::AlreadyExists => StatusCode::BAD_REQUEST,
        Code::Unsupported | Code::ProcessEnded | Code::SandboxExhausted | Code::SandboxIo => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        Code::DiskLow => StatusCode::INSUFFICIENT_STORAGE,
        // A value that cannot be used is a bad request to these clients.
        code => match error::status_of(code) {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            status => status,
        },
    }
}

/// True if the sandbox has no room left for files.
fn is_full(failure: &Failure) -> bool {
    failure.code == FailureCode::Exhausted && failure.errno.is_some_and(|errno| NO_SPACE.contains(&errno))
}

#[cfg(test)]
mod tests {
    use warren_testkit::assert_error_column;

    use super::*;

    fn status_of(code: FailureCode, errno: Option<i32>) -> u16 {
        let failure = Failure { errno, ..Failure::new(code, "") };
        let refusal = Refusal::from(EngineError::Refused(failure));
        refusal.told(&SandboxId::from_random([1; 16])).status().as_u16()
    }

    #[test]
    fn what_the_sandbox_refuses_has_the_status_that_clients_know() {
        assert_eq!(status_of(FailureCode::NotFound, Some(2)), 404);
        assert_eq!(status_of(FailureCode::WrongKind, Some(21)), 400);
        assert_eq!(status_of(FailureCode::Invalid, None), 400);
        assert_eq!(
            (status_of(FailureCode::Exhausted, Some(28)), status_of(FailureCode::Exhausted, Some(122))),
            (507, 507)
        );
        assert_eq!(
            (status_of(FailureCode::Exhausted, Some(24)), status_of(FailureCode::Io, Some(5))),
            (500, 500)
        );
    }

    #[test]
    fn the_table_of_errors_has_the_statuses_of_files() {
        let id = SandboxId::from_random([1; 16]);
        assert_error_column("E2B files", |code| {
            Refusal::from(ApiError::new(code, "")).told(&id).status().as_u16().to_string()
        });
    }

    #[test]
    fn a_sandbox_that_is_not_there_is_not_asked_again() {
        let id = SandboxId::from_random([1; 16]);
        let response = Refusal::from(EngineError::sandbox_not_found(&id)).told(&id);
        assert_eq!(
            (response.status().as_u16(), response.headers()[SHOULD_RETRY].to_str().unwrap()),
            (502, "false")
        );
    }
}
