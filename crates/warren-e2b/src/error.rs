use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use warren_core::{DenyReason, Field, PolicyField};
use warren_engine::EngineError;
use warren_face::body::read_body;
use warren_face::error::{ApiError, Code, status_of};
use warren_wire::api::Problem;

use crate::rest::Failure;

/// Tells clients that repeat what failed whether there is any use in it.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// No error that this service writes comes near it.
const MOST_ERROR_BYTES: usize = 256 << 10;

/// An error of the control plane, on its way to a client.
#[derive(Debug)]
pub(crate) struct E2bError {
    status: StatusCode,
    message: String,
    /// A word that programs branch on where the status is not enough.
    slug: Option<&'static str>,
    retry_after_s: Option<u64>,
    /// None where somebody else has made the answer, and only its status is known.
    code: Option<Code>,
}

impl E2bError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let (status, slug) = form_of(code);
        Self { status, message: message.into(), slug, retry_after_s: code.retry_after_s(), code: Some(code) }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidValue, message)
    }

    /// A template, or a build or tag of one, that is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::TemplateNotFound, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(Code::WrongState, message)
    }

    /// The same words for one that never was, one that is gone and one of somebody else's.
    pub(crate) fn no_sandbox(id: impl std::fmt::Display) -> Self {
        Self::from(EngineError::sandbox_not_found(id))
    }

    pub(crate) fn slug(mut self, slug: &'static str) -> Self {
        self.slug = Some(slug);
        self
    }

    /// Says what of the request it is about.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The body, for answers that tell of several things at once.
    pub(crate) fn failure(&self) -> Failure {
        Failure {
            code: self.status.as_u16(),
            message: self.message.clone(),
            error_code: self.slug.map(str::to_owned),
        }
    }

    fn of(code: Code, problem: Problem) -> Self {
        let message = match problem.field {
            Some(field) => format!("{field}: {}", problem.detail),
            None => problem.detail,
        };
        Self { retry_after_s: problem.retry_after_s, ..Self::new(code, message) }
    }

    /// True if the same request may well work in a moment. Without an answer clients repeat what
    /// they should not.
    fn should_retry(&self) -> Option<bool> {
        let repeated = matches!(self.status.as_u16(), 429 | 502 | 503 | 504);
        let passing = matches!(
            self.code,
            Some(
                Code::Busy
                    | Code::MaxHeavyWork
                    | Code::ShuttingDown
                    | Code::StartFailed
                    | Code::AgentUnreachable
                    | Code::TooManyCalls
            )
        );
        repeated.then_some(passing)
    }
}

/// The status and the slug that this protocol has for a code.
fn form_of(code: Code) -> (StatusCode, Option<&'static str>) {
    match code {
        Code::SandboxEnded => (StatusCode::NOT_FOUND, None),
        Code::IdempotencyMismatch => (StatusCode::UNPROCESSABLE_ENTITY, Some("idempotency_request_mismatch")),
        code => match status_of(code) {
            StatusCode::UNPROCESSABLE_ENTITY => (StatusCode::BAD_REQUEST, None),
            status => (status, None),
        },
    }
}

/// The name that this protocol has for a field.
fn name_of(field: &Field) -> String {
    let name = match field {
        Field::Template => "templateID",
        Field::Memory => "memoryMB",
        Field::Cpus => "cpuCount",
        Field::Disk => "diskSizeMB",
        Field::Lifetime => "timeout",
        Field::Env => "envVars",
        Field::Labels => "metadata",
        Field::Mounts => "volumeMounts",
        Field::Network(PolicyField::Allow) => "allowOut",
        Field::Network(PolicyField::Deny) => "denyOut",
        Field::Network(PolicyField::Secrets) => "rules",
        Field::Snapshot => "snapshotID",
        same => return same.to_string(),
    };
    name.to_owned()
}

impl From<ApiError> for E2bError {
    fn from(error: ApiError) -> Self {
        error.log();
        Self::of(error.code(), error.problem())
    }
}

impl From<EngineError> for E2bError {
    /// A sandbox that ended meanwhile is as if it had never been.
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Denied { id, reason: DenyReason::Stopped | DenyReason::Failed, .. } => {
                Self::no_sandbox(id)
            }
            EngineError::Invalid { field, wording } => {
                Self::new(Code::InvalidValue, wording.naming(&name_of(&field)))
            }
            error => ApiError::from(error).into(),
        }
    }
}

impl IntoResponse for E2bError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.failure())).into_response();
        let headers = response.headers_mut();
        if let Some(retry) = self.should_retry() {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(if retry { "true" } else { "false" }));
            // One that has this is repeated by some clients whatever else is said.
            if let Some(seconds) = self.retry_after_s.filter(|_| retry) {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        if let Some(code) = self.code {
            response.extensions_mut().insert(code);
        }
        response
    }
}

/// An error that the layers around the routes answered, as this protocol tells it.
pub(crate) async fn reworded(response: Response) -> Response {
    let failed = response.status().is_client_error() || response.status().is_server_error();
    if !failed || response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json") {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = read_body(body, MOST_ERROR_BYTES).await.unwrap_or_default();
    let problem = serde_json::from_slice::<Problem>(&bytes).ok();
    match (parts.extensions.get::<Code>(), problem) {
        (Some(code), Some(problem)) => E2bError::of(*code, problem).into_response(),
        _ => {
            let message = String::from_utf8_lossy(&bytes).into_owned();
            let told = E2bError::new(Code::InvalidRequest, message);
            E2bError { status: parts.status, code: None, retry_after_s: None, ..told }.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::assert_error_column;

    use super::*;

    async fn told(response: Response) -> (u16, Failure, Option<String>) {
        let (status, retry) = (response.status().as_u16(), response.headers().get(SHOULD_RETRY).cloned());
        let bytes = read_body(response.into_body(), MOST_ERROR_BYTES).await.unwrap();
        let retry = retry.map(|value| value.to_str().unwrap().to_owned());
        (status, serde_json::from_slice(&bytes).unwrap(), retry)
    }

    #[test]
    fn the_table_of_errors_has_the_statuses_of_the_control_plane() {
        assert_error_column("E2B control", |code| {
            let error = E2bError::new(code, "");
            let slug = error.slug.map(|slug| format!(" `{slug}`")).unwrap_or_default();
            let again = if error.should_retry() == Some(true) { ", again" } else { "" };
            format!("{}{slug}{again}", error.status().as_u16())
        });
    }

    #[tokio::test]
    async fn an_error_says_its_status_twice() {
        let cases = [
            (ApiError::invalid("metadata", "too many"), 400, None),
            (ApiError::new(Code::SandboxEnded, "gone"), 404, None),
            (ApiError::new(Code::IdempotencyMismatch, "other"), 422, None),
            (ApiError::new(Code::Unauthorized, "no"), 401, None),
            (ApiError::new(Code::MaxSandboxes, "full"), 429, Some("false")),
            (ApiError::new(Code::Busy, "wait"), 503, Some("true")),
            (ApiError::new(Code::MaxHeavyWork, "wait"), 429, Some("true")),
        ];
        for (error, status, retry) in cases {
            let (answered, failure, retried) = told(E2bError::from(error).into_response()).await;
            assert_eq!((answered, failure.code, retried.as_deref()), (status, status, retry));
        }
    }

    #[tokio::test]
    async fn the_field_to_blame_is_named() {
        let (_, failure, _) =
            told(E2bError::from(ApiError::invalid("metadata", "too many")).into_response()).await;
        assert_eq!(failure.message, "metadata: too many");
    }

    #[tokio::test]
    async fn what_the_layers_refuse_is_reworded() {
        let refused = ApiError::new(Code::Unauthorized, "show a key").into_response();
        let (status, failure, _) = told(reworded(refused).await).await;
        assert_eq!((status, failure.code, failure.message.as_str()), (401, 401, "show a key"));
        let text = (StatusCode::BAD_REQUEST, "no number").into_response();
        let (status, failure, _) = told(reworded(text).await).await;
        assert_eq!((status, failure.message.as_str()), (400, "no number"));
    }
}
