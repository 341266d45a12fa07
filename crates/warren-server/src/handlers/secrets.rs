use axum::extract::State;
use http::StatusCode;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, SecretPath};
use crate::state::AppState;

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
) -> Result<Json<api::SecretList>, ApiError> {
    let records = state.engine.as_(&caller).secrets().list().await?;
    Ok(Json(api::SecretList { items: records.iter().map(convert::secret).collect() }))
}

pub(crate) async fn get(
    State(state): State<AppState>,
    caller: Caller,
    SecretPath(name): SecretPath,
) -> Result<Json<api::Secret>, ApiError> {
    let record = state.engine.as_(&caller).secrets().get(&name).await?;
    Ok(Json(convert::secret(&record)))
}

pub(crate) async fn put(
    State(state): State<AppState>,
    caller: Caller,
    SecretPath(name): SecretPath,
    Json(body): Json<api::PutSecret>,
) -> Result<Json<api::Secret>, ApiError> {
    let secret = convert::new_secret(name, body)?;
    let record = state.engine.as_(&caller).secrets().put(secret).await?;
    Ok(Json(convert::secret(&record)))
}

pub(crate) async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    SecretPath(name): SecretPath,
) -> Result<StatusCode, ApiError> {
    state.engine.as_(&caller).secrets().remove(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
