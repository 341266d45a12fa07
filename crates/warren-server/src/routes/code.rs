use warren_core::Scope;
use warren_face::route::{Access, Events};
use warren_wire::api::{
    CodeContext, CodeContextList, CodeEnd, CodeError, CodeOutput, CodeResult, CodeStarted, CodeText,
    NewCodeContext, RunCode,
};

use super::Route;
use crate::handlers::code;

pub(super) fn rows() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes/{sandbox_id}/code", "run_code", code::run)
            .does(
                "Run a cell of code; what it defines stays. With `Accept: text/event-stream` what it does is told as `started`, `stdout`, `stderr`, `result` and `exception`, then `end`",
            )
            .takes::<RunCode>()
            .long()
            .answers::<CodeResult>(200, "What became of it, also where it failed.")
            .or_events(
                Events::named("CodeEvent", "A cell while it runs. After `end` there is nothing more.")
                    .event::<CodeStarted>("started")
                    .event::<CodeText>("stdout")
                    .event::<CodeText>("stderr")
                    .event::<CodeOutput>("result")
                    .event::<CodeError>("exception")
                    .empty_event("unknown")
                    .event::<CodeEnd>("end"),
            )
            .works_inside(),
        // Asking for them starts the service.
        Route {
            access: Access::Key(Scope::Use),
            ..Route::get("/v1/sandboxes/{sandbox_id}/code/contexts", "list_code_contexts", code::contexts)
                .does("List the contexts in which code runs")
                .long()
                .answers::<CodeContextList>(200, "All of them, the oldest first.")
                .works_inside()
        },
        Route::post("/v1/sandboxes/{sandbox_id}/code/contexts", "create_code_context", code::create_context)
            .does("Make a context of its own for code")
            .may_take::<NewCodeContext>()
            .long()
            .answers::<CodeContext>(201, "It is there; its kernel is started by the first cell.")
            .works_inside(),
        Route::delete(
            "/v1/sandboxes/{sandbox_id}/code/contexts/{context}",
            "remove_code_context",
            code::remove_context,
        )
        .does("Remove a context, and end what runs in it")
        .long()
        .answers_nothing(204, "It is gone.")
        .works_inside(),
        Route::post(
            "/v1/sandboxes/{sandbox_id}/code/contexts/{context}/restart",
            "restart_code_context",
            code::restart_context,
        )
        .does("Start a context anew: what runs in it ends, and its state is lost")
        .long()
        .answers_nothing(204, "It is as new.")
        .works_inside(),
        Route::post(
            "/v1/sandboxes/{sandbox_id}/code/contexts/{context}/interrupt",
            "interrupt_code_context",
            code::interrupt_context,
        )
        .does("Interrupt the cell that runs in a context; its state stays")
        .long()
        .answers_nothing(204, "It was told to stop, or none runs.")
        .works_inside(),
    ]
}
