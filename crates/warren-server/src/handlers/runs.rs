use axum::extract::State;
use http::StatusCode;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, SessionPath};
use crate::state::AppState;

pub(crate) async fn can_run(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(id): SessionPath,
) -> Result<Json<api::CanRun>, ApiError> {
    Ok(Json(convert::can_run(&state.engine.as_(&caller).session(&id).can_run().await?)))
}

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(id): SessionPath,
) -> Result<Json<api::RunList>, ApiError> {
    let runs = state.engine.as_(&caller).session(&id).runs().await?;
    Ok(Json(api::RunList { items: runs.iter().map(convert::run).collect() }))
}

pub(crate) async fn record(
    State(state): State<AppState>,
    caller: Caller,
    SessionPath(id): SessionPath,
    Json(body): Json<api::NewRun>,
) -> Result<(StatusCode, Json<api::Run>), ApiError> {
    let run = state.engine.as_(&caller).session(&id).record_run(convert::new_run(body)?).await?;
    Ok((StatusCode::CREATED, Json(convert::run(&run))))
}
