//! The control plane: makes, finds, changes and ends sandboxes.
//!
//! It is answered below `/e2b` on every listener, at the root of `api.DOMAIN`, and at the root of a listener of its own. Its keys are the
//! service's own keys. Both generations of its endpoints are served, since clients of either are in use.

mod answer;
mod create;
mod error;
mod extract;
mod fork;
mod lifecycle;
mod list;
mod page;
mod place;
mod snapshots;

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{Method, StatusCode, Uri};
use serde_json::{Value, json};
use warren_core::ErrorCode;
use warren_core::{SandboxId, SandboxRecord};
use warren_engine::HealthStatus;
use warren_face::auth::Caller;
use warren_face::gate;

use super::{logs, metrics, network, templates};
use crate::state::AppState;

pub(crate) use answer::{Shown, shown_as};
pub(crate) use error::E2bError;
pub(crate) use extract::{Body, Id, parse_id};
pub(crate) use lifecycle::wake;
pub(crate) use place::Place;

/// Every route, behind the layers that all of them share.
pub(crate) fn router(state: &AppState) -> Router {
    let mut keyed = keyed().layer(middleware::from_fn_with_state(state.desk.clone(), gate::required));
    if !state.config.auth.enabled {
        keyed = keyed.layer(middleware::from_fn(without_key));
    }
    let hurried = keyed
        .route("/health", get(health))
        .layer(middleware::from_fn_with_state(state.desk.clone(), gate::in_time));
    let unhurried =
        templates::uploads().layer(middleware::from_fn_with_state(state.desk.clone(), gate::in_its_own_time));
    let routes = Router::new().merge(hurried).merge(unhurried);
    let routes = Router::new()
        .nest("/e2b", routes.clone())
        .merge(routes)
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method);
    let face = gate::guarded(routes, state).layer(middleware::from_fn(in_its_own_words));
    gate::logged(face, state).with_state(state.clone())
}

/// A layer for a server that asks for no key: clients of this protocol show one all the same.
async fn without_key(mut request: Request, next: Next) -> Response {
    request.headers_mut().remove("x-api-key");
    next.run(request).await
}

/// What nobody may do without a key.
fn keyed() -> Router<AppState> {
    Router::new()
        .route("/sandboxes", get(list::running).post(create::first_generation))
        .route("/v2/sandboxes", get(list::list).post(create::create))
        .route("/sandboxes/{id}", get(lifecycle::get).delete(lifecycle::kill))
        .route("/sandboxes/{id}/connect", post(lifecycle::connect_first_generation))
        .route("/v2/sandboxes/{id}/connect", post(lifecycle::connect))
        .route("/sandboxes/{id}/resume", post(lifecycle::resume))
        .route("/sandboxes/{id}/pause", post(lifecycle::pause))
        .route("/sandboxes/{id}/timeout", post(lifecycle::set_timeout))
        .route("/sandboxes/{id}/refreshes", post(lifecycle::refresh))
        .route("/sandboxes/{id}/fork", post(fork::fork))
        .route("/sandboxes/{id}/snapshots", post(snapshots::take))
        .route("/snapshots", get(snapshots::list))
        .merge(network::routes())
        .merge(metrics::routes())
        .merge(logs::routes())
        .merge(templates::routes())
}

/// A sandbox that the caller may know of. One that has ended for good is as if it had never been.
pub(crate) async fn find(
    state: &AppState,
    caller: &Caller,
    id: &SandboxId,
) -> Result<SandboxRecord, E2bError> {
    let record = state.engine.as_(caller).sandbox(id).record().await?;
    if shown_as(&record).is_none() {
        return Err(E2bError::no_sandbox(id));
    }
    Ok(record)
}

/// A layer: whatever goes wrong is told as this protocol tells it.
async fn in_its_own_words(request: Request, next: Next) -> Response {
    error::reworded(next.run(request).await).await
}

async fn health(State(state): State<AppState>) -> (StatusCode, Json<Value>) {
    match state.engine.health().await.status {
        HealthStatus::Ok | HealthStatus::Warning => (StatusCode::OK, Json(json!({"status": "ok"}))),
        HealthStatus::Critical => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "critical"}))),
    }
}

async fn no_route(State(_): State<AppState>, method: Method, uri: Uri) -> E2bError {
    E2bError::new(ErrorCode::RouteNotFound, format!("there is no {method} {}", uri.path()))
}

async fn wrong_method(State(_): State<AppState>, method: Method, uri: Uri) -> E2bError {
    E2bError::new(ErrorCode::MethodNotAllowed, format!("{} does not have {method}", uri.path()))
}
