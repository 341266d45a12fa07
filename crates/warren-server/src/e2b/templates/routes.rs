use axum::Router;
use axum::routing::{get, patch, post, put};

use super::{handlers, tags, upload};
use crate::state::AppState;

/// What needs a key. A name in a path is one segment, however many signs of it are percent-encoded.
pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/v3/templates", post(handlers::request_build))
        .route("/v2/templates/{template}/builds/{build}", post(handlers::start_build))
        .route("/templates/{template}/builds/{build}/status", get(handlers::build_status))
        .route("/templates/{template}/builds/{build}/logs", get(handlers::build_logs))
        .route("/templates/{template}/files/{hash}", get(upload::ask))
        .route("/templates/aliases/{alias}", get(handlers::alias))
        .route("/templates/tags", post(tags::assign).delete(tags::delete))
        .route("/templates/{template}/tags", get(tags::list))
        .route("/templates/{template}/tags/count", get(tags::count))
        .route("/templates/{template}/tags/exists", get(tags::exists))
        .route("/templates/{template}/tags/groups", get(tags::groups))
        .route("/templates/{template}/tags/{tag}/assignments", get(tags::assignments))
        .route("/templates", get(handlers::list))
        .route("/v2/templates", get(handlers::list_pages))
        .route("/default-templates", get(handlers::defaults))
        .route("/templates/{template}", get(handlers::get).delete(handlers::delete).patch(handlers::update))
        .route("/v2/templates/{template}", patch(handlers::update))
}

/// What a signed address opens.
pub(crate) fn uploads() -> Router<AppState> {
    Router::new().route("/templates/{template}/files/{hash}", put(upload::receive))
}
