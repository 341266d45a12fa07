use warren_face::route::schema::{SANDBOX_WORD, matching, number};
use warren_face::route::{Events, Parameter};
use warren_wire::api::{
    BackendList, CreateKey, Event, EventPage, Health, Key, KeyList, PullProgress, PullTemplate, Stats,
    Template, TemplateList,
};

use super::Route;
use crate::handlers::{backends, events, health, keys, metrics, openapi, pulls, recovery, stats, templates};

/// Whole numbers up to here are exact in every JSON reader.
const MOST_NUMBER: u64 = 9_007_199_254_740_991;

pub(super) fn rows() -> Vec<Route> {
    [watching(), api_keys(), stored_templates(), machinery()].into_iter().flatten().collect()
}

fn watching() -> Vec<Route> {
    vec![
        Route::get("/v1/events", "list_events", events::list)
            .does("See what happened, or follow it as it happens (with `Accept: text/event-stream`)")
            .parameter(Parameter::query("after", "Only those with a greater number.", number(0, MOST_NUMBER)))
            .parameter(Parameter::query("limit", "At most so many. Left out: 100.", number(1, 1000)))
            .parameter(
                Parameter::query("sandbox_id", "Only those of this sandbox.", matching(SANDBOX_WORD))
                    .formerly("sandbox"),
            )
            .parameter(
                Parameter::query(
                    "session_id",
                    "Only those of this session.",
                    matching("^sess-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"),
                )
                .formerly("session"),
            )
            .parameter(Parameter::header(
                "Last-Event-ID",
                "For a reader that comes back: the number of the last event it saw. It goes before `after`.",
                number(0, MOST_NUMBER),
            ))
            .long()
            .answers::<EventPage>(200, "Events, the oldest first.")
            .or_events(
                Events::named("EventMessage", "An event as a stream tells it, under its own name.")
                    .numbered()
                    .any_event::<Event>("^[a-z_]+$"),
            )
            .fails(404)
            .conflicts(),
        Route::get("/v1/stats", "get_stats", stats::get)
            .does("Figures since the server started, and of this moment")
            .of_server()
            .answers::<Stats>(200, "The figures."),
        Route::get("/v1/backends", "list_backends", backends::list)
            .does("List what isolates sandboxes: tiers, abilities, and what is wrong with each")
            .of_server()
            .answers::<BackendList>(200, "All of them, those that are on first."),
        Route::get("/v1/health", "get_health", health::get)
            .does("See whether the server can work. Without a key only the status is told")
            .of_server()
            .public()
            .answers::<Health>(200, "Whether it can, and what is wrong."),
    ]
}

fn api_keys() -> Vec<Route> {
    vec![
        Route::post("/v1/keys", "create_key", keys::create)
            .does("Make a key. It is shown in this answer and never again")
            .of_server()
            .admin()
            .takes::<CreateKey>()
            .answers::<Key>(201, "The key.")
            .conflicts(),
        Route::get("/v1/keys", "list_keys", keys::list)
            .does("List keys, revoked ones too, the oldest first")
            .of_server()
            .admin()
            .answers::<KeyList>(200, "All of them."),
        Route::delete("/v1/keys/{key_id}", "revoke_key", keys::revoke)
            .does("Revoke a key. Whatever its callers have open ends")
            .of_server()
            .admin()
            .answers::<Key>(200, "It is worth nothing any more."),
    ]
}

fn stored_templates() -> Vec<Route> {
    vec![
        Route::get("/v1/templates", "list_templates", templates::list)
            .does("List what sandboxes can start from")
            .of_server()
            .answers::<TemplateList>(200, "All of them, by name."),
        Route::post("/v1/templates", "pull_template", pulls::pull)
            .does(
                "Make a template of an image of a registry. With `Accept: text/event-stream` it is told how far it is, as `progress`, and then the `template`",
            )
            .of_server()
            .admin()
            .takes::<PullTemplate>()
            .long()
            .answers::<Template>(201, "It can be used.")
            .or_events(
                Events::named("PullEvent", "A pull while it goes on. After `template` there is nothing more.")
                    .event::<PullProgress>("progress")
                    .event::<Template>("template"),
            )
            .fails(404)
            .conflicts(),
        Route::get("/v1/templates/{name}", "get_template", templates::get)
            .does("Look at a template")
            .of_server()
            .answers::<Template>(200, "The template."),
        Route::put("/v1/templates/{name}", "import_template", templates::import)
            .does("Make a template of a root filesystem archive or a container image")
            .of_server()
            .admin()
            .parameter(Parameter::query(
                "config",
                "Of a root filesystem: how its processes start, as JSON with `env`, `user`, `cwd` and `command`.",
                matching(r"^\{.*\}$"),
            ))
            .long()
            .takes_bytes()
            .answers::<Template>(200, "It can be used; an earlier one of the name was replaced.")
            .conflicts(),
        Route::delete("/v1/templates/{name}", "delete_template", templates::delete)
            .does("Delete a template that no sandbox uses")
            .of_server()
            .admin()
            .answers_nothing(204, "It is gone.")
            .conflicts(),
    ]
}

fn machinery() -> Vec<Route> {
    vec![
        Route::post("/v1/recovery/accept-losses", "accept_losses", recovery::accept_losses)
            .does("Accept that what looked lost at the server's start is lost, and work again")
            .of_server()
            .admin()
            .answers::<Health>(200, "The server's health now."),
        Route::get("/metrics", "get_metrics", metrics::get)
            .does("Figures in Prometheus' text format")
            .of_server()
            .admin()
            .answers_as(200, "The figures.", "text/plain"),
        Route::get("/v1/openapi.json", "get_openapi", openapi::get)
            .does("This document")
            .of_server()
            .public()
            .answers_as(200, "An OpenAPI 3.1 document.", "application/json"),
    ]
}
