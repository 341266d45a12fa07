//! The tables of routes of all faces, for documents and tests.

use warren_face::route::Route;

use crate::{chat, routes};

/// One protocol that the server speaks.
#[derive(Debug)]
pub struct Face {
    pub name: &'static str,
    /// The paths of its table begin below this.
    pub place: &'static str,
    pub routes: Vec<Route>,
}

/// Every face. What is in no table of theirs is answered by no face.
pub fn faces() -> Vec<Face> {
    let face = |name, place, routes| Face { name, place, routes };
    vec![
        face("v1", "", routes::table().iter().map(Route::bare).collect()),
        face("chat", "", chat::table().iter().map(Route::bare).collect()),
        face("mcp", "", warren_mcp::routes()),
        face("e2b", "/e2b", warren_e2b::control_routes()),
        face("envd", "", warren_e2b::envd_routes()),
    ]
}
