use axum::Router;
use axum::routing::{get, patch, post, put};

use super::{handlers, upload};
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
        .route("/templates/tags", post(handlers::assign_tags).delete(handlers::delete_tags))
        .route("/templates/{template}/tags", get(handlers::tags))
        .route("/templates/{template}/tags/count", get(handlers::count_tags))
        .route("/templates/{template}/tags/exists", get(handlers::tag_exists))
        .route("/templates/{template}/tags/groups", get(handlers::tag_groups))
        .route("/templates/{template}/tags/{tag}/assignments", get(handlers::tag_assignments))
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
