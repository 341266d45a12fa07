use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, stream};
use http::{HeaderMap, StatusCode};
use warren_engine::Sandbox;
use warren_face::auth::Caller;
use warren_face::code::{Lines, Service};
use warren_face::error::ApiError;
use warren_face::sse::{self, Message};
use warren_wire::api;

use crate::convert::{self, Collected};
use crate::extract::{CodeContextPath, Json, JsonOrNothing, SandboxPath};
use crate::state::AppState;

/// If the client goes, the cell is interrupted.
pub(crate) async fn run(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    headers: HeaderMap,
    Json(body): Json<api::RunCode>,
) -> Result<Response, ApiError> {
    let order = convert::code_order(body)?;
    let mut lines = service(&state, sandbox).execute(&order).await?;
    if sse::is_wanted(&headers) {
        return Ok(sse::answer(&caller, messages(lines)));
    }
    let mut collected = Collected::default();
    while !collected.is_whole() {
        collected.add(lines.next().await?);
    }
    Ok(Json(collected.result()).into_response())
}

pub(crate) async fn contexts(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
) -> Result<Json<api::CodeContextList>, ApiError> {
    let items = service(&state, sandbox).contexts().await?;
    Ok(Json(api::CodeContextList { items }))
}

pub(crate) async fn create_context(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::NewCodeContext>,
) -> Result<(StatusCode, Json<api::CodeContext>), ApiError> {
    let wanted = convert::new_code_context(body)?;
    let context = service(&state, sandbox).create_context(&wanted).await?;
    Ok((StatusCode::CREATED, Json(context)))
}

pub(crate) async fn restart_context(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    CodeContextPath(context): CodeContextPath,
) -> Result<StatusCode, ApiError> {
    service(&state, sandbox).restart_context(&context).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn interrupt_context(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    CodeContextPath(context): CodeContextPath,
) -> Result<StatusCode, ApiError> {
    service(&state, sandbox).interrupt_context(&context).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn remove_context(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    CodeContextPath(context): CodeContextPath,
) -> Result<StatusCode, ApiError> {
    service(&state, sandbox).remove_context(&context).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn service(state: &AppState, sandbox: Sandbox) -> Service<'_> {
    Service { desk: state, sandbox }
}

/// The cell's output, then how it ended.
fn messages(lines: Lines) -> impl Stream<Item = Message> + Send + 'static {
    stream::unfold(Some((lines, None)), |open| async {
        let (mut lines, mut count) = open?;
        let message = match lines.next().await {
            Err(error) => return Some((Message::error(error.into()), None)),
            Ok(event) => convert::code_message(event, &mut count),
        };
        let is_last = message.name == convert::CODE_END;
        Some((message, (!is_last).then_some((lines, count))))
    })
}
