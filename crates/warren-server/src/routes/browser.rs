use warren_wire::api::{Browser, BrowserAction, BrowserFrameList, BrowserNotice};

use super::Route;
use crate::handlers::browser;

pub(super) fn rows() -> Vec<Route> {
    vec![
        Route::post("/v1/sandboxes/{sandbox_id}/browser", "start_browser", browser::start)
            .does("Start a sandbox's browser if it is not there, and wait for it")
            .long()
            .answers::<Browser>(200, "It is there.")
            .works_inside(),
        Route::get("/v1/sandboxes/{sandbox_id}/browser/frames", "list_browser_frames", browser::frames)
            .does("List what a browser's page looked like after the last entries of the journal")
            .answers::<BrowserFrameList>(200, "Those that are kept, the oldest first."),
        Route::get("/v1/sandboxes/{sandbox_id}/browser/frames/{entry}", "get_browser_frame", browser::frame)
            .does("See what a browser's page looked like after an entry of the journal")
            .answers_as(200, "A JPEG.", "image/jpeg"),
        Route::get("/v1/sandboxes/{sandbox_id}/browser/live", "watch_browser", browser::live)
            .does("Look on at a browser, and take its controls, over a WebSocket (subprotocol `warren.v1`)")
            .long()
            .answers_nothing(101, "Frames follow, and what happens to the page.")
            .message::<BrowserAction>("client_text")
            .message::<BrowserNotice>("server_text")
            .works_inside(),
    ]
}
