use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::json;
use warren_core::ErrorCode;
use warren_engine::{ChatError, EngineError};
use warren_face::body::read_body;
use warren_face::error::{ApiError, name_of, status_of};
use warren_wire::api::Problem;

/// When a start that failed is worth another try.
const RETRY_AFTER_S: u64 = 5;

/// No problem that this service writes comes near it.
const MOST_PROBLEM_BYTES: usize = 256 << 10;

/// Why the chat service does not do what was asked.
#[derive(Debug)]
pub(super) enum Refusal {
    /// One that callers know by its name alone.
    Named(ErrorCode),
    StartFailed(String),
    Invalid(Vec<Wrong>),
    /// An error that every interface refuses alike; reworded on its way out.
    Usual(Box<ApiError>),
}

/// One thing that is wrong with a request, and where.
#[derive(Debug, Serialize)]
pub(super) struct Wrong {
    #[serde(rename = "type")]
    kind: &'static str,
    loc: Vec<String>,
    msg: String,
}

impl Wrong {
    pub(super) fn body(kind: &'static str, msg: &str) -> Self {
        Self { kind, loc: vec!["body".to_owned()], msg: msg.to_owned() }
    }

    pub(super) fn field(kind: &'static str, name: &str, msg: impl Into<String>) -> Self {
        let name = name.chars().take(100).collect();
        Self { kind, loc: vec!["body".to_owned(), name], msg: msg.into() }
    }

    pub(super) fn path(kind: &'static str, name: &str, msg: &str) -> Self {
        Self { kind, loc: vec!["path".to_owned(), name.to_owned()], msg: msg.to_owned() }
    }

    #[cfg(test)]
    pub(super) fn place(&self) -> String {
        self.loc.join(".")
    }
}

impl Refusal {
    /// The sandbox runs, and what it needs beside it could not be had.
    pub(super) fn start_failed_by(error: std::io::Error) -> Self {
        let error = ApiError::internal(error);
        error.log();
        Self::StartFailed("its endpoint could not be opened".to_owned())
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Usual(Box::new(error))
    }
}

impl From<ChatError> for Refusal {
    fn from(error: ChatError) -> Self {
        match error {
            ChatError::Conflict | ChatError::VolumeNotAllowed => Self::Named(error.code()),
            ChatError::Engine(EngineError::Invalid { field, wording }) => {
                let name = name_of(&field);
                Self::Invalid(vec![Wrong::field("value_error", &name, wording.of(&name))])
            }
            ChatError::StartFailed(error) | ChatError::Engine(error) => {
                let error = ApiError::from(error);
                error.log();
                Self::StartFailed(error.problem().detail)
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Named(code) => detail(status_at_start(code), json!(code.as_str())),
            Self::Invalid(wrong) => detail(status_at_start(ErrorCode::InvalidValue), json!(wrong)),
            Self::StartFailed(reason) => {
                let status = status_at_start(ErrorCode::StartFailed);
                let mut response = detail(status, json!(format!("sandbox_start_failed: {reason}")));
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
                response
            }
            Self::Usual(error) => error.into_response(),
        }
    }
}

/// A problem as this contract tells it: its status and headers stay, its body is the detail alone.
pub(super) async fn reworded(response: Response) -> Response {
    if response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != "application/problem+json") {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let problem = read_body(body, MOST_PROBLEM_BYTES).await.ok();
    let problem = problem.and_then(|bytes| serde_json::from_slice::<Problem>(&bytes).ok());
    let told = problem.map_or_else(|| parts.status.to_string(), |problem| problem.detail);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(json!({"detail": told}).to_string()))
}

fn detail(status: StatusCode, detail: serde_json::Value) -> Response {
    (status, axum::Json(json!({"detail": detail}))).into_response()
}

/// The status for a code that kept a chat from its sandbox. Whatever else fails there is a start
/// that failed.
fn status_at_start(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::SandboxConflict | ErrorCode::VolumeNotAllowed | ErrorCode::InvalidValue => status_of(code),
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::assert_error_column;

    use super::*;

    #[test]
    fn the_table_of_errors_has_the_statuses_of_chats() {
        assert_error_column("chat", |code| status_at_start(code).as_u16().to_string());
    }
}
