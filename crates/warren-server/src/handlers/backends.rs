use axum::extract::State;
use warren_face::error::ApiError;
use warren_wire::api;

use crate::backends::BACKENDS;
use crate::convert;
use crate::extract::{Json, SandboxPath};
use crate::state::AppState;

pub(crate) async fn list(State(state): State<AppState>) -> Json<api::BackendList> {
    let known = BACKENDS.iter().map(|backend| backend.name);
    Json(convert::backends(state.engine.backends().await, known))
}

pub(crate) async fn move_sandbox(
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::MoveSandbox>,
) -> Result<Json<api::MovedSandbox>, ApiError> {
    let choice = convert::move_choice(&body)?;
    let moved = sandbox.move_to(choice, body.force).await?;
    Ok(Json(convert::moved(&moved)))
}
