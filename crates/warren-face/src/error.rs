//! Errors as `/v1` answers them: a status and a body for each code of the vocabulary.

mod field;
mod from_engine;
mod merge;
mod status;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::str::FromStr;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;
use warren_wire::api::Problem;

pub use warren_core::{ErrorCode as Code, error_chain as chain};

pub use field::name_of;
pub use merge::{change_kind, conflict, path_as_text};
pub use status::status_of;

use crate::request_id::RequestId;

/// An error on its way to a client. Handlers only use `?`.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    /// Apart, so that a result is not larger for the error that it mostly is not.
    facts: Box<Facts>,
}

#[derive(Debug, Default)]
struct Facts {
    detail: String,
    field: Option<String>,
    state: Option<String>,
    allowed: Vec<String>,
    retry_after_s: Option<u64>,
    details: BTreeMap<String, Value>,
    /// For the log; a client never sees it.
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ApiError {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let facts = Facts { detail: detail.into(), retry_after_s: code.retry_after_s(), ..Facts::default() };
        Self { code, facts: Box::new(facts) }
    }

    /// A value that cannot be used, by the name of its field.
    pub fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let mut error = Self::new(Code::InvalidValue, detail);
        error.facts.field = Some(field.into());
        error
    }

    /// The server's own fault. The client learns only where to look.
    pub fn internal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Code::Internal, "the server failed; its log says more under this request's id")
            .caused_by(source)
    }

    /// The field or header to blame.
    pub fn field(mut self, field: &str) -> Self {
        self.facts.field = Some(field.to_owned());
        self
    }

    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.facts.source = Some(source.into());
        self
    }

    /// The state that did not allow it, and what it allows.
    pub fn state(mut self, state: impl Into<String>, allowed: Vec<String>) -> Self {
        self.facts.state = Some(state.into());
        self.facts.allowed = allowed;
        self
    }

    pub fn retry_after_s(mut self, seconds: u64) -> Self {
        self.facts.retry_after_s = Some(seconds);
        self
    }

    /// Adds a value that belongs to this kind of problem.
    pub fn detail(mut self, name: &str, value: &impl Serialize) -> Self {
        if let Ok(value) = serde_json::to_value(value) {
            self.facts.details.insert(name.to_owned(), value);
        }
        self
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn status(&self) -> StatusCode {
        status_of(self.code)
    }

    /// The body, for answers that are not plain responses: a message on a stream, another
    /// interface's own shape.
    pub fn problem(&self) -> Problem {
        Problem {
            kind: Problem::urn(self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.status().as_u16(),
            detail: self.facts.detail.clone(),
            code: self.code.as_str().to_owned(),
            field: self.facts.field.clone(),
            request_id: RequestId::current().map(|id| id.to_string()),
            state: self.facts.state.clone(),
            allowed: self.facts.allowed.clone(),
            retry_after_s: self.facts.retry_after_s,
            details: self.facts.details.clone(),
        }
    }

    /// Writes the server's own faults to the log, with all their causes.
    pub fn log(&self) {
        if !self.status().is_server_error() {
            return;
        }
        let causes = self.facts.source.as_deref().map(|source| chain(source)).unwrap_or_default();
        let request_id = RequestId::current().map(|id| id.to_string()).unwrap_or_default();
        tracing::error!(request_id, code = self.code.as_str(), causes, "{}", self.facts.detail);
    }
}

/// Reads a value from its text, as a field of this name gives it.
pub fn parsed<T>(field: impl Into<String>, text: &str) -> Result<T, ApiError>
where
    T: FromStr<Err: Display>,
{
    text.parse().map_err(|error: T::Err| ApiError::invalid(field, error.to_string()))
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let body = serde_json::to_vec(&self.problem()).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.facts.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self.code);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_faults_keep_their_causes_to_themselves() {
        let error = ApiError::internal(std::io::Error::other("/var/lib/warren/secret"));
        let body = serde_json::to_string(&error.problem()).unwrap();
        assert!(!body.contains("secret"), "{body}");
    }

    #[test]
    fn a_refused_caller_is_told_how_to_come_in() {
        let response = ApiError::new(Code::Unauthorized, "no").into_response();
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }
}
