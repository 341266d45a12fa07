//! The table of the control plane.

use std::sync::LazyLock;

use axum::routing::MethodRouter;
use warren_face::route;

use crate::control::{create, fork, health, lifecycle, list, snapshots};
use crate::state::E2b;
use crate::{logs, metrics, network, templates};

/// A row with its handler.
pub(crate) type Route = route::Route<MethodRouter<E2b>>;

static TABLE: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let parts = [making(), living(), observing(), templates::rows(), server()];
    // Clients of this protocol may say more than is understood.
    parts.into_iter().flatten().map(Route::any_query).collect()
});

/// Every route of the control plane, without the place where it is mounted.
pub(crate) fn control() -> &'static [Route] {
    &TABLE
}

fn making() -> Vec<Route> {
    vec![
        Route::post("/v2/sandboxes", "e2b_create_sandbox", create::create).does("Make a sandbox"),
        Route::post("/sandboxes", "e2b_create_sandbox_v1", create::first_generation)
            .does("Make a sandbox, for early clients"),
        Route::get("/v2/sandboxes", "e2b_list_sandboxes", list::list).does("List sandboxes"),
        Route::get("/sandboxes", "e2b_list_running", list::running)
            .does("List the sandboxes that run, for early clients"),
        Route::post("/sandboxes/{id}/fork", "e2b_fork_sandbox", fork::fork)
            .does("Make sandboxes of another one's state"),
        Route::post("/sandboxes/{id}/snapshots", "e2b_take_snapshot", snapshots::take)
            .does("Keep a sandbox's files as a template"),
        Route::get("/snapshots", "e2b_list_snapshots", snapshots::list).does("List what was kept so"),
    ]
}

fn living() -> Vec<Route> {
    vec![
        Route::get("/sandboxes/{id}", "e2b_get_sandbox", lifecycle::get).does("Tell of a sandbox"),
        Route::delete("/sandboxes/{id}", "e2b_kill_sandbox", lifecycle::kill).does("End a sandbox for good"),
        Route::post("/v2/sandboxes/{id}/connect", "e2b_connect", lifecycle::connect)
            .does("Find a sandbox, and have it go on if it is paused"),
        Route::post("/sandboxes/{id}/connect", "e2b_connect_v1", lifecycle::connect_first_generation)
            .does("The same, for early clients"),
        Route::post("/sandboxes/{id}/resume", "e2b_resume", lifecycle::resume)
            .does("Have a paused sandbox go on"),
        Route::post("/sandboxes/{id}/pause", "e2b_pause", lifecycle::pause).does("Pause a sandbox"),
        Route::post("/sandboxes/{id}/timeout", "e2b_set_timeout", lifecycle::set_timeout)
            .does("Say how long a sandbox has from now on"),
        Route::post("/sandboxes/{id}/refreshes", "e2b_refresh", lifecycle::refresh)
            .does("See that a sandbox has at least so long"),
        Route::put("/sandboxes/{id}/network", "e2b_set_network", network::set)
            .does("Say where a sandbox may go"),
    ]
}

fn observing() -> Vec<Route> {
    vec![
        Route::get("/sandboxes/{id}/metrics", "e2b_get_metrics", metrics::of_one)
            .does("Tell what a sandbox used lately"),
        Route::get("/sandboxes/metrics", "e2b_list_metrics", metrics::of_several)
            .does("Tell what several sandboxes use"),
        Route::get("/v2/sandboxes/{id}/logs", "e2b_get_logs", logs::entries)
            .does("Tell what happened to a sandbox"),
        Route::get("/sandboxes/{id}/logs", "e2b_get_log_lines", logs::lines)
            .does("The same as lines, for early clients"),
        Route::get("/teams", "e2b_list_teams", logs::teams).does("Tell who asks"),
    ]
}

fn server() -> Vec<Route> {
    vec![
        Route::get("/health", "e2b_health", health)
            .does("See whether the service takes new work")
            .open()
            .of_server(),
    ]
}
