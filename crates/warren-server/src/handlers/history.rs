//! Turns, and going back and forth between states.

use axum::extract::State;
use warren_engine::RolledBack;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, JsonOrNothing, SandboxPath, SessionPath};
use crate::state::AppState;

type Answer = Result<Json<api::RolledBack>, ApiError>;

pub(crate) async fn turn(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::CompleteTurn>,
) -> Result<Json<api::Turn>, ApiError> {
    let session = body.session_id.as_deref().map(convert::session_id).transpose()?;
    let name = body.name.map(|name| convert::snapshot_name("name", name)).transpose()?;
    let done = state.engine.as_(&caller).sandbox(&id).history().complete_turn(session, name).await?;
    state.counters.took(&done.taken);
    Ok(Json(convert::turn(&done)))
}

pub(crate) async fn session_turn(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(id): SessionPath,
    JsonOrNothing(body): JsonOrNothing<api::CompleteTurn>,
) -> Result<Json<api::Turn>, ApiError> {
    if body.session_id.as_ref().is_some_and(|given| given != id.as_str()) {
        return Err(ApiError::invalid("session_id", "the path names another session: leave this out"));
    }
    let name = body.name.map(|name| convert::snapshot_name("name", name)).transpose()?;
    let sandbox = state.engine.as_(&caller).session(&id).view().await?.session.sandbox;
    let done = state.engine.as_(&caller).sandbox(&sandbox).history().complete_turn(Some(id), name).await?;
    state.counters.took(&done.taken);
    Ok(Json(convert::turn(&done)))
}

pub(crate) async fn end_session(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(id): SessionPath,
) -> Result<Json<api::EndedSession>, ApiError> {
    let ended = state.engine.as_(&caller).session(&id).end().await?;
    state.counters.took(&ended.taken);
    Ok(Json(convert::ended_session(&ended)))
}

pub(crate) async fn rollback(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    Json(body): Json<api::Rollback>,
) -> Answer {
    let to = convert::snapshot_id(&body.snapshot_id, "snapshot_id")?;
    let done = state.engine.as_(&caller).sandbox(&id).history().rollback(&to, body.force).await?;
    Ok(went(&state, &done))
}

pub(crate) async fn undo(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::Steps>,
) -> Answer {
    let steps = convert::steps(&body)?;
    let done = state.engine.as_(&caller).sandbox(&id).history().undo(steps, body.force).await?;
    Ok(went(&state, &done))
}

pub(crate) async fn redo(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::Steps>,
) -> Answer {
    let steps = convert::steps(&body)?;
    let done = state.engine.as_(&caller).sandbox(&id).history().redo(steps, body.force).await?;
    Ok(went(&state, &done))
}

fn went(state: &AppState, done: &RolledBack) -> Json<api::RolledBack> {
    state.metrics.travel.rolled_back(done.took);
    Json(convert::rolled_back(done))
}

pub(crate) async fn promote(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(id): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::Promote>,
) -> Result<Json<api::Promoted>, ApiError> {
    let order = convert::promote_order(&body)?;
    let done = state.engine.as_(&caller).sandbox(&id).history().promote(order).await?;
    convert::promoted(&done, body.apply).map(Json)
}
