//! Admission: checks the token, and that there is a sandbox to speak with.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use warren_core::{PausedBy, SandboxId, SandboxRecord, Status};
use warren_face::gate;
use warren_wire::guest::ByteString;

use super::refusal::Refusal;
use super::route::Call;
use super::{Visitor, signature};
use crate::envd::Envd;
use crate::{tokens, wake};

const TOKEN_HEADER: &str = "x-access-token";

const LONGEST_USER: usize = 255;

/// Admits a client that may use it, once the sandbox is awake. Everybody is told if it exists, and
/// only admitted clients what it holds.
pub(super) async fn admit(
    state: &Envd,
    sandbox: &SandboxId,
    call: &Call,
    head: &Parts,
) -> Result<Visitor, Refusal> {
    let record = state.engine.live(sandbox).ok_or(Refusal::NoSandbox)?;
    let shown = check(state, sandbox, call, head);
    let record = awake(state, record, shown.is_ok()).await?;
    if shown.is_ok() {
        gate::welcome(state, &head.extensions, &record.owner).await;
    }
    if *call != Call::Health {
        shown.inspect_err(|_| state.counters.auth_failed())?;
    }
    let user = named_user(&head.headers)?;
    Ok(Visitor::new(state, record, user))
}

/// Checks the sandbox's token, or where one is enough, a signature made with it.
fn check(state: &Envd, sandbox: &SandboxId, call: &Call, head: &Parts) -> Result<(), Refusal> {
    let mut shown = head.headers.get_all(TOKEN_HEADER).iter();
    match (shown.next(), shown.next()) {
        (None, _) if call.may_be_signed() => signature::check(state, sandbox, head),
        (None, _) => Err(Refusal::unauthenticated("unauthorized: the header X-Access-Token is missing")),
        (Some(token), None) if is_token(token, state, sandbox) => Ok(()),
        (Some(_), _) => Err(Refusal::unauthenticated("unauthorized: the access token is not this sandbox's")),
    }
}

fn is_token(token: &http::HeaderValue, state: &Envd, sandbox: &SandboxId) -> bool {
    token.to_str().is_ok_and(|text| tokens::is_access_token(text, &state.link_keys, sandbox))
}

/// A sandbox that rests goes on by itself at the first call; one that somebody paused is woken if
/// that is wanted.
async fn awake(state: &Envd, record: Arc<SandboxRecord>, shown: bool) -> Result<Arc<SandboxRecord>, Refusal> {
    match record.status {
        Status::Ready => Ok(record),
        Status::Paused if record.paused.as_ref().is_some_and(|paused| paused.by == PausedBy::Idleness) => {
            Ok(record)
        }
        Status::Paused => {
            let woken = wake::wake(state, &record, shown).await;
            woken.map_err(|response| Refusal::Answered(Box::new(response)))?;
            state.engine.live(&record.id).ok_or(Refusal::NoSandbox)
        }
        Status::Creating | Status::Stopping | Status::Stopped | Status::Failed => Err(Refusal::NoSandbox),
    }
}

/// The user of Basic authentication; there is never a password. Any other scheme says nothing about
/// users.
fn named_user(headers: &HeaderMap) -> Result<Option<ByteString>, Refusal> {
    let Some(value) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
        return Ok(None);
    };
    let Some((scheme, rest)) = value.split_once(' ') else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let user = decoded.as_deref().and_then(|text| text.split_once(':')).map(|(user, _)| user);
    user_of(user.ok_or_else(|| Refusal::unauthenticated("the header Authorization names no user"))?)
}

/// A user's name as a client wrote it; nothing is the default user.
pub(super) fn user_of(name: &str) -> Result<Option<ByteString>, Refusal> {
    if name.len() > LONGEST_USER || name.contains('\0') {
        return Err(Refusal::unauthenticated(format!(
            "a username has up to {LONGEST_USER} bytes, and no NUL"
        )));
    }
    Ok((!name.is_empty()).then(|| name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(value: &str) -> Result<Option<ByteString>, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        named_user(&headers)
    }

    #[test]
    fn a_user_is_named_by_basic_authentication_alone() {
        assert_eq!(named("Basic cm9vdDo=").unwrap(), Some("root".into()));
        assert_eq!(named("basic dXNlcjpwYXNz").unwrap(), Some("user".into()));
        assert_eq!((named("Basic Og==").unwrap(), named("Bearer abc").unwrap()), (None, None));
        assert!(named("Basic !!!").is_err() && named("Basic cm9vdA==").is_err());
    }
}
