//! Sandboxes that are paused and go on because somebody comes, for those who show what they have
//! to.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use warren_core::{SandboxId, SandboxRecord};
use warren_face::Asleep;
use warren_face::port::status_at_port;

use crate::state::{BY, E2b};

/// Has a sandbox that somebody paused go on, if it does so for visitors. `shown` says whether what
/// the visitor showed is right. The error is the answer.
pub(crate) async fn wake(state: &E2b, record: &SandboxRecord, shown: bool) -> Result<(), Response> {
    let woken = if !shown && record.traffic.wake.is_some() {
        Err(Asleep::Forbidden)
    } else {
        let sandbox = state.engine_as(BY, &record.owner).sandbox(&record.id);
        sandbox.wake().await.map_err(|error| Asleep::because(&error))
    };
    woken.map_err(|asleep| told(&record.id, status_at_port(asleep.code()), asleep.sentence()))
}

/// The answer where nobody can answer for the sandbox, in the words that E2B's clients know.
pub(crate) fn told(sandbox: &SandboxId, status: StatusCode, message: &str) -> Response {
    let body = json!({"sandboxId": sandbox, "message": message, "code": status.as_u16()});
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::BAD_GATEWAY {
        response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
    }
    response
}
