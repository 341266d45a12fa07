use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use warren_core::network::SecretError;
use warren_core::{SandboxId, SecretName, SessionId, SnapshotId, TemplateName};
use warren_engine::{EngineError, Missing};
use warren_face::error::{ApiError, Code};
use warren_face::port::parse_port;
use warren_wire::guest::ProcessSelector;

use crate::convert;

const LONGEST_TOOL: usize = 64;
const LONGEST_CONTEXT: usize = 64;

/// `{sandbox_id}` of the path. What cannot be an id is answered like one that nobody has.
#[derive(Debug, Clone)]
pub(crate) struct SandboxPath(pub(crate) SandboxId);

/// `{session_id}` of the path.
#[derive(Debug, Clone)]
pub(crate) struct SessionPath(pub(crate) SessionId);

/// `{snapshot_id}` of the path.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotPath(pub(crate) SnapshotId);

/// `{tool}` of the path.
#[derive(Debug, Clone)]
pub(crate) struct ToolPath(pub(crate) String);

/// `{context}` of the path.
#[derive(Debug, Clone)]
pub(crate) struct CodeContextPath(pub(crate) String);

/// `{number}` of the path: what a sandbox waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskPath(pub(crate) u64);

/// `{name}` of the path.
#[derive(Debug, Clone)]
pub(crate) struct TemplatePath(pub(crate) TemplateName);

/// `{secret}` of the path.
#[derive(Debug, Clone)]
pub(crate) struct SecretPath(pub(crate) SecretName);

/// `{process}` of the path.
#[derive(Debug, Clone)]
pub(crate) struct ProcessPath(pub(crate) ProcessSelector);

/// `{port}` of the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortPath(pub(crate) u16);

impl<S: Send + Sync> FromRequestParts<S> for PortPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let port = parse_port(&part(parts, state, "port").await?);
        port.map(Self).ok_or_else(|| ApiError::invalid("port", "a port is a number from 1 to 65535"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ProcessPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        convert::process_selector(&part(parts, state, "process").await?).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SandboxPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "sandbox_id").await?;
        text.parse().map(Self).map_err(|_| EngineError::sandbox_not_found(shorten(&text)).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "session_id").await?;
        text.parse().map(Self).map_err(|_| EngineError::session_not_found(shorten(&text)).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SnapshotPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "snapshot_id").await?;
        text.parse().map(Self).map_err(|_| EngineError::snapshot_not_found(shorten(&text)).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ToolPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "tool").await?;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (1..=LONGEST_TOOL).contains(&text.len()) && text.bytes().all(word) {
            return Ok(Self(text));
        }
        Err(EngineError::NotFound { what: Missing::Tool, id: shorten(&text) }.into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CodeContextPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "context").await?;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (1..=LONGEST_CONTEXT).contains(&text.len()) && text.bytes().all(word) {
            return Ok(Self(text));
        }
        Err(ApiError::new(Code::ContextNotFound, format!("there is no context `{}`", shorten(&text))))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AskPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "number").await?;
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let missing = || EngineError::NotFound { what: Missing::NetworkAsk, id: shorten(&text) };
        number.map(Self).ok_or_else(|| missing().into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SecretPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "secret").await?;
        text.parse().map(Self).map_err(|error: SecretError| ApiError::invalid("secret", error.to_string()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TemplatePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = part(parts, state, "name").await?;
        let missing =
            || ApiError::new(Code::TemplateNotFound, format!("there is no template `{}`", shorten(&text)));
        text.parse().map(Self).map_err(|_| missing())
    }
}

/// A part of the path by its name in the route.
async fn part<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, ApiError> {
    let broken = || ApiError::new(Code::InvalidRequest, "the path is not percent-encoded UTF-8");
    let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| broken())?;
    let found = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(broken)
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}
