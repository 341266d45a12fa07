use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warren_core::ErrorCode;
use warren_wire::api::{
    Command, ExitCause as WireCause, ProcessExit, Signal, StartProcess, StreamAttach, StreamCommand,
    StreamNotice, StreamOpening,
};
use warren_wire::client::{Client, ClientError, ProcessReader, ProcessWriter, Seen as ClientSeen};
use warren_wire::guest::{CallError, Exit, ExitCause, Failure, MOST_COMMAND_BYTES, TerminalSize};

use super::terminal::terminal_size;
use super::{Inbound, Outbound, Outcome, Seen, Streams, has_terminal, relay};
use crate::error::CliError;
use crate::ui;

/// The wait for a lost server. Its sandboxes and their processes run on meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// Starts the command through the server and relays until it ends. A broken connection is made
/// again and goes on where it was.
pub(crate) fn follow_service(
    client: &Client,
    sandbox: &str,
    mut start: StartProcess,
    streams: Streams,
) -> Result<Outcome, CliError> {
    let on_terminal = has_terminal(streams);
    if on_terminal {
        let size = terminal_size();
        start.terminal = Some(warren_wire::api::TerminalSize { columns: size.columns, rows: size.rows });
        start.env.extend(std::env::var("TERM").ok().map(|term| ("TERM".to_owned(), term)));
    }
    start.stdin_open = true;
    let mut follower = Follower::start(client, sandbox, start)?;
    let input = Input { line: Arc::clone(&follower.line) };
    relay(Some(Arc::new(Mutex::new(input))), &mut follower, streams, on_terminal)
}

/// A server closes the stream on a message that it does not take, and cannot say why.
fn check_size(start: &StartProcess) -> Result<(), CliError> {
    let words: usize = match &start.command {
        Command::Shell(line) => line.len(),
        Command::Words(words) => words.iter().map(String::len).sum(),
    };
    let variables: usize = start.env.iter().map(|(name, value)| name.len() + value.len()).sum();
    let bytes = words + variables;
    if bytes > MOST_COMMAND_BYTES {
        return Err(CallError::Failed(Failure::too_large(bytes, MOST_COMMAND_BYTES)).into());
    }
    Ok(())
}

/// Starts a command without input through the server and passes its output on until it ends.
pub(crate) fn watch_service(
    client: &Client,
    sandbox: &str,
    start: StartProcess,
) -> Result<Outcome, CliError> {
    let mut follower = Follower::start(client, sandbox, start)?;
    // Over a stream a command's input is always open at first.
    follower.line.send(|writer| writer.send_command(&StreamCommand::StdinClose))?;
    relay(None, &mut follower, Streams::PassThrough, false)
}

/// The writing half of the connection that there is now, if there is one.
struct Line {
    writer: Mutex<Option<ProcessWriter>>,
    changed: Condvar,
}

impl Line {
    fn set(&self, writer: Option<ProcessWriter>) {
        *self.writer.lock() = writer;
        self.changed.notify_all();
    }

    /// Sends on the present connection, and on the next one if this one is lost.
    fn send(&self, send: impl Fn(&ProcessWriter) -> Result<(), ClientError>) -> Result<(), CliError> {
        let until = Instant::now() + PATIENCE;
        let mut writer = self.writer.lock();
        loop {
            if let Some(there) = writer.as_ref()
                && send(there).is_ok()
            {
                return Ok(());
            }
            *writer = None;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CliError::new(ClientError::Ended));
            }
            self.changed.wait_for(&mut writer, left);
        }
    }
}

/// The input of this process's user.
struct Input {
    line: Arc<Line>,
}

impl Outbound for Input {
    fn data(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.line.send(|writer| writer.send_data(bytes))
    }

    fn end(&mut self) -> Result<(), CliError> {
        self.line.send(|writer| writer.send_command(&StreamCommand::StdinClose))
    }

    fn resize(&mut self, size: TerminalSize) -> Result<(), CliError> {
        let command = StreamCommand::Resize { columns: size.columns, rows: size.rows };
        self.line.send(|writer| writer.send_command(&command))
    }

    fn signal(&mut self, signal: i32) -> Result<(), CliError> {
        let command = StreamCommand::Signal { signal: Signal::Number(signal) };
        self.line.send(|writer| writer.send_command(&command))
    }
}

/// Receives from the process, over as many connections as it takes.
struct Follower<'a> {
    client: &'a Client,
    sandbox: &'a str,
    reader: ProcessReader,
    line: Arc<Line>,
    /// Known once the server has said that it started.
    process: Option<u64>,
    /// The position after the last byte that was received.
    position: u64,
}

impl Inbound for Follower<'_> {
    fn next_seen(&mut self) -> Result<Seen, CliError> {
        loop {
            let seen = match self.reader.next_seen() {
                Ok(Some(seen)) => seen,
                Ok(None) | Err(ClientError::Read(_) | ClientError::Ended) => {
                    self.come_back()?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match seen {
                ClientSeen::Stdout(bytes) => {
                    self.position += bytes.len() as u64;
                    return Ok(Seen::Stdout(bytes));
                }
                ClientSeen::Stderr(bytes) => {
                    self.position += bytes.len() as u64;
                    return Ok(Seen::Stderr(bytes));
                }
                ClientSeen::Notice(notice) => {
                    if let Some(seen) = self.noticed(notice)? {
                        return Ok(seen);
                    }
                }
            }
        }
    }
}

impl<'a> Follower<'a> {
    fn start(client: &'a Client, sandbox: &'a str, start: StartProcess) -> Result<Self, CliError> {
        check_size(&start)?;
        let (reader, writer) = client.stream(sandbox, &StreamOpening::Start(start))?.split();
        let line = Arc::new(Line { writer: Mutex::new(Some(writer)), changed: Condvar::new() });
        Ok(Self { client, sandbox, reader, line, process: None, position: 0 })
    }

    /// Takes note of the server's notice, and answers it if the command's user is to see it.
    fn noticed(&mut self, notice: StreamNotice) -> Result<Option<Seen>, CliError> {
        match notice {
            StreamNotice::Started(started) => {
                self.process = Some(started.process_id);
                self.position = started.position;
                Ok(None)
            }
            StreamNotice::Missed(missed) => {
                self.position = missed.position;
                Ok(Some(Seen::Missed))
            }
            StreamNotice::Exited(ProcessExit { exit_code, cause, signal, duration_ms }) => {
                let cause = match cause {
                    WireCause::Exited => ExitCause::Exited,
                    WireCause::Signalled => ExitCause::Signalled { signal: signal.unwrap_or(0) },
                    WireCause::TimedOut => ExitCause::TimedOut,
                };
                let exit = Exit { code: exit_code, cause, duration_ms, output_bytes: self.position };
                Ok(Some(Seen::Exited(exit)))
            }
            StreamNotice::Error(error) if error.code == ErrorCode::SandboxEnded.as_str() => {
                ui::complain(&error.detail);
                Ok(Some(Seen::Ended))
            }
            // The server is ending: the next one is asked.
            StreamNotice::Error(error)
                if error.code == ErrorCode::ShuttingDown.as_str() && self.process.is_some() =>
            {
                Ok(None)
            }
            StreamNotice::Error(error) => Err(CliError::from_problem(&error.code, error.detail)),
        }
    }

    /// Dials again and joins the process where the last connection left it.
    fn come_back(&mut self) -> Result<(), CliError> {
        let Some(process) = self.process else { return Err(CliError::new(ClientError::Ended)) };
        self.line.set(None);
        let attach = StreamAttach { process: process.to_string(), from: self.position };
        let until = Instant::now() + PATIENCE;
        loop {
            std::thread::sleep(BETWEEN_TRIES);
            match self.client.stream(self.sandbox, &StreamOpening::Attach(attach.clone())) {
                Ok(stream) => {
                    let (reader, writer) = stream.split();
                    self.reader = reader;
                    self.line.set(Some(writer));
                    return Ok(());
                }
                Err(error @ ClientError::Refused(_)) if !is_passing(&error) => return Err(error.into()),
                Err(error) if Instant::now() >= until => return Err(error.into()),
                Err(_) => {}
            }
        }
    }
}

/// Tells whether a refusal may pass: a server that starts or ends refuses for a moment.
fn is_passing(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem) if problem.status >= 500)
}
