use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;

use crate::openapi;

pub(crate) async fn get() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], openapi::text())
}
