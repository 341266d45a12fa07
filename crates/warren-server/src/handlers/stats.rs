use axum::extract::State;
use warren_wire::api;

use crate::convert;
use crate::extract::Json;
use crate::state::AppState;

pub(crate) async fn get(State(state): State<AppState>) -> Json<api::Stats> {
    Json(convert::stats(&state.engine.stats().await))
}
