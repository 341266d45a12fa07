//! Who asks, and what they may.
//!
//! A key is 160 random bits. The catalog keeps its SHA-256 alone, and this process an index of all of them, so a wrong key costs
//! the same as a right one and never reaches the database. [`required`] stands before every route but the few that are public:
//! a route that forgets to ask for its [`Caller`] is still closed to strangers. A revocation ends what is open: requests under way
//! are answered with 401, bodies break off, and web sockets end through [`Caller::until_cut`].

mod attempts;
mod credentials;
mod cut;
mod keyring;

use std::ops::Deref;

use axum::extract::{FromRequestParts, OptionalFromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderMap, Method};
use warren_core::{Owner, Scope};

pub(crate) use attempts::{Attempts, Peer};
pub(crate) use cut::{Cut, CutBody, StreamGuard};
pub use keyring::KeyringError;
pub(crate) use keyring::{Keyring, NewKey, Secret};

use crate::error::{ApiError, Code};
use crate::listener::Acquaintance;
use crate::request_id::RequestId;
use crate::state::AppState;

const OWNER_HEADER: &str = "x-warren-owner";
const TRACE_HEADER: &str = "traceparent";

/// Who asks, for as long as their key is valid.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    who: warren_core::Caller,
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
    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scope >= scope {
            return Ok(());
        }
        let (has, needs) = (scope_word(self.scope), scope_word(scope));
        Err(ApiError::new(Code::Forbidden, format!("the key's scope is `{has}`, and this needs `{needs}`")))
    }

    /// Waits until whatever this caller has open must end: the key is revoked, or the server shuts down.
    pub(crate) async fn until_cut(&self) -> Cut {
        self.guard.until_cut().await
    }

    /// The same for a task that outlives the request.
    pub(crate) fn guard(&self) -> StreamGuard {
        self.guard.clone()
    }
}

/// Taken from the request, where [`required`] or [`optional`] has put it.
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

/// A layer: lets nobody pass without a key.
pub(crate) async fn required(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match identify(&state, request.headers(), Peer::of(&request)) {
        Ok(Some(caller)) => serve_as(&state, caller, request, next).await,
        Ok(None) => refuse(&state, Peer::of(&request)).into_response(),
        Err(error) => error.into_response(),
    }
}

/// A layer for public routes: a key is not needed, but one that is shown must be right.
pub(crate) async fn optional(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match identify(&state, request.headers(), Peer::of(&request)) {
        Ok(Some(caller)) => serve_as(&state, caller, request, next).await,
        Ok(None) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Who asks; `None` if no key was shown. For interfaces with errors of their own shape.
pub(crate) fn identify(
    state: &AppState,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<Option<Caller>, ApiError> {
    let shown = credentials::shown(headers).map_err(|_| refuse(state, peer))?;
    let caller = match shown {
        Some(secret) => state.keyring.find(&secret).ok_or_else(|| refuse(state, peer))?,
        None if !state.config.auth.enabled => state.keyring.anybody(),
        None => return Ok(None),
    };
    let mut caller = acting_for(caller, headers)?;
    caller.who.request = RequestId::current().map(|id| id.to_string());
    caller.who.trace = trace_of(headers);
    Ok(Some(caller))
}

/// The trace that a request is part of, as the W3C's header `traceparent` names it.
fn trace_of(headers: &HeaderMap) -> Option<String> {
    let trace = headers.get(TRACE_HEADER)?.to_str().ok()?.split('-').nth(1)?;
    let valid = trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit());
    valid.then(|| trace.to_owned())
}

/// Serves the request for as long as its caller is welcome.
async fn serve_as(state: &AppState, caller: Caller, mut request: Request, next: Next) -> Response {
    let least =
        if matches!(*request.method(), Method::GET | Method::HEAD) { Scope::Read } else { Scope::Use };
    if let Err(error) = caller.require(least) {
        return error.into_response();
    }
    Acquaintance::of(request.extensions(), &caller.owner);
    state.fairness.turn(&caller.owner).await;
    let guard = caller.guard();
    let (owner, name) = (caller.owner.clone(), caller.key.clone());
    request.extensions_mut().insert(caller);
    let mut response = tokio::select! {
        response = next.run(request) => response,
        () = guard.until_revoked() => return unauthorized().into_response(),
    };
    response.extensions_mut().insert(crate::logging::AskedBy { owner, key: name });
    response.map(|body| axum::body::Body::new(cut::CutBody::new(body, guard)))
}

/// An administrator may act for another owner; nobody else may name one but themselves.
fn acting_for(mut caller: Caller, headers: &HeaderMap) -> Result<Caller, ApiError> {
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

/// Counts the failure, and answers what every failure is answered.
pub(crate) fn refuse(state: &AppState, peer: Option<Peer>) -> ApiError {
    state.metrics.auth_failed();
    match state.attempts.failed(peer, &state.config.auth) {
        Some(retry_after_s) => {
            ApiError::new(Code::TooManyAttempts, "too many failed attempts from this address: wait a while")
                .retry_after_s(retry_after_s)
        }
        None => unauthorized(),
    }
}

/// The same words whatever was wrong, so that nobody learns what was almost right.
fn unauthorized() -> ApiError {
    ApiError::new(
        Code::Unauthorized,
        "show a valid API key, once: `Authorization: Bearer KEY` or `X-API-Key: KEY`",
    )
}

pub(crate) fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Use => "use",
        Scope::Admin => "admin",
    }
}
