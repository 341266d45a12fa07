use warren_face::route::schema::{SANDBOX_WORD, flag, matching, number, text_of};
use warren_face::route::{Events, Parameter};
use warren_wire::api::{
    Blame, CompleteTurn, Diff, EndedSession, Fork, Forks, Journal, MakeTemplate, NameSnapshot, Promote,
    Promoted, Rollback, RolledBack, Snapshot, SnapshotList, Steps, TakeSnapshot, Template, ToolCall,
    ToolList, ToolOutput, ToolResult, Turn,
};

use super::Route;
use crate::convert::MOST_CHANGES;
use crate::handlers::{archives, diff, history, journal, snapshots, tools};

/// The id of a snapshot, or a word for a sandbox.
const POINT: &str = SANDBOX_WORD;
const SESSION: &str = "^sess-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";
const TEMPLATE: &str = "^[a-z0-9][a-z0-9._-]{0,62}$";

/// Absolute, and without `..`.
const PATH: &str = r"^/(?!(.*/)?\.\.(/|$))[^\x00]*$";

/// Whole numbers up to here are exact in every JSON reader.
const MOST_NUMBER: u64 = 9_007_199_254_740_991;

pub(super) fn rows() -> Vec<Route> {
    [taken(), kept(), travel(), branches(), archive(), told(), called()].into_iter().flatten().collect()
}

fn filtered(route: Route) -> Route {
    route
        .parameter(
            Parameter::query("session_id", "Only those of this session.", matching(SESSION))
                .formerly("session"),
        )
        .parameter(Parameter::query("name", "Only those of this name.", text_of(1, 128)))
        .parameter(Parameter::query("named", "Only those with a name.", flag()))
        .paged()
        .answers_page::<Snapshot>("A page of them.")
}

fn taken() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes/{sandbox_id}/snapshots", "take_snapshot", snapshots::take)
            .does("Capture a sandbox's files")
            .may_take::<TakeSnapshot>()
            .long()
            .answers::<Snapshot>(201, "It can be gone back to.")
            .works_inside(),
        filtered(
            Route::get(
                "/v1/sandboxes/{sandbox_id}/snapshots",
                "list_sandbox_snapshots",
                snapshots::list_of_sandbox,
            )
            .does("List a sandbox's snapshots, the newest first"),
        ),
        Route::post("/v1/sandboxes/{sandbox_id}/turns", "complete_turn", history::turn)
            .does("Say that a turn is over, and capture what it left")
            .may_take::<CompleteTurn>()
            .long()
            .answers::<Turn>(200, "The turn, with the snapshot of what it left.")
            .works_inside(),
        Route::post("/v1/sessions/{session_id}/turns", "complete_session_turn", history::session_turn)
            .does("Say that a session's turn is over, and capture what it left")
            .may_take::<CompleteTurn>()
            .long()
            .answers::<Turn>(200, "The turn, with the snapshot of what it left.")
            .works_inside(),
        Route::post("/v1/sessions/{session_id}/end", "end_session", history::end_session)
            .does("Capture what a session leaves, and stop its sandbox")
            .long()
            .answers::<EndedSession>(200, "It is over. Another can begin with the snapshot.")
            .works_inside(),
    ]
}

fn kept() -> Vec<Route> {
    vec![
        filtered(
            Route::get("/v1/snapshots", "list_snapshots", snapshots::list)
                .does("List snapshots of all sandboxes, also of those that are gone, the newest first"),
        ),
        Route::get("/v1/snapshots/{snapshot_id}", "get_snapshot", snapshots::get)
            .does("Look at a snapshot")
            .answers::<Snapshot>(200, "The snapshot."),
        Route::patch("/v1/snapshots/{snapshot_id}", "name_snapshot", snapshots::rename)
            .does("Give a snapshot a name, or take it away")
            .takes::<NameSnapshot>()
            .answers::<Snapshot>(200, "As it is now.")
            .conflicts(),
        Route::delete("/v1/snapshots/{snapshot_id}", "delete_snapshot", snapshots::delete)
            .does("Delete a snapshot. Those that came after it stay")
            .answers_nothing(204, "It is gone.")
            .conflicts(),
    ]
}

fn travel() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes/{sandbox_id}/rollback", "roll_back_sandbox", history::rollback)
            .does("Give a sandbox the files of an earlier state, after capturing those it has. Its processes end")
            .takes::<Rollback>()
            .long()
            .answers::<RolledBack>(200, "It has the files of that snapshot.")
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/undo", "undo", history::undo)
            .does("Go back to the state before")
            .may_take::<Steps>()
            .long()
            .answers::<RolledBack>(200, "It has the files of that snapshot.")
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/redo", "redo", history::redo)
            .does("Take back an undo")
            .may_take::<Steps>()
            .long()
            .answers::<RolledBack>(200, "It has the files of that snapshot.")
            .works_inside(),
    ]
}

fn branches() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes/{sandbox_id}/fork", "fork_sandbox", snapshots::fork_sandbox)
            .does("Make sandboxes that share a sandbox's files as they are now, until they write")
            .may_take::<Fork>()
            .long()
            .answers::<Forks>(201, "They are ready.")
            .works_inside(),
        Route::post("/v1/snapshots/{snapshot_id}/fork", "fork_snapshot", snapshots::fork)
            .does("Make sandboxes that share a snapshot's files until they write")
            .may_take::<Fork>()
            .long()
            .answers::<Forks>(201, "They are ready.")
            .conflicts(),
        Route::post("/v1/sandboxes/{sandbox_id}/promote", "promote_sandbox", history::promote)
            .does("Merge a fork's changes into the sandbox that it is a fork of, or see what that would come to")
            .may_take::<Promote>()
            .long()
            .answers::<Promoted>(200, "What it comes to.")
            .works_inside(),
        Route::post("/v1/snapshots/{snapshot_id}/template", "make_template", snapshots::make_template)
            .does("Make a template that begins with a snapshot's files")
            .admin()
            .takes::<MakeTemplate>()
            .long()
            .answers::<Template>(201, "Sandboxes can start from it.")
            .conflicts(),
    ]
}

fn archive() -> Vec<Route> {
    vec![
        Route::get("/v1/snapshots/{snapshot_id}/export", "export_snapshot", archives::take_out)
            .does("Take a snapshot's files, what changed, or a whole history out. A failure on the way breaks the body off")
            .parameter(Parameter::query(
                "format",
                "`tar`: the files. `patch`: what changed since `since`, for `git apply`. `history`: for another Warren. Left out: `tar`.",
                matching("^(tar|patch|history)$"),
            ))
            .parameter(Parameter::query("path", "Only what is below this directory.", matching(PATH)))
            .parameter(Parameter::query("since", "Of a patch: the snapshot or sandbox that it starts from.", matching(POINT)))
            .parameter(Parameter::query("leave_ignored", "Of a patch: pass over what the `.gitignore` files of the state name.", flag()))
            .parameter(Parameter::query("exclude", "Of a patch: pass over what matches this, as a line of `.gitignore` in `path`. May be repeated.", text_of(1, 4095)))
            .parameter(Parameter::query(
                "size",
                "Tell in `Warren-Export-Bytes` how many bytes will come, if that can be counted within moments. Of a patch it is not told.",
                flag(),
            ))
            .long()
            .answers_as(200, "The archive.", "application/x-tar")
            .or_as("text/x-patch")
            .or_as("application/octet-stream")
            .with_header("Content-Disposition", "A name for the file.")
            .with_header("Warren-Export-Bytes", "How many bytes will come, if `size` asks for it and they could be counted.")
            .conflicts(),
        Route::post("/v1/snapshots/import", "import_snapshots", archives::bring_in)
            .does("Make snapshots of what another Warren exported, or of a tar file")
            .parameter(Parameter::query("format", "Left out: `history`.", matching("^(tar|history)$")))
            .parameter(Parameter::query("template", "Of a tar file: what its files stand on.", matching(TEMPLATE)))
            .parameter(Parameter::query("name", "A name for the newest.", matching(r"^[^\x00-\x1f\x7f-\x9f]{1,128}$")))
            .takes_bytes()
            .long()
            .answers::<SnapshotList>(201, "Parents before their children.")
            .fails(404)
            .conflicts(),
    ]
}

fn told() -> Vec<Route> {
    vec![
        Route::get("/v1/diff", "diff", diff::get)
            .does("See what differs between two states")
            .parameter(
                Parameter::query("from", "A snapshot, or a sandbox as it is now.", matching(POINT))
                    .required(),
            )
            .parameter(
                Parameter::query("to", "A snapshot, or a sandbox as it is now.", matching(POINT)).required(),
            )
            .parameter(Parameter::query("path", "Only what is at or below this path.", matching(PATH)))
            .parameter(Parameter::query(
                "text",
                "Also how lines of text differ; at most 1000 paths are told then.",
                flag(),
            ))
            .parameter(Parameter::query(
                "limit",
                "At most so many paths. Left out: 1000.",
                number(1, MOST_CHANGES),
            ))
            .long()
            .answers::<Diff>(200, "Paths that differ.")
            .fails(404)
            .works_inside(),
        Route::get("/v1/sandboxes/{sandbox_id}/journal", "list_journal", journal::list)
            .does("See what was done in a sandbox, the newest first")
            .parameter(Parameter::query(
                "before",
                "Only those with a smaller number.",
                number(0, MOST_NUMBER),
            ))
            .parameter(Parameter::query("limit", "At most so many. Left out: 100.", number(1, journal::MOST)))
            .parameter(Parameter::query("count", "Also how many paths each changed.", flag()))
            .long()
            .answers::<Journal>(200, "What was done."),
        Route::get("/v1/sandboxes/{sandbox_id}/blame", "blame", journal::blame)
            .does("See which command last changed a path")
            .parameter(Parameter::query("path", "Absolute, inside the sandbox.", matching(PATH)).required())
            .long()
            .answers::<Blame>(200, "What changed it.")
            .works_inside(),
    ]
}

fn called() -> Vec<Route> {
    vec![
        Route::get("/v1/tools", "list_tools", tools::list)
            .does("List the tools that can be called in a sandbox")
            .of_server()
            .answers::<ToolList>(200, "All of them."),
        Route::post("/v1/sandboxes/{sandbox_id}/tools/{tool}", "call_tool", tools::call)
            .does(
                "Call a tool. With `Accept: text/event-stream` what it writes is told as `stdout` and `stderr`, then `result`",
            )
            .takes::<ToolCall>()
            .long()
            .answers::<ToolResult>(200, "What the tool says, also where it says that it failed.")
            .or_events(
                Events::named("ToolEvent", "A tool while it runs. After `result` there is nothing more.")
                    .event::<ToolOutput>("stdout")
                    .event::<ToolOutput>("stderr")
                    .event::<ToolResult>("result"),
            )
            .works_inside(),
    ]
}
