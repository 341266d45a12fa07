use http::StatusCode;
use warren_face::error::ApiError;
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, SessionPath};

pub(crate) async fn can_run(SessionPath(session): SessionPath) -> Result<Json<api::CanRun>, ApiError> {
    Ok(Json(convert::can_run(&session.can_run().await?)))
}

pub(crate) async fn list(SessionPath(session): SessionPath) -> Result<Json<api::RunList>, ApiError> {
    let runs = session.runs().await?;
    Ok(Json(api::RunList { items: runs.iter().map(convert::run).collect() }))
}

pub(crate) async fn record(
    SessionPath(session): SessionPath,
    Json(body): Json<api::NewRun>,
) -> Result<(StatusCode, Json<api::Run>), ApiError> {
    let run = session.record_run(convert::new_run(body)?).await?;
    Ok((StatusCode::CREATED, Json(convert::run(&run))))
}
