use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use warren_core::catalog::SessionFilter;
use warren_core::{Field, SessionRecord};
use warren_engine::{Acquired, EngineError, Release};
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_wire::api;

use super::browser::{Equipment, with_mcp_url};
use super::sandboxes::made;
use super::snapshots::settle_template;
use crate::convert;
use crate::extract::{IdempotencyKey, Json, Params, SessionPath, sandbox_param};
use crate::state::AppState;

type Answer = Result<Json<api::Session>, ApiError>;

pub(crate) async fn acquire(
    State(state): State<AppState>,
    caller: Caller,
    key: IdempotencyKey,
    address: Address,
    Json(mut body): Json<api::AcquireSession>,
) -> Result<Response, ApiError> {
    let idempotency = key.expected(&body)?;
    settle_template(&state, &caller, &mut body.sandbox, "sandbox.").await?;
    // A backend may be named beside `sandbox`, too.
    let (outer, background) = (body.backend.is_some(), body.background);
    let request = convert::acquire(body, idempotency, &state.settings)?;
    let acquired = state.engine.as_(&caller).sessions().acquire(request).await;
    let mut acquired = acquired.map_err(|error| match error {
        EngineError::NothingFits { asked: Some(Field::Backend), .. } if outer => error.into(),
        error => convert::nested(error, "sandbox."),
    })?;
    let equipment = Equipment::of(&state, &caller, &address, (&acquired.sandbox, &acquired.session));
    if background {
        equipment.provide_later();
    } else {
        acquired.session = equipment.provide().await;
    }
    let answer = with_capabilities(&state, &caller, &acquired, &address).await;
    Ok(made(acquired.repeated, StatusCode::CREATED, Json(answer).into_response()))
}

pub(crate) async fn attach(
    State(state): State<AppState>,
    caller: Caller,
    address: Address,
    Json(mut body): Json<api::AttachSession>,
) -> Result<Response, ApiError> {
    if let Some(create) = &mut body.create {
        settle_template(&state, &caller, create, "create.").await?;
    }
    let request = convert::attach(body, &state.settings)?;
    let acquired = state.engine.as_(&caller).sessions().attach(request).await;
    let mut acquired = acquired.map_err(|error| convert::nested(error, "create."))?;
    let equipment = Equipment::of(&state, &caller, &address, (&acquired.sandbox, &acquired.session));
    acquired.session = equipment.provide().await;
    let status = if acquired.fresh { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(with_capabilities(&state, &caller, &acquired, &address).await)).into_response())
}

/// The session is there, also where nobody can say what its sandbox is made of.
async fn with_capabilities(
    state: &AppState,
    caller: &Caller,
    acquired: &Acquired,
    address: &Address,
) -> api::Session {
    let sandbox = &acquired.sandbox;
    let abilities = state.engine.as_(caller).sessions().abilities(sandbox).await.ok();
    let now_unix_ms = state.clock.unix_ms();
    let able = abilities.map(|abilities| convert::capabilities(sandbox, &abilities, now_unix_ms));
    let told = convert::acquired(acquired);
    let shown = told.sandbox.map(|told| with_mcp_url(told, sandbox, address));
    api::Session { capabilities: able, sandbox: shown, ..told }
}

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Json<api::Page<api::Session>>, ApiError> {
    let filter = SessionFilter {
        sandbox: sandbox_param(params.given("sandbox_id", "sandbox"), &params, &state, &caller).await?,
        client: params.text("client").map(ToOwned::to_owned),
        ended: params.flag("ended")?,
    };
    let sessions = state.engine.as_(&caller).sessions();
    let page = sessions.list(&filter, &params.page()?).await?;
    let held = page.items.iter().map(|session| session.sandbox.clone()).collect();
    let counts = sessions.count_snapshots(held).await?;
    let count = |session: &SessionRecord| Some(counts.get(&session.sandbox).copied().unwrap_or(0));
    let shown = |session: &SessionRecord| api::Session {
        snapshot_count: count(session),
        ..convert::session(session)
    };
    Ok(Json(convert::page(&page, shown)))
}

pub(crate) async fn get(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(session): SessionPath,
    address: Address,
) -> Answer {
    let view = session.view().await?;
    if let Some(sandbox) = view.sandbox.as_ref().filter(|sandbox| sandbox.is_live()) {
        let equipment = Equipment::of(&state, &caller, &address, (sandbox, &view.session));
        // The server that was to see to it may have ended.
        if equipment.waits() {
            equipment.provide_later();
        }
    }
    let snapshot_count = count(&state, &caller, &view.session).await?;
    Ok(Json(api::Session { snapshot_count, ..convert::session_view(&view) }))
}

pub(crate) async fn details(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(session): SessionPath,
) -> Result<Json<api::SessionDetails>, ApiError> {
    let details = session.details().await?;
    let mut told = convert::details(&details);
    told.session.snapshot_count = count(&state, &caller, &details.view.session).await?;
    Ok(Json(told))
}

/// How many snapshots a session's sandbox has.
async fn count(state: &AppState, caller: &Caller, session: &SessionRecord) -> Result<Option<u64>, ApiError> {
    let sessions = state.engine.as_(caller).sessions();
    let counts = sessions.count_snapshots(vec![session.sandbox.clone()]).await?;
    Ok(Some(counts.get(&session.sandbox).copied().unwrap_or(0)))
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
