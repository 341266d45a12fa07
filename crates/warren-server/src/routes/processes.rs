use warren_core::Scope;
use warren_face::route::schema::{flag, matching, number};
use warren_face::route::{Access, Events, Parameter};
use warren_wire::api::{
    Exec, ExecResult, OutputPiece, Process, ProcessExit, ProcessList, SendSignal, StartProcess,
    StreamCommand, StreamMissed, StreamNotice, StreamOpening, StreamStarted, TerminalSize,
};

use super::Route;
use crate::handlers::{exec, processes, stream};

/// Whole numbers up to here are exact in every JSON reader.
const MOST_NUMBER: u64 = 9_007_199_254_740_991;

pub(super) fn rows() -> Vec<Route> {
    [running(), single(), talking()].into_iter().flatten().collect()
}

/// A process as a stream tells it.
fn process_events() -> Events {
    let about = "A process that is followed: that it started, what it writes, and how it ended. The `id` of an event is the position after it.";
    Events::named("ProcessEvent", about)
        .numbered()
        .event::<StreamStarted>("started")
        .event::<OutputPiece>("stdout")
        .event::<OutputPiece>("stderr")
        .event::<StreamMissed>("missed")
        .event::<ProcessExit>("exited")
}

fn running() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes/{sandbox_id}/exec", "exec", exec::run)
            .does("Run a command to its end, or follow it (with `Accept: text/event-stream`)")
            .takes::<Exec>()
            .long()
            .answers::<ExecResult>(200, "How it ended, and what it wrote.")
            .or_events(process_events())
            .works_inside(),
        Route::post("/v1/sandboxes/{sandbox_id}/processes", "start_process", processes::start)
            .does("Start a command and leave it running")
            .takes::<StartProcess>()
            .answers::<Process>(201, "It runs.")
            .works_inside(),
        Route::get("/v1/sandboxes/{sandbox_id}/processes", "list_processes", processes::list)
            .does("List processes that run, and those that ended a short while ago")
            .answers::<ProcessList>(200, "All of them, the oldest first. Ports are not tried.")
            .works_inside(),
    ]
}

fn single() -> Vec<Route> {
    vec![
        Route::get("/v1/sandboxes/{sandbox_id}/processes/{process}", "get_process", processes::get)
            .does("Look at a process")
            .answers::<Process>(200, "As it is now.")
            .works_inside(),
        Route::delete("/v1/sandboxes/{sandbox_id}/processes/{process}", "kill_process", processes::kill)
            .does("Kill a process with its group")
            .answers_nothing(204, "It was killed, or had ended before.")
            .works_inside(),
        Route::post(
            "/v1/sandboxes/{sandbox_id}/processes/{process}/signal",
            "signal_process",
            processes::signal,
        )
        .does("Send a signal to a process")
        .takes::<SendSignal>()
        .answers_nothing(204, "It was sent.")
        .works_inside(),
        Route::post(
            "/v1/sandboxes/{sandbox_id}/processes/{process}/resize",
            "resize_process",
            processes::resize,
        )
        .does("Change the size of a process's terminal")
        .takes::<TerminalSize>()
        .answers_nothing(204, "It was changed.")
        .works_inside(),
        Route::get("/v1/sandboxes/{sandbox_id}/processes/{process}/wait", "wait_process", processes::wait)
            .does("Wait until a process ends")
            .parameter(Parameter::query("timeout_s", "How long to wait. Left out: 60.", number(0, 3600)))
            .long()
            .answers::<Process>(200, "How it ended, or how it stands when the time is over.")
            .works_inside(),
    ]
}

fn talking() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/sandboxes/{sandbox_id}/processes/{process}/stdin",
            "write_process_stdin",
            processes::stdin,
        )
        .does("Write to a process's standard input")
        .takes_bytes()
        .parameter(Parameter::query("close", "There is no more input after this.", flag()))
        .long()
        .answers_nothing(204, "The process has been given all of it.")
        .works_inside(),
        Route::get(
            "/v1/sandboxes/{sandbox_id}/processes/{process}/output",
            "follow_process",
            processes::output,
        )
        .does("Follow what a process writes, until it ends")
        .parameter(Parameter::query(
            "from",
            "The position to go on from. Left out: the beginning.",
            number(0, MOST_NUMBER),
        ))
        .parameter(Parameter::query(
            "encoding",
            "How output is written. Left out: `utf8`.",
            matching("^(utf8|base64)$"),
        ))
        .parameter(Parameter::header(
            "Last-Event-ID",
            "For a reader that comes back: the `id` of the last event it saw. It goes before `from`.",
            number(0, MOST_NUMBER),
        ))
        .long()
        .answers_events("What it writes and how it ends.", process_events())
        .works_inside(),
        Route {
            access: Access::Key(Scope::Use),
            ..Route::get("/v1/sandboxes/{sandbox_id}/stream", "stream_process", stream::open)
                .does("Start or join a process over a WebSocket (subprotocol `warren.v1`)")
                .long()
                .answers_nothing(101, "The client's first message is a `StreamOpening`.")
                .message::<StreamOpening>("client_first")
                .message::<StreamCommand>("client_text")
                .message::<StreamNotice>("server_text")
                .works_inside()
        },
    ]
}
