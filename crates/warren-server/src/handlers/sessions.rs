use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use warren_core::catalog::SessionFilter;
use warren_engine::Release;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_wire::api;

use super::sandboxes::made;
use super::snapshots::settle_template;
use crate::convert;
use crate::extract::{IdempotencyKey, Json, Params, SessionPath};
use crate::state::AppState;

type Answer = Result<Json<api::Session>, ApiError>;

pub(crate) async fn acquire(
    State(state): State<AppState>,
    caller: Caller,
    key: IdempotencyKey,
    Json(mut body): Json<api::AcquireSession>,
) -> Result<Response, ApiError> {
    let idempotency = key.expected(&body)?;
    settle_template(&state, &caller, &mut body.sandbox, "sandbox.").await?;
    let request = convert::acquire(body, idempotency, &state.settings)?;
    let acquired = state.engine.as_(&caller).sessions().acquire(request).await;
    let acquired = acquired.map_err(|error| convert::nested(error, "sandbox."))?;
    Ok(made(acquired.repeated, StatusCode::CREATED, Json(convert::acquired(&acquired)).into_response()))
}

pub(crate) async fn attach(
    State(state): State<AppState>,
    caller: Caller,
    Json(mut body): Json<api::AttachSession>,
) -> Result<Response, ApiError> {
    if let Some(create) = &mut body.create {
        settle_template(&state, &caller, create, "create.").await?;
    }
    let request = convert::attach(body, &state.settings)?;
    let acquired = state.engine.as_(&caller).sessions().attach(request).await;
    let acquired = acquired.map_err(|error| convert::nested(error, "create."))?;
    let status = if acquired.fresh { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(convert::acquired(&acquired))).into_response())
}

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Json<api::Page<api::Session>>, ApiError> {
    let filter = SessionFilter {
        sandbox: params.parsed("sandbox")?,
        client: params.text("client").map(ToOwned::to_owned),
        ended: params.flag("ended")?,
    };
    let page = state.engine.as_(&caller).sessions().list(&filter, &params.page()?).await?;
    Ok(Json(convert::page(&page, convert::session)))
}

pub(crate) async fn get(SessionPath(session): SessionPath) -> Answer {
    Ok(Json(convert::session_view(&session.view().await?)))
}

pub(crate) async fn details(
    SessionPath(session): SessionPath,
) -> Result<Json<api::SessionDetails>, ApiError> {
    Ok(Json(convert::details(&session.details().await?)))
}

pub(crate) async fn detach(SessionPath(session): SessionPath) -> Answer {
    Ok(Json(convert::session(&session.detach().await?)))
}

pub(crate) async fn suspend(SessionPath(session): SessionPath) -> Answer {
    Ok(Json(convert::session_view(&session.suspend().await?)))
}

pub(crate) async fn resume(SessionPath(session): SessionPath) -> Answer {
    Ok(Json(convert::session_view(&session.resume().await?)))
}

pub(crate) async fn release(
    SessionPath(session): SessionPath,
    Json(body): Json<api::ReleaseSession>,
) -> Answer {
    let release = if body.keep_alive { Release::KeepAlive } else { Release::Destroy };
    Ok(Json(convert::session(&session.release(release).await?)))
}

pub(crate) async fn terminate(SessionPath(session): SessionPath) -> Answer {
    Ok(Json(convert::session(&session.terminate().await?)))
}

pub(crate) async fn expire(SessionPath(session): SessionPath) -> Answer {
    Ok(Json(convert::session(&session.expire().await?)))
}

pub(crate) async fn thinking(SessionPath(session): SessionPath, Json(body): Json<api::Thinking>) -> Answer {
    Ok(Json(convert::session(&session.think(body.seconds).await?)))
}

pub(crate) async fn ready(SessionPath(session): SessionPath, Json(body): Json<api::MarkReady>) -> Answer {
    let session = session.mark_ready(body.url, body.job_id).await?;
    Ok(Json(convert::session(&session)))
}

pub(crate) async fn failed(SessionPath(session): SessionPath, Json(body): Json<api::MarkFailed>) -> Answer {
    Ok(Json(convert::session(&session.mark_failed(body.reason).await?)))
}
