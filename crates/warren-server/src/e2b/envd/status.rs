use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::Visitor;
use crate::e2b::Traits;

/// Whoever gets here has found the sandbox running.
pub(super) fn health() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// The variables that every process of the sandbox has.
pub(super) fn envs(visitor: &Visitor) -> Response {
    Json(Traits::env(&visitor.record)).into_response()
}
