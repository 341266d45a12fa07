//! The service `process.Process`: commands and terminals.

mod exit;
mod follow;
mod input;
mod order;

use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use warren_engine::{EngineError, Missing, Process};
use warren_wire::guest::{self, FailureCode};

use super::Visitor;
use super::rpc::{self, RpcError};
use crate::annotation::Annotation;
use crate::process::{
    CloseStdinRequest, ConnectRequest, ListRequest, ListResponse, ProcessInfo, ProcessSelector, Selector,
    SendInputRequest, SendSignalRequest, SendSignalResponse, Signal, StartRequest, UpdateRequest,
    UpdateResponse,
};
use crate::rpc::Code;

/// How long a process that was killed may take to end.
const LONGEST_DEATH: Duration = Duration::from_secs(5);

/// The methods of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Start,
    Connect,
    List,
    Update,
    SendSignal,
    SendInput,
    StreamInput,
    CloseStdin,
}

/// Answers a call of the service.
pub(super) async fn answer(visitor: Visitor, method: Method, request: Request) -> Response {
    let (at, timeout) = (&visitor, rpc::timeout_of(request.headers()));
    match method {
        Method::Start => {
            let start = |ask: StartRequest| follow::start(at, ask, timeout);
            rpc::server_stream_until(at, request, follow::GRACE, start).await
        }
        Method::Connect => {
            rpc::server_stream(at, request, |ask: ConnectRequest| follow::connect(at, ask)).await
        }
        Method::List => rpc::unary(at, request, |_: ListRequest| list(at)).await,
        Method::Update => rpc::unary(at, request, |ask: UpdateRequest| update(at, ask)).await,
        Method::SendSignal => rpc::unary(at, request, |ask: SendSignalRequest| signal(at, ask)).await,
        Method::SendInput => rpc::unary(at, request, |ask: SendInputRequest| input::send(at, ask)).await,
        Method::StreamInput => rpc::client_stream(at, request, |asks| input::stream(at, asks)).await,
        Method::CloseStdin => rpc::unary(at, request, |ask: CloseStdinRequest| input::close(at, ask)).await,
    }
}

async fn list(visitor: &Visitor) -> Result<ListResponse, RpcError> {
    let processes = visitor.sandbox.processes().list().await?;
    let running = processes.into_iter().filter(|process| process.exit.is_none());
    let own_env = Annotation::own_env(&visitor.record);
    let shown = |process: Process| ProcessInfo {
        pid: process.pid,
        tag: process.tag.as_ref().map(|tag| tag.to_text().into_owned()),
        config: Some(order::shown(&process, &own_env)),
    };
    Ok(ListResponse { processes: running.map(shown).collect() })
}

async fn update(visitor: &Visitor, ask: UpdateRequest) -> Result<UpdateResponse, RpcError> {
    let process = selected(ask.process)?;
    let Some(size) = ask.pty.and_then(|pty| pty.size) else { return Ok(UpdateResponse {}) };
    let size = order::terminal_size(size)?;
    let resized = visitor.sandbox.processes().resize(process.clone(), size).await;
    resized.map(|()| UpdateResponse {}).map_err(|error| match error {
        EngineError::Refused(failure) if failure.code == FailureCode::WrongKind => {
            RpcError::new(Code::Internal, failure.message)
        }
        error => about(&process, error),
    })
}

async fn signal(visitor: &Visitor, ask: SendSignalRequest) -> Result<SendSignalResponse, RpcError> {
    let process = selected(ask.process)?;
    let number = match Signal::try_from(ask.signal) {
        Ok(signal @ (Signal::Sigkill | Signal::Sigterm)) => i32::from(signal),
        _ => return Err(RpcError::invalid("signal: SIGNAL_SIGKILL and SIGNAL_SIGTERM can be sent")),
    };
    let sent = visitor.sandbox.processes().signal(process.clone(), number, false).await;
    sent.map_err(|error| about(&process, error))?;
    if number == i32::from(Signal::Sigkill) {
        // Clients look at once whether it is gone. One that the kernel does not let go is not
        // waited for.
        let processes = visitor.sandbox.processes();
        let ended = processes.wait(process);
        tokio::time::timeout(LONGEST_DEATH, ended).await.ok();
    }
    Ok(SendSignalResponse {})
}

/// The process that a request is about.
fn selected(selector: Option<ProcessSelector>) -> Result<guest::ProcessSelector, RpcError> {
    match selector.and_then(|selector| selector.selector) {
        Some(Selector::Pid(pid)) => Ok(guest::ProcessSelector::Pid(pid)),
        Some(Selector::Tag(tag)) => Ok(guest::ProcessSelector::Tag(tag.into())),
        None => Err(RpcError::invalid("process: say which, by `pid` or by `tag`")),
    }
}

/// The agent's record of that process.
async fn find(visitor: &Visitor, process: &guest::ProcessSelector) -> Result<Process, RpcError> {
    let found = visitor.sandbox.processes().get(process.clone()).await;
    found.map_err(|error| about(process, error))
}

/// As [`find`], for a process that must still run.
async fn find_running(visitor: &Visitor, process: &guest::ProcessSelector) -> Result<Process, RpcError> {
    let found = find(visitor, process).await?;
    if found.exit.is_some() { Err(missing(process)) } else { Ok(found) }
}

/// For these clients a process that has ended does not exist.
fn about(process: &guest::ProcessSelector, error: EngineError) -> RpcError {
    match error {
        EngineError::NotFound { what: Missing::Process, .. } => missing(process),
        EngineError::Refused(failure) if failure.code == FailureCode::Ended => missing(process),
        error => error.into(),
    }
}

fn missing(process: &guest::ProcessSelector) -> RpcError {
    let message = match process {
        guest::ProcessSelector::Id(id) => format!("process {} not found", id.0),
        guest::ProcessSelector::Pid(pid) => format!("process with pid {pid} not found"),
        guest::ProcessSelector::Tag(tag) => format!("process with tag {} not found", tag.to_text()),
    };
    RpcError::new(Code::NotFound, message)
}
