use warren_face::route::Parameter;
use warren_face::route::schema::{SANDBOX_WORD, flag, matching, text_of};
use warren_wire::api::{
    AcquireSession, AttachSession, CanRun, MarkFailed, MarkReady, NewRun, ReleaseSession, Run, RunList,
    Session, SessionDetails, Thinking,
};

use super::Route;
use crate::handlers::{runs, sessions};

pub(super) fn rows() -> Vec<Route> {
    [collection(), single(), lifecycle(), recorded_runs()].into_iter().flatten().collect()
}

fn collection() -> Vec<Route> {
    vec![
        Route::post("/v1/sessions", "acquire_session", sessions::acquire)
            .does("Get a session with a sandbox: a preferred one, else a fresh one")
            .takes::<AcquireSession>()
            .idempotent()
            .long()
            .answers::<Session>(201, "A new session with its sandbox.")
            .answers::<Session>(200, "An earlier request with the same idempotency key made it.")
            .with_header("Idempotent-Replayed", "Always `true`.")
            .fails(404)
            .conflicts(),
        Route::post("/v1/sessions/attach", "attach_session", sessions::attach)
            .does("Get a session with a sandbox that exists")
            .takes::<AttachSession>()
            .long()
            .answers::<Session>(200, "A new session with that sandbox.")
            .answers::<Session>(201, "The sandbox was gone, and another was made.")
            .fails(404)
            .conflicts(),
        Route::get("/v1/sessions", "list_sessions", sessions::list)
            .does("List sessions, the newest first")
            .parameter(
                Parameter::query("sandbox_id", "Only those with this sandbox.", matching(SANDBOX_WORD))
                    .formerly("sandbox"),
            )
            .parameter(Parameter::query("client", "Only those of this client.", text_of(1, 255)))
            .parameter(Parameter::query("ended", "Also those that no longer hold their sandbox.", flag()))
            .paged()
            .answers_page::<Session>("A page of them.")
            .fails(404)
            .conflicts(),
    ]
}

fn single() -> Vec<Route> {
    vec![
        Route::get("/v1/sessions/{session_id}", "get_session", sessions::get)
            .does("Look at a session and its sandbox")
            .answers::<Session>(200, "The session."),
        Route::get("/v1/sessions/{session_id}/details", "get_session_details", sessions::details)
            .does("Look at a session with its runs")
            .answers::<SessionDetails>(200, "All there is to know of it."),
    ]
}

fn lifecycle() -> Vec<Route> {
    vec![
        Route::post("/v1/sessions/{session_id}/detach", "detach_session", sessions::detach)
            .does("Go away for a while; the sandbox works on")
            .answers::<Session>(200, "It is detached.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/suspend", "suspend_session", sessions::suspend)
            .does("Freeze the session's sandbox until the session is resumed")
            .answers::<Session>(200, "It is suspended.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/resume", "resume_session", sessions::resume)
            .does("Make a session active again, and its sandbox run")
            .long()
            .answers::<Session>(200, "It is active.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/release", "release_session", sessions::release)
            .does("Give a session back")
            .takes::<ReleaseSession>()
            .answers::<Session>(200, "It is released.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/terminate", "terminate_session", sessions::terminate)
            .does("End a session and its sandbox, and delete the sandbox's files")
            .answers::<Session>(200, "It is terminated.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/expire", "expire_session", sessions::expire)
            .does("End a session as if its time were over; its sandbox follows in the background")
            .answers::<Session>(200, "It is expired.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/thinking", "think_in_session", sessions::thinking)
            .does("Keep the sandbox from counting as idle while the client's model works")
            .takes::<Thinking>()
            .answers::<Session>(200, "The session.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/ready", "mark_session_ready", sessions::ready)
            .does("Say that what the session needs is there")
            .takes::<MarkReady>()
            .answers::<Session>(200, "The session.")
            .conflicts(),
        Route::post("/v1/sessions/{session_id}/failed", "mark_session_failed", sessions::failed)
            .does("Say that what the session needs could not be made")
            .takes::<MarkFailed>()
            .answers::<Session>(200, "The session.")
            .conflicts(),
    ]
}

fn recorded_runs() -> Vec<Route> {
    vec![
        Route::get("/v1/sessions/{session_id}/can-run", "can_session_run", runs::can_run)
            .does("See whether a session may have another run")
            .answers::<CanRun>(200, "Whether, and what is left."),
        Route::get("/v1/sessions/{session_id}/runs", "list_runs", runs::list)
            .does("List a session's runs, the first one first")
            .answers::<RunList>(200, "All of them."),
        Route::post("/v1/sessions/{session_id}/runs", "record_run", runs::record)
            .does("Record a run")
            .takes::<NewRun>()
            .answers::<Run>(201, "It is recorded, and the session's totals have it.")
            .conflicts(),
    ]
}
