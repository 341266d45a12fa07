//! The tables of both halves without their handlers, for documents and tests.

use warren_face::route::Route;

use crate::{envd, routes};

/// The control plane, without the place where it is mounted.
pub fn control_routes() -> Vec<Route> {
    routes::control().iter().map(Route::bare).collect()
}

/// The routes of one sandbox, at its port [`crate::ENVD_PORT`].
pub fn envd_routes() -> Vec<Route> {
    envd::table().iter().map(Route::bare).collect()
}
