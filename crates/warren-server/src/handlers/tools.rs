use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use http::HeaderMap;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use warren_engine::{EngineError, Missing, Sandbox, ToolCall, ToolProgress, ToolResult};
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_face::sse::{self, Message};
use warren_wire::api;

use crate::convert;
use crate::extract::{Json, SandboxPath, ToolPath};
use crate::state::AppState;

/// Pieces of progress that wait for their reader. What comes when there are so many is left out;
/// the answer has it.
const WAITING: usize = 64;

pub(crate) async fn list(State(state): State<AppState>) -> Json<api::ToolList> {
    Json(api::ToolList { items: state.engine.tools().iter().map(convert::tool).collect() })
}

/// If the client goes, the tool runs on, and the same `call_id` gets its answer.
pub(crate) async fn call(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    ToolPath(tool): ToolPath,
    headers: HeaderMap,
    Json(body): Json<api::ToolCall>,
) -> Result<Response, ApiError> {
    if !state.engine.tools().iter().any(|known| known.name == tool) {
        return Err(EngineError::NotFound { what: Missing::Tool, id: tool }.into());
    }
    let streamed = body.stream || sse::is_wanted(&headers);
    let call = convert::tool_call(tool, body)?;
    if streamed {
        sandbox.record().await?;
        let (progress, told) = mpsc::channel(WAITING);
        let answer = begin(state, sandbox, call, Some(progress));
        return Ok(sse::answer(&caller, messages(told, answer)));
    }
    let answer = begin(state, sandbox, call, None).await.map_err(ApiError::internal)??;
    Ok(Json(answer).into_response())
}

fn begin(
    state: AppState,
    sandbox: Sandbox,
    call: ToolCall,
    progress: Option<mpsc::Sender<ToolProgress>>,
) -> JoinHandle<Result<api::ToolResult, ApiError>> {
    tokio::spawn(async move {
        let tool = call.tool.clone();
        let result: ToolResult = sandbox.call_tool(call, progress).await?;
        state.metrics.travel.called(&tool, &result);
        Ok(convert::tool_result(result))
    })
}

/// The tool's output while it runs, then its answer.
fn messages(
    told: mpsc::Receiver<ToolProgress>,
    answer: JoinHandle<Result<api::ToolResult, ApiError>>,
) -> impl Stream<Item = Message> + Send + 'static {
    let progress = stream::unfold(told, |mut told| async {
        let progress = told.recv().await?;
        Some((convert::tool_progress(progress), told))
    });
    let last = stream::once(async {
        match answer.await.map_err(ApiError::internal).flatten() {
            Ok(result) => Message::new("result", &result),
            Err(error) => Message::error(error),
        }
    });
    progress.chain(last)
}
