//! Keys, callers and their rights.
//!
//! A key is 160 random bits. The catalog keeps its SHA-256 alone, and this process an index of all
//! of them, so a wrong key costs the same as a right one and never reaches the database.
//! [`crate::gate`] finds the [`Caller`] and puts it into the request. A revocation ends what is
//! open: requests under way are answered with 401, bodies break off, and web sockets end through
//! [`Caller::until_cut`].

mod attempts;
pub(crate) mod credentials;
mod cut;
mod keyring;

use std::ops::Deref;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::HeaderMap;
use http::request::Parts;
use warren_core::{Owner, Scope};

pub(crate) use attempts::Attempts;
pub use cut::{Cut, CutBody, StreamGuard};
pub use keyring::{Keyring, KeyringError, NewKey, NotAKey, Secret};

use crate::error::{ApiError, Code};

const OWNER_HEADER: &str = "x-warren-owner";
const TRACE_HEADER: &str = "traceparent";

/// The caller of a request, for as long as its key is valid.
#[derive(Debug, Clone)]
pub struct Caller {
    pub(crate) who: warren_core::Caller,
    guard: StreamGuard,
}

impl Deref for Caller {
    type Target = warren_core::Caller;

    fn deref(&self) -> &warren_core::Caller {
        &self.who
    }
}

impl Caller {
    /// Denies what the key's scope does not include.
    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scope >= scope {
            return Ok(());
        }
        let (has, needs) = (scope_word(self.scope), scope_word(scope));
        Err(ApiError::new(Code::Forbidden, format!("the key's scope is `{has}`, and this needs `{needs}`")))
    }

    /// Waits until whatever this caller has open must end: the key is revoked, or the server shuts
    /// down.
    pub async fn until_cut(&self) -> Cut {
        self.guard.until_cut().await
    }

    /// The same for a task that outlives the request.
    pub fn guard(&self) -> StreamGuard {
        self.guard.clone()
    }
}

/// Taken from the request, where [`crate::gate`] has put it.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unauthorized)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, ApiError> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

/// An administrator may act for another owner; everybody else may only name their own.
pub(crate) fn acting_for(mut caller: Caller, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let mut named = headers.get_all(OWNER_HEADER).iter();
    let Some(value) = named.next() else { return Ok(caller) };
    if named.next().is_some() {
        return Err(ApiError::new(Code::InvalidRequest, "the header X-Warren-Owner was sent twice"));
    }
    let owner: Owner = value
        .to_str()
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| ApiError::invalid("X-Warren-Owner", "the header is not the name of an owner"))?;
    if owner != caller.owner {
        caller.require(Scope::Admin)?;
        caller.who.owner = owner;
    }
    Ok(caller)
}

/// The trace that a request is part of, as the W3C's header `traceparent` names it.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<String> {
    let trace = headers.get(TRACE_HEADER)?.to_str().ok()?.split('-').nth(1)?;
    let valid = trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| trace.to_owned())
}

/// The same words whatever was wrong, so that nobody learns what was almost right.
pub(crate) fn unauthorized() -> ApiError {
    ApiError::new(
        Code::Unauthorized,
        "show a valid API key, once: `Authorization: Bearer KEY` or `X-API-Key: KEY`",
    )
}

pub fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Use => "use",
        Scope::Admin => "admin",
    }
}
