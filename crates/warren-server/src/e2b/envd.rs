//! What a client says to one sandbox.

mod path;
mod refusal;
mod visitor;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use crate::proxy::Target;
use crate::state::AppState;

pub(crate) use visitor::Visitor;

/// Answers a request that is for the in-sandbox protocol of the target's sandbox.
pub(crate) async fn answer(_state: &AppState, _target: &Target, _request: Request) -> Response {
    StatusCode::NOT_IMPLEMENTED.into_response()
}
