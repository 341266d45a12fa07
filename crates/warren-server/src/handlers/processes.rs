use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::{HeaderMap, StatusCode};
use warren_engine::{EngineError, port_of};
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::body::broken_body;
use warren_face::error::{ApiError, Code};
use warren_face::sse;
use warren_wire::api;
use warren_wire::guest::{FailureCode, Reader};

use crate::convert;
use crate::extract::{Json, Params, ProcessPath, SandboxPath};
use crate::process_messages::ProcessMessages;

const USUAL_WAIT_S: u64 = 60;
const LONGEST_WAIT_S: u64 = 3600;
const SIGKILL: i32 = 9;

pub(crate) async fn start(
    SandboxPath(sandbox): SandboxPath,
    address: Address,
    Json(body): Json<api::StartProcess>,
) -> Result<Response, ApiError> {
    let port = convert::checked_port(body.port)?;
    let order = convert::start_order(body)?;
    let at = (&address, sandbox.id());
    let process = match port {
        Some(port) => convert::launched(sandbox.launch(order, port).await?, at),
        None => convert::process(sandbox.spawn(order).await?, at),
    };
    Ok((StatusCode::CREATED, Json(process)).into_response())
}

pub(crate) async fn list(
    SandboxPath(sandbox): SandboxPath,
    address: Address,
) -> Result<Json<api::ProcessList>, ApiError> {
    let processes = sandbox.processes().list().await?;
    let shown = |info| convert::process(info, (&address, sandbox.id()));
    Ok(Json(api::ProcessList { items: processes.into_iter().map(shown).collect() }))
}

/// A process that was given a port is looked at through it.
pub(crate) async fn get(
    SandboxPath(sandbox): SandboxPath,
    ProcessPath(process): ProcessPath,
    address: Address,
) -> Result<Json<api::Process>, ApiError> {
    let found = sandbox.processes().get(process.clone()).await?;
    let at = (&address, sandbox.id());
    if port_of(&found).is_none() {
        return Ok(Json(convert::process(found, at)));
    }
    let launched = sandbox.processes().launch_status(process).await?;
    Ok(Json(convert::launched(launched, at)))
}

/// One that has ended is as dead as was asked for.
pub(crate) async fn kill(
    SandboxPath(sandbox): SandboxPath,
    ProcessPath(process): ProcessPath,
) -> Result<StatusCode, ApiError> {
    match sandbox.processes().signal(process, SIGKILL, true).await {
        Err(EngineError::Refused(failure)) if failure.code == FailureCode::Ended => {}
        outcome => outcome?,
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn signal(
    SandboxPath(sandbox): SandboxPath,
    ProcessPath(process): ProcessPath,
    Json(body): Json<api::SendSignal>,
) -> Result<StatusCode, ApiError> {
    let number = convert::signal_number(&body.signal)?;
    sandbox.processes().signal(process, number, body.group).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The body goes to the process as it arrives, and no faster than the process reads.
pub(crate) async fn stdin(
    SandboxPath(sandbox): SandboxPath,
    ProcessPath(process): ProcessPath,
    params: Params,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let close = params.flag("close")?;
    let mut input = sandbox.processes().open_input(process, close).await?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        input.write(piece.map_err(|error| broken_body(&error))?).await?;
    }
    input.finish().await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn resize(
    SandboxPath(sandbox): SandboxPath,
    ProcessPath(process): ProcessPath,
    Json(body): Json<api::TerminalSize>,
) -> Result<StatusCode, ApiError> {
    let size = convert::terminal_size(body, "")?;
    sandbox.processes().resize(process, size).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Onlookers never slow a process down: what they do not take in time is missed, and they are told
/// so.
pub(crate) async fn output(
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    ProcessPath(process): ProcessPath,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, ApiError> {
    let from = params.number("from", 0, u64::MAX)?.unwrap_or(0);
    let from = sse::last_seen(&headers)?.unwrap_or(from);
    let encoding = convert::encoding(params.text("encoding"))?;
    let handle = sandbox.processes().follow(process, from, Reader::Skips).await?;
    let started = handle.started;
    let (reader, _) = handle.split();
    Ok(sse::answer(&caller, ProcessMessages::new(started, reader, encoding).into_stream()))
}

/// Answers how it ended, or how it stands when the time is over.
pub(crate) async fn wait(
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    ProcessPath(process): ProcessPath,
    params: Params,
    address: Address,
) -> Result<Json<api::Process>, ApiError> {
    let patience = params.number("timeout_s", 0, LONGEST_WAIT_S)?.unwrap_or(USUAL_WAIT_S);
    let processes = sandbox.processes();
    let ended = processes.wait(process.clone());
    tokio::select! {
        ended = ended => drop(ended?),
        () = tokio::time::sleep(Duration::from_secs(patience)) => {}
        _ = caller.until_cut() => return Err(ApiError::new(Code::ShuttingDown, "the server is shutting down")),
    }
    Ok(Json(convert::process(processes.get(process).await?, (&address, sandbox.id()))))
}
