use axum::extract::State;
use warren_face::error::ApiError;
use warren_wire::api;

use crate::convert;
use crate::extract::Json;
use crate::state::AppState;

pub(crate) async fn accept_losses(State(state): State<AppState>) -> Result<Json<api::Health>, ApiError> {
    state.engine.accept_losses().await?;
    let no_network = state.networks.unavailable();
    Ok(Json(convert::health(state.engine.health().await, no_network, false)))
}
