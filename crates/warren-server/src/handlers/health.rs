use axum::extract::State;
use warren_face::auth::Caller;
use warren_wire::api;

use crate::convert;
use crate::extract::Json;
use crate::state::AppState;

pub(crate) async fn get(State(state): State<AppState>, caller: Option<Caller>) -> Json<api::Health> {
    let no_network = state.networks.unavailable();
    Json(convert::health(state.engine.health().await, no_network, caller.is_none()))
}
