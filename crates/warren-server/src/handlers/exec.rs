use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::HeaderMap;
use tokio_util::task::AbortOnDropHandle;
use warren_engine::{ProcessHandle, ProcessWriter};
use warren_face::Held;
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_face::sse;
use warren_wire::api;

use crate::convert::{self, ExecOrder};
use crate::extract::{Json, SandboxPath};
use crate::process_messages::ProcessMessages;
use crate::state::AppState;

/// If the client goes, the command runs on, and can be found among the sandbox's processes.
pub(crate) async fn run(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    headers: HeaderMap,
    Json(body): Json<api::Exec>,
) -> Result<Response, ApiError> {
    let ExecOrder { start, stdin, caps, encoding } = convert::exec_order(body)?;
    if sse::is_wanted(&headers) {
        let handle = sandbox.start(start).await?;
        return Ok(sse::answer(&caller, messages(handle, stdin, encoding).into_stream()));
    }
    let room = state.engine.as_(&caller).room_for(caps.stdout.saturating_add(caps.stderr))?;
    let result = sandbox.exec(start, stdin, caps).await?;
    let answer = Json(convert::exec_result(result, encoding)).into_response();
    Ok(answer.map(|body| Body::new(Held::new(body, room))))
}

fn messages(handle: ProcessHandle, stdin: Bytes, encoding: api::Encoding) -> ProcessMessages {
    let started = handle.started;
    let (reader, writer) = handle.split();
    let feed = AbortOnDropHandle::new(tokio::spawn(feed(writer, stdin)));
    ProcessMessages::new(started, reader, encoding).fed_by(feed)
}

/// A process that reads none of its input, or not all, is no failure.
async fn feed(mut writer: ProcessWriter, stdin: Bytes) {
    if !stdin.is_empty() && writer.write(stdin).await.is_ok() {
        writer.close_stdin().await.ok();
    }
}
