use bytes::Bytes;
use warren_engine::{EngineError, Process};
use warren_wire::guest::{FailureCode, ProcessSelector};

use super::super::Visitor;
use super::super::rpc::{Incoming, RpcError};
use super::{about, find_running, selected};
use crate::process::{
    CloseStdinRequest, CloseStdinResponse, Input, ProcessInput, SendInputRequest, SendInputResponse,
    StreamInput, StreamInputRequest, StreamInputResponse,
};
use crate::rpc::Code;

pub(super) async fn send(visitor: &Visitor, ask: SendInputRequest) -> Result<SendInputResponse, RpcError> {
    let target = find_running(visitor, &selected(ask.process)?).await?;
    feed(visitor, &target, ask.input).await?;
    Ok(SendInputResponse {})
}

/// Each piece is in before the next is read: a process that does not read makes its client wait.
pub(super) async fn stream(
    visitor: &Visitor,
    mut asks: Incoming<StreamInputRequest>,
) -> Result<StreamInputResponse, RpcError> {
    let mut target = None;
    while let Some(ask) = asks.next().await? {
        match ask.event {
            Some(StreamInput::Start(start)) => {
                target = Some(find_running(visitor, &selected(start.process)?).await?);
            }
            Some(StreamInput::Data(data)) => {
                let target =
                    target.as_ref().ok_or_else(|| RpcError::invalid("the first message is `start`"))?;
                feed(visitor, target, data.input).await?;
            }
            Some(StreamInput::Keepalive(_)) | None => {}
        }
    }
    Ok(StreamInputResponse {})
}

/// Closing what is closed is no failure.
pub(super) async fn close(visitor: &Visitor, ask: CloseStdinRequest) -> Result<CloseStdinResponse, RpcError> {
    let target = find_running(visitor, &selected(ask.process)?).await?;
    if target.terminal {
        let message = "a terminal's input has no end of its own: send it the end-of-file character, 0x04";
        return Err(RpcError::new(Code::Unknown, message));
    }
    let process = ProcessSelector::Id(target.process);
    match visitor.sandbox.processes().input(process.clone(), Bytes::new(), true).await {
        Err(EngineError::Refused(failure)) if failure.code == FailureCode::Ended => {}
        closed => closed.map_err(|error| about(&process, error))?,
    }
    Ok(CloseStdinResponse {})
}

async fn feed(visitor: &Visitor, target: &Process, input: Option<ProcessInput>) -> Result<(), RpcError> {
    let bytes = match (input.and_then(|input| input.input), target.terminal) {
        (Some(Input::Stdin(bytes)), false) | (Some(Input::Pty(bytes)), true) => bytes,
        (Some(Input::Stdin(_)), true) => {
            return Err(wrong(target, "has a terminal: send `pty`, not `stdin`"));
        }
        (Some(Input::Pty(_)), false) => {
            return Err(wrong(target, "has no terminal: send `stdin`, not `pty`"));
        }
        (None, _) => return Err(RpcError::invalid("input: send `stdin` or `pty`")),
    };
    let process = ProcessSelector::Id(target.process);
    match visitor.sandbox.processes().input(process.clone(), bytes, false).await {
        Err(EngineError::Refused(failure)) if failure.code == FailureCode::Ended => Err(wrong(
            target,
            "takes no input: it was started without, its input was closed, or it has ended",
        )),
        fed => fed.map_err(|error| about(&process, error)),
    }
}

fn wrong(target: &Process, what: &str) -> RpcError {
    RpcError::new(Code::Internal, format!("process with pid {} {what}", target.pid))
}
