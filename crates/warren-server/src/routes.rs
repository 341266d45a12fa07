//! The one table of routes, grouped by who may ask.

use axum::Router;

use crate::state::AppState;

/// Routes that need a key.
pub(crate) fn keyed() -> Router<AppState> {
    Router::new()
}

/// Routes that anybody may ask. A key that is shown must still be right.
pub(crate) fn public() -> Router<AppState> {
    Router::new()
}
