use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use warren_core::{SecretName, SnapshotId, TemplateName};
use warren_engine::{EngineError, Missing, Sandbox, Session};
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code, parsed};
use warren_face::port::parse_port;
use warren_wire::guest::ProcessSelector;

use crate::convert;
use crate::state::AppState;

const LONGEST_WORD: usize = 64;

/// `{sandbox_id}` of the path, with which the caller acts on the sandbox: any word for it. A text
/// that cannot be one is answered like an id that nobody has.
#[derive(Debug)]
pub(crate) struct SandboxPath(pub(crate) Sandbox);

/// `{session_id}` of the path, with which the caller acts on the session.
#[derive(Debug)]
pub(crate) struct SessionPath(pub(crate) Session);

impl FromRequestParts<AppState> for SandboxPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = <Caller as FromRequestParts<AppState>>::from_request_parts(parts, state).await?;
        let text = part(parts, state, "sandbox_id").await?;
        Ok(Self(state.engine.as_(&caller).find(&text).await?))
    }
}

impl FromRequestParts<AppState> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = <Caller as FromRequestParts<AppState>>::from_request_parts(parts, state).await?;
        let text = part(parts, state, "session_id").await?;
        let id = text.parse().map_err(|_| EngineError::session_not_found(shorten(&text)))?;
        Ok(Self(state.engine.as_(&caller).session(&id)))
    }
}

/// Parts of the path that are read from their text alone.
macro_rules! path_parts {
    ($($part:literal $name:ident($value:ty) $read:expr;)*) => {$(
        #[doc = concat!("`{", $part, "}` of the path.")]
        #[derive(Debug)]
        pub(crate) struct $name(pub(crate) $value);

        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
                let read: fn(&str) -> Result<$value, ApiError> = $read;
                read(&part(parts, state, $part).await?).map(Self)
            }
        }
    )*};
}

path_parts! {
    "snapshot_id" SnapshotPath(SnapshotId) |text| {
        text.parse().map_err(|_| EngineError::snapshot_not_found(shorten(text)).into())
    };
    "entry" EntryPath(u64) |text| {
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        number.ok_or_else(|| ApiError::invalid("entry", "an entry is a number of the journal"))
    };
    "tool" ToolPath(String) |text| {
        word(text).ok_or_else(|| EngineError::NotFound { what: Missing::Tool, id: shorten(text) }.into())
    };
    "context" CodeContextPath(String) |text| {
        word(text).ok_or_else(|| missing(Code::ContextNotFound, "context", text))
    };
    "number" AskPath(u64) |text| {
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        number.ok_or_else(|| EngineError::NotFound { what: Missing::NetworkAsk, id: shorten(text) }.into())
    };
    "name" TemplatePath(TemplateName) |text| {
        text.parse().map_err(|_| missing(Code::TemplateNotFound, "template", text))
    };
    "secret" SecretPath(SecretName) |text| parsed("secret", text);
    "process" ProcessPath(ProcessSelector) convert::process_selector;
    "port" PortPath(u16) |text| {
        parse_port(text).ok_or_else(|| ApiError::invalid("port", "a port is a number from 1 to 65535"))
    };
}

fn word(text: &str) -> Option<String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    ((1..=LONGEST_WORD).contains(&text.len()) && text.bytes().all(letter)).then(|| text.to_owned())
}

fn missing(code: Code, what: &str, text: &str) -> ApiError {
    ApiError::new(code, format!("there is no {what} `{}`", shorten(text)))
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
