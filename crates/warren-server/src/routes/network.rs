use warren_face::route::schema::number;
use warren_face::route::{Events, Parameter};
use warren_wire::api::{
    AnswerNetworkAsk, ChangeNetworkRules, NetworkAskList, NetworkLog, NetworkLogEntry, NetworkRequest,
    NetworkStatus,
};

use super::Route;
use crate::handlers::network;

/// Whole numbers up to here are exact in every JSON reader.
const MOST_NUMBER: u64 = 9_007_199_254_740_991;

pub(super) fn rows() -> Vec<Route> {
    [policy(), watching(), asking()].into_iter().flatten().collect()
}

fn policy() -> Vec<Route> {
    vec![
        Route::get("/v1/sandboxes/{sandbox_id}/network", "get_network", network::get)
            .does("See where a sandbox's packets may go, and how many went")
            .answers::<NetworkStatus>(200, "Its network."),
        Route::put("/v1/sandboxes/{sandbox_id}/network", "set_network", network::set)
            .does("Replace a sandbox's policy. What stays allowed goes on, the rest is cut")
            .takes::<NetworkRequest>()
            .answers::<NetworkStatus>(200, "It holds now.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/network/allow", "allow_network", network::allow)
            .does("Open something to a sandbox, for good or for a while")
            .takes::<ChangeNetworkRules>()
            .answers::<NetworkStatus>(200, "It is open now.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/network/deny", "deny_network", network::deny)
            .does("Close something to a sandbox, whatever opens it, for good or for a while")
            .takes::<ChangeNetworkRules>()
            .answers::<NetworkStatus>(200, "It is closed now, and what was open to it is cut.")
            .conflicts(),
    ]
}

fn watching() -> Vec<Route> {
    vec![
        Route::get("/v1/sandboxes/{sandbox_id}/network/log", "get_network_log", network::log)
            .does("See what a sandbox reached and what was refused, or follow it (with `Accept: text/event-stream`)")
            .parameter(Parameter::query("after", "Only entries with a greater number.", number(0, MOST_NUMBER)))
            .parameter(Parameter::query("limit", "At most so many. Left out: 100.", number(1, 1000)))
            .parameter(Parameter::header(
                "Last-Event-ID",
                "For a reader that comes back: the number of the last entry it saw. It goes before `after`.",
                number(0, MOST_NUMBER),
            ))
            .long()
            .answers::<NetworkLog>(200, "Entries, the oldest first. In a stream each is an event `entry`.")
            .or_events(
                Events::named("NetworkLogEvent", "The log as it grows.")
                    .numbered()
                    .event::<NetworkLogEntry>("entry"),
            ),
        Route::get("/v1/sandboxes/{sandbox_id}/network/learned", "get_learned_network", network::learned)
            .does("The smallest policy for what a sandbox has reached")
            .answers::<NetworkRequest>(200, "A policy as `set_network` and `create_sandbox` take it."),
    ]
}

fn asking() -> Vec<Route> {
    vec![
        Route::get("/v1/sandboxes/{sandbox_id}/network/requests", "list_network_requests", network::requests)
            .does("List what a sandbox in mode `ask` waits for, the oldest first")
            .answers::<NetworkAskList>(200, "All of it."),
        Route::post(
            "/v1/sandboxes/{sandbox_id}/network/requests/{number}",
            "answer_network_request",
            network::answer,
        )
        .does("Let something that a sandbox waits for pass, or refuse it")
        .takes::<AnswerNetworkAsk>()
        .answers::<NetworkStatus>(200, "It holds from now on.")
        .conflicts(),
    ]
}
