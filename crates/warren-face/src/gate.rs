//! Lets callers in, and keeps requests within their time.
//!
//! [`required`] stands before every route but the few that are public: a route that forgets to ask
//! for its [`Caller`] is still closed to strangers. [`in_time`] cuts bodies that do not flow and
//! answers that do not come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use http::{Extensions, HeaderMap, Method};
use http_body::Body as _;
use warren_core::{Owner, Scope};

use crate::arrival::{OwnerNotice, Peer};
use crate::auth::{self, Caller, CutBody, credentials};
use crate::body::{TimedBody, flowing};
use crate::desk::Desk;
use crate::error::{ApiError, Code};
use crate::foreign;
use crate::logging::{self, AskedBy};
use crate::request_id::{self, RequestId};

/// A layer: lets nobody pass without a key.
pub async fn required(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    match identify(&desk, request.headers(), Peer::of(&request)) {
        Ok(Some(caller)) => serve_as(&desk, caller, request, next).await,
        Ok(None) => refuse(&desk, Peer::of(&request)).into_response(),
        Err(error) => error.into_response(),
    }
}

/// A layer for public routes: a key is not needed, but one that is shown must be right.
pub async fn optional(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    match identify(&desk, request.headers(), Peer::of(&request)) {
        Ok(Some(caller)) => serve_as(&desk, caller, request, next).await,
        Ok(None) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Finds the caller; `None` if no key was shown. For interfaces with errors of their own shape.
pub fn identify(desk: &Desk, headers: &HeaderMap, peer: Option<Peer>) -> Result<Option<Caller>, ApiError> {
    let shown = credentials::shown(headers).map_err(|_| refuse(desk, peer))?;
    let caller = match shown {
        Some(secret) => desk.keyring.find(&secret).ok_or_else(|| refuse(desk, peer))?,
        None if !desk.config.auth.enabled => desk.keyring.anybody(),
        None => return Ok(None),
    };
    let mut caller = auth::acting_for(caller, headers)?;
    caller.who.request = RequestId::current().map(|id| id.to_string());
    caller.who.trace = auth::trace_of(headers);
    Ok(Some(caller))
}

/// A request has shown that this owner lets it in: its connection is no stranger's any more, and it
/// waits for its turn.
pub async fn welcome(desk: &Desk, request: &Extensions, owner: &Owner) {
    OwnerNotice::of(request, owner);
    desk.fairness.turn(owner).await;
}

/// Serves the request for as long as its caller is welcome.
async fn serve_as(desk: &Desk, caller: Caller, mut request: Request, next: Next) -> Response {
    let least =
        if matches!(*request.method(), Method::GET | Method::HEAD) { Scope::Read } else { Scope::Use };
    if let Err(error) = caller.require(least) {
        return error.into_response();
    }
    welcome(desk, request.extensions(), &caller.owner).await;
    let guard = caller.guard();
    let (owner, name) = (caller.owner.clone(), caller.key.clone());
    request.extensions_mut().insert(caller);
    let mut response = tokio::select! {
        response = next.run(request) => response,
        () = guard.until_revoked() => return auth::unauthorized().into_response(),
    };
    response.extensions_mut().insert(AskedBy { owner, key: name });
    response.map(|body| Body::new(CutBody::new(body, guard)))
}

/// Counts the failure, and answers what every failure is answered.
pub fn refuse(desk: &Desk, peer: Option<Peer>) -> ApiError {
    desk.counters.auth_failed();
    match desk.attempts.failed(peer, &desk.config.auth) {
        Some(retry_after_s) => {
            ApiError::new(Code::TooManyAttempts, "too many failed attempts from this address: wait a while")
                .retry_after_s(retry_after_s)
        }
        None => auth::unauthorized(),
    }
}

/// A layer: cuts a slow body, and an answer that comes too late.
pub async fn in_time(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    let http = &desk.config.http;
    let complete = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let request =
        request.map(|body| Body::new(TimedBody::new(body, http.read_timeout, Arc::clone(&complete))));
    match tokio::time::timeout(http.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) if complete.load(Ordering::Relaxed) => {
            ApiError::new(Code::TimedOut, "the answer took too long").into_response()
        }
        Err(_) => ApiError::new(Code::RequestTimeout, "the request's body took too long").into_response(),
    }
}

/// A layer for what may take its time: cuts a slow body alone.
pub async fn in_its_own_time(State(desk): State<Desk>, request: Request, next: Next) -> Response {
    next.run(request.map(|body| flowing(body, desk.config.http.read_timeout))).await
}

/// The routes of a face behind what none of them may be without: bounds of bodies, and no pages of
/// elsewhere where no key is asked for.
pub fn guarded<S>(routes: Router<S>, desk: &Desk) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let most = usize::try_from(desk.config.http.max_body).unwrap_or(usize::MAX);
    routes
        .layer(DefaultBodyLimit::max(most))
        .layer(middleware::from_fn_with_state(desk.clone(), foreign::layer))
}

/// A face as it is mounted: each request has an id, and a line in the log.
pub fn logged<S>(face: Router<S>, desk: &Desk) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    face.layer(middleware::from_fn_with_state(desk.clone(), logging::layer))
        .layer(middleware::from_fn(request_id::layer))
}
