use axum::extract::State;
use warren_engine::Point;
use warren_wire::api;

use crate::auth::Caller;
use crate::convert;
use crate::error::ApiError;
use crate::extract::{Json, Params};
use crate::state::AppState;

pub(crate) async fn get(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Json<api::Diff>, ApiError> {
    let (from, to) = (point(&params, "from")?, point(&params, "to")?);
    let options = convert::diff_options(&params)?;
    let diff = state.engine_of(&caller).diff(&caller.owner, &from, &to, options).await?;
    Ok(Json(convert::diff(&diff)))
}

fn point(params: &Params, field: &'static str) -> Result<Point, ApiError> {
    let text = params.text(field).ok_or_else(|| ApiError::invalid(field, format!("`{field}` is missing")))?;
    convert::point(field, text)
}
