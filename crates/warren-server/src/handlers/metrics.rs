use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

use crate::state::AppState;

pub(crate) async fn get(State(state): State<AppState>) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], state.metrics.shown(&state.desk).await)
}
