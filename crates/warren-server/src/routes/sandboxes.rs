use warren_face::route::Parameter;
use warren_face::route::schema::{flag, matching, number};
use warren_wire::api::{
    CreateSandbox, Death, MoveSandbox, MovedSandbox, PatchSandbox, PauseSandbox, Sandbox, SetDefaultSandbox,
    Usage,
};

use super::Route;
use crate::handlers::{backends, default_sandbox, sandboxes};

const NAME: &str = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$";

pub(super) fn rows() -> Vec<Route> {
    [collection(), single(), default()].into_iter().flatten().collect()
}

fn collection() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes", "create_sandbox", sandboxes::create)
            .does("Make a sandbox")
            .takes::<CreateSandbox>()
            .idempotent()
            .long()
            .answers::<Sandbox>(201, "It is ready.")
            .answers::<Sandbox>(200, "An earlier request with the same idempotency key made it.")
            .with_header("Idempotent-Replayed", "Always `true`.")
            .fails(404)
            .conflicts(),
        Route::get("/v1/sandboxes", "list_sandboxes", sandboxes::list)
            .does("List sandboxes, the newest first")
            .parameter(Parameter::query(
                "status",
                "Only those in one of these states, with commas between them.",
                matching(
                    "^(creating|syncing|ready|paused|stopping|stopped|failed)(,(creating|syncing|ready|paused|stopping|stopped|failed))*$",
                ),
            ))
            .parameter(Parameter::query("name", "Only the one of this name.", matching(NAME)))
            .parameter(Parameter::repeated("label", "Only those with this label: `KEY=VALUE`.", matching("^[^=]+=")))
            .parameter(Parameter::repeated(
                "metadata",
                "Only those with this entry of their metadata: `KEY=VALUE`.",
                matching("^[^=]+="),
            ))
            .parameter(Parameter::query("ended", "Also those that ended for good.", flag()))
            .paged()
            .answers_page::<Sandbox>("A page of them."),
    ]
}

fn single() -> Vec<Route> {
    vec![
        Route::get("/v1/sandboxes/{sandbox_id}", "get_sandbox", sandboxes::get)
            .does("Look at a sandbox, or wait for it to change")
            .parameter(Parameter::query(
                "wait_generation",
                "Wait until the sandbox's generation is greater than this.",
                number(0, 9_007_199_254_740_991),
            ))
            .parameter(Parameter::query(
                "timeout_s",
                "How long to wait before it is answered as it is. Left out: 30.",
                number(0, 300),
            ))
            .long()
            .answers::<Sandbox>(200, "The sandbox."),
        Route::patch("/v1/sandboxes/{sandbox_id}", "update_sandbox", sandboxes::update)
            .does("Change name, labels, metadata or time to live")
            .takes::<PatchSandbox>()
            .answers::<Sandbox>(200, "As it is now.")
            .conflicts(),
        Route::delete("/v1/sandboxes/{sandbox_id}", "delete_sandbox", sandboxes::delete)
            .does("End a sandbox and delete its files")
            .answers::<Sandbox>(200, "As it ended. The same again for one that had ended before.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/pause", "pause_sandbox", sandboxes::pause)
            .does("Freeze every process of a sandbox, once commands that somebody waits for have ended")
            .may_take::<PauseSandbox>()
            .long()
            .answers::<Sandbox>(200, "It is paused.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/resume", "resume_sandbox", sandboxes::resume)
            .does("Let a paused sandbox go on, or start again a stopped one whose files were kept")
            .long()
            .answers::<Sandbox>(200, "It is ready.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/stop", "stop_sandbox", sandboxes::stop)
            .does("End every process of a sandbox and keep its files")
            .answers::<Sandbox>(200, "It is stopped, and can be resumed.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/move", "move_sandbox", backends::move_sandbox)
            .does("Give a sandbox another wall: it is started with the same files by another backend")
            .takes::<MoveSandbox>()
            .long()
            .answers::<MovedSandbox>(200, "It is there. One that was stopped stays so.")
            .conflicts(),
        Route::get("/v1/sandboxes/{sandbox_id}/death", "get_sandbox_death", sandboxes::death)
            .does("See how a sandbox ended")
            .answers::<Death>(200, "Its death certificate. While it lives: 404 with the code `not_dead`."),
        Route::get("/v1/sandboxes/{sandbox_id}/usage", "get_sandbox_usage", sandboxes::usage)
            .does("See what a sandbox uses")
            .answers::<Usage>(200, "At this moment.")
            .conflicts(),
    ]
}

fn default() -> Vec<Route> {
    vec![
        Route::get("/v1/default-sandbox", "get_default_sandbox", default_sandbox::get)
            .does("Look at the owner's default sandbox")
            .answers::<Sandbox>(200, "The sandbox.")
            .fails(404),
        Route::put("/v1/default-sandbox", "set_default_sandbox", default_sandbox::set)
            .does("Choose the owner's default sandbox")
            .takes::<SetDefaultSandbox>()
            .answers::<Sandbox>(200, "The sandbox.")
            .fails(404)
            .fails(409),
        Route::delete("/v1/default-sandbox", "unset_default_sandbox", default_sandbox::unset)
            .does("Have no default sandbox")
            .answers_nothing(204, "There is none now."),
    ]
}
