//! The control plane: makes, finds, changes and ends sandboxes.

use axum::Router;
use axum::extract::Request;

use crate::state::AppState;

/// Whether a request is for the control plane.
pub(crate) fn is_for(request: &Request) -> bool {
    request.uri().path().starts_with("/e2b/")
}

/// Every route, behind the layers that all of them share.
pub(crate) fn router(_state: &AppState) -> Router {
    Router::new()
}
