use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use warren_engine::{self as engine, EngineError, Process, ProcessHandle, ProcessReader};
use warren_wire::guest::{Exit, ExitCause, Failure, FailureCode, ProcessSelector, Reader};

use super::super::Visitor;
use super::super::rpc::RpcError;
use super::super::visitor::is_unknown_user;
use super::order::ProcessDefaults;
use super::{about, exit, find, missing, order, selected};
use crate::process::{
    ConnectRequest, ConnectResponse, DataEvent, Event, Output, ProcessEvent, StartEvent, StartRequest,
    StartResponse,
};
use crate::rpc::Code;

/// How long after its time a process may take to end before its follower is told that the time is
/// over all the same.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long it can be asked how a process ended.
const REMEMBERED_MS: u64 = 30_000;

/// Bytes of a terminal that are told at once.
const TERMINAL_PIECE: usize = 16 * 1024;

/// The kernel's error numbers for a path that does not exist, and for one that is no directory.
const NO_DIRECTORY: [i32; 2] = [2, 20];

/// The position from which only new output is read.
const NOW: u64 = u64::MAX;

/// Starts a process and follows it. When its client goes it runs on.
pub(super) async fn start(
    visitor: &Visitor,
    ask: StartRequest,
    timeout: Option<Duration>,
) -> Result<impl Stream<Item = Result<StartResponse, RpcError>> + use<>, RpcError> {
    let cwd = ask.process.as_ref().and_then(|process| process.cwd.clone());
    let order = order::order(ask, ProcessDefaults::of(visitor), timeout)?;
    let terminal = order.terminal.is_some();
    let started = visitor.sandbox.start(order).await;
    let handle = started.map_err(|error| not_started(visitor, cwd, error))?;
    Ok(Follower::new(handle, terminal, Part::Starter).into_stream())
}

/// Follows a process that was started before. One that has just ended still tells how.
pub(super) async fn connect(
    visitor: &Visitor,
    ask: ConnectRequest,
) -> Result<impl Stream<Item = Result<ConnectResponse, RpcError>> + use<>, RpcError> {
    let process = selected(ask.process)?;
    let found = find(visitor, &process).await?;
    if is_forgotten(&found) {
        return Err(missing(&process));
    }
    let id = ProcessSelector::Id(found.process);
    let handle = visitor.sandbox.processes().follow(id, NOW, Reader::Holds).await;
    let handle = handle.map_err(|error| about(&process, error))?;
    Ok(Follower::new(handle, found.terminal, Part::Onlooker).into_stream())
}

fn is_forgotten(process: &Process) -> bool {
    let ended = process.exit.map(|exit| process.age_ms.saturating_sub(exit.duration_ms));
    ended.is_some_and(|ended_ms_ago| ended_ms_ago > REMEMBERED_MS)
}

/// The answer to a client whose process the agent refused to start.
fn not_started(visitor: &Visitor, cwd: Option<String>, error: EngineError) -> RpcError {
    if is_unknown_user(&error) {
        let message = format!("invalid username: '{}'", visitor.user_name());
        return RpcError::new(Code::Unauthenticated, message);
    }
    match (error, cwd) {
        (EngineError::Refused(failure), Some(cwd)) if is_missing_directory(&failure) => {
            RpcError::invalid(format!("cwd '{cwd}' does not exist"))
        }
        // There is a process only once it runs: what is not found is not the process.
        (EngineError::Refused(failure), _) if failure.code == FailureCode::NotFound => {
            RpcError::invalid(failure.message)
        }
        (error, _) => error.into(),
    }
}

fn is_missing_directory(failure: &Failure) -> bool {
    failure.code == FailureCode::Invalid && failure.errno.is_some_and(|errno| NO_DIRECTORY.contains(&errno))
}

/// The part of a follower. Only the one that started the process learns that its time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Starter,
    Onlooker,
}

/// A process as events.
struct Follower {
    reader: ProcessReader,
    terminal: bool,
    part: Part,
    /// To be told before anything else is read.
    ready: VecDeque<Event>,
    over: bool,
}

impl Follower {
    fn new(handle: ProcessHandle, terminal: bool, part: Part) -> Self {
        let ready = VecDeque::from([Event::Start(StartEvent { pid: handle.started.pid })]);
        let (reader, _) = handle.split();
        Self { reader, terminal, part, ready, over: false }
    }

    fn into_stream(self) -> impl Stream<Item = Result<StartResponse, RpcError>> {
        stream::unfold(self, move |mut this| async move {
            let next = this.next().await.transpose()?;
            let respond = |event| StartResponse { event: Some(ProcessEvent { event: Some(event) }) };
            Some((next.map(respond), this))
        })
    }

    async fn next(&mut self) -> Result<Option<Event>, RpcError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.over {
                return Ok(None);
            }
            match self.reader.next().await {
                Ok(Some(event)) => self.hear(event)?,
                Ok(None) => self.over = true,
                Err(error) => {
                    self.over = true;
                    return Err(error.into());
                }
            }
        }
    }

    fn hear(&mut self, event: engine::ProcessEvent) -> Result<(), RpcError> {
        match event {
            engine::ProcessEvent::Stdout { bytes, .. } if self.terminal => self.ready.extend(pieces(bytes)),
            engine::ProcessEvent::Stdout { bytes, .. } => self.ready.push_back(data(Output::Stdout(bytes))),
            engine::ProcessEvent::Stderr { bytes, .. } => self.ready.push_back(data(Output::Stderr(bytes))),
            // There is no word for it. Readers that the process waits for miss nothing.
            engine::ProcessEvent::Missed { .. } => {}
            engine::ProcessEvent::Exited(exit) => {
                self.over = true;
                self.ready.push_back(Event::End(self.ended(&exit)?));
            }
        }
        Ok(())
    }

    fn ended(&self, exit: &Exit) -> Result<crate::process::EndEvent, RpcError> {
        if self.part == Part::Starter && exit.cause == ExitCause::TimedOut {
            return Err(RpcError::new(
                Code::DeadlineExceeded,
                "the process took longer than it may, and was killed",
            ));
        }
        Ok(exit::end(exit))
    }
}

fn data(output: Output) -> Event {
    Event::Data(DataEvent { output: Some(output) })
}

fn pieces(mut bytes: Bytes) -> impl Iterator<Item = Event> {
    std::iter::from_fn(move || {
        let piece = bytes.split_to(bytes.len().min(TERMINAL_PIECE));
        (!piece.is_empty()).then(|| data(Output::Pty(piece)))
    })
}

#[cfg(test)]
mod tests {
    use warren_wire::guest::ProcessId;

    use super::*;

    #[test]
    fn what_a_terminal_says_comes_in_pieces() {
        let bytes = Bytes::from(vec![7; TERMINAL_PIECE * 2 + 1]);
        let sizes: Vec<usize> = pieces(bytes)
            .map(|event| match event {
                Event::Data(DataEvent { output: Some(Output::Pty(bytes)) }) => bytes.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sizes, [TERMINAL_PIECE, TERMINAL_PIECE, 1]);
    }

    #[test]
    fn how_a_process_ended_is_remembered_for_a_while() {
        let process = |age_ms, exit| Process {
            process: ProcessId(1),
            pid: 7,
            argv: Vec::new(),
            tag: None,
            terminal: false,
            exit,
            age_ms,
            kept_from: 0,
            kept_to: 0,
            cwd: "/".into(),
            env: Vec::new(),
        };
        let exit = Exit { code: 0, cause: ExitCause::Exited, duration_ms: 1000, output_bytes: 0 };
        assert!(!is_forgotten(&process(u64::MAX, None)));
        assert!(!is_forgotten(&process(REMEMBERED_MS + 1000, Some(exit))));
        assert!(is_forgotten(&process(REMEMBERED_MS + 1001, Some(exit))));
    }

    #[test]
    fn a_missing_directory_is_told_apart() {
        let failure = |code, errno| Failure { errno, ..Failure::new(code, "") };
        assert!(is_missing_directory(&failure(FailureCode::Invalid, Some(2))));
        assert!(is_missing_directory(&failure(FailureCode::Invalid, Some(20))));
        assert!(!is_missing_directory(&failure(FailureCode::Invalid, None)));
        assert!(!is_missing_directory(&failure(FailureCode::NotFound, Some(2))));
    }
}
