use axum::extract::State;
use http::StatusCode;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, sandbox_in};
use crate::state::AppState;

type Answer = Result<Json<api::Sandbox>, ApiError>;

pub(crate) async fn get(State(state): State<AppState>, caller: Caller) -> Answer {
    Ok(Json(convert::sandbox(&state.engine.as_(&caller).sandboxes().default().await?)))
}

pub(crate) async fn set(
    State(state): State<AppState>,
    caller: Caller,
    Json(body): Json<api::SetDefaultSandbox>,
) -> Answer {
    let id = sandbox_in("sandbox_id", &body.sandbox_id, &state, &caller).await?;
    state.engine.as_(&caller).sandboxes().set_default(Some(&id)).await?;
    get(State(state), caller).await
}

pub(crate) async fn unset(State(state): State<AppState>, caller: Caller) -> Result<StatusCode, ApiError> {
    state.engine.as_(&caller).sandboxes().set_default(None).await?;
    Ok(StatusCode::NO_CONTENT)
}
