//! The table of the face.

use std::sync::LazyLock;

use axum::routing::MethodRouter;
use warren_face::route::{self, Parameter, schema};

use crate::state::Mcp;
use crate::{browser, face};

/// A row with its handler.
type Route = route::Route<MethodRouter<Mcp>>;

static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let tools = || Parameter::query("tools", "The tools to offer.", schema::text());
    vec![
        Route::post("/mcp", "mcp", face::post)
            .does("Speak the Model Context Protocol about all sandboxes")
            .parameter(tools())
            .long(),
        Route::post("/mcp/{sandbox_id}", "mcp_of_sandbox", face::post)
            .does("Speak the Model Context Protocol about one sandbox")
            .parameter(tools())
            .long(),
        Route::post("/mcp/{sandbox_id}/browser", "mcp_of_browser", browser::post)
            .does("Speak the Model Context Protocol about a sandbox's browser")
            .parameter(tools())
            .long(),
    ]
});

pub(crate) fn table() -> &'static [Route] {
    &TABLE
}

/// The table without its handlers, for documents and tests.
pub fn routes() -> Vec<route::Route> {
    table().iter().map(Route::bare).collect()
}
