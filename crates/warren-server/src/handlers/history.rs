//! Turns, and going back and forth between states.

use axum::extract::State;
use warren_engine::RolledBack;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, parsed};
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, JsonOrNothing, SandboxPath, SessionPath, sandbox_in};
use crate::state::AppState;

type Answer = Result<Json<api::RolledBack>, ApiError>;

pub(crate) async fn turn(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::CompleteTurn>,
) -> Result<Json<api::Turn>, ApiError> {
    let session = body.session_id.as_deref().map(|text| parsed("session_id", text)).transpose()?;
    let name = body.name.map(|name| convert::snapshot_name("name", name)).transpose()?;
    let done = sandbox.history().complete_turn(session, name).await?;
    state.counters.took(&done.taken);
    Ok(Json(convert::turn(&done)))
}

pub(crate) async fn session_turn(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(session): SessionPath,
    JsonOrNothing(body): JsonOrNothing<api::CompleteTurn>,
) -> Result<Json<api::Turn>, ApiError> {
    if body.session_id.as_ref().is_some_and(|given| given != session.id().as_str()) {
        return Err(ApiError::invalid("session_id", "the path names another session: leave this out"));
    }
    let name = body.name.map(|name| convert::snapshot_name("name", name)).transpose()?;
    let sandbox = state.engine.as_(&caller).sandbox(&session.view().await?.session.sandbox);
    let done = sandbox.history().complete_turn(Some(session.id().clone()), name).await?;
    state.counters.took(&done.taken);
    Ok(Json(convert::turn(&done)))
}

pub(crate) async fn end_session(
    State(state): State<AppState>,
    SessionPath(session): SessionPath,
) -> Result<Json<api::EndedSession>, ApiError> {
    let ended = session.end().await?;
    state.counters.took(&ended.taken);
    Ok(Json(convert::ended_session(&ended)))
}

pub(crate) async fn rollback(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::Rollback>,
) -> Answer {
    let to = parsed("snapshot_id", &body.snapshot_id)?;
    let done = sandbox.history().rollback(&to, body.force).await?;
    Ok(went(&state, &done))
}

pub(crate) async fn undo(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::Steps>,
) -> Answer {
    let steps = convert::steps(&body)?;
    let done = sandbox.history().undo(steps, body.force).await?;
    Ok(went(&state, &done))
}

pub(crate) async fn redo(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::Steps>,
) -> Answer {
    let steps = convert::steps(&body)?;
    let done = sandbox.history().redo(steps, body.force).await?;
    Ok(went(&state, &done))
}

fn went(state: &AppState, done: &RolledBack) -> Json<api::RolledBack> {
    state.metrics.travel.rolled_back(done.took);
    Json(convert::rolled_back(done))
}

pub(crate) async fn promote(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::Promote>,
) -> Result<Json<api::Promoted>, ApiError> {
    let into = match &body.into {
        Some(word) => Some(sandbox_in("into", word, &state, sandbox.caller()).await?),
        None => None,
    };
    let done = sandbox.history().promote(convert::promote_order(&body, into)?).await?;
    convert::promoted(&done, body.apply).map(Json)
}
