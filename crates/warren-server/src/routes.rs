//! The table of routes under `/v1`.

mod browser;
mod code;
mod files;
mod history;
mod network;
mod ports;
mod processes;
mod sandboxes;
mod secrets;
mod server;
mod sessions;

use std::sync::LazyLock;

use axum::Router;
use axum::routing::MethodRouter;
use warren_face::{Desk, route};

use crate::state::AppState;

/// A row with its handler.
pub(crate) type Route = route::Route<MethodRouter<AppState>>;

static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let parts = [
        sandboxes::rows(),
        processes::rows(),
        browser::rows(),
        code::rows(),
        files::rows(),
        sessions::rows(),
        history::rows(),
        network::rows(),
        ports::rows(),
        secrets::rows(),
        server::rows(),
    ];
    parts.into_iter().flatten().collect()
});

/// Every route of the service under `/v1`, in the order of the documents.
pub(crate) fn table() -> &'static [Route] {
    &TABLE
}

pub(crate) fn router(desk: &Desk) -> Router<AppState> {
    route::router(table(), desk)
}

/// The rows without their handlers, for documents and tests.
pub fn route_table() -> &'static [route::Route] {
    static BARE: LazyLock<Vec<route::Route>> = LazyLock::new(|| table().iter().map(Route::bare).collect());
    &BARE
}
