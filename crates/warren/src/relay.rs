//! Between this process's standard streams and a command in a sandbox.

use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use warren_wire::guest::{
    CHUNK, CallSender, Connection, Control, Exit, ExitCause, FrameKind, Reader, Reply, Request, Start, Stdin,
    TerminalSize, parse_reply,
};

use crate::error::CliError;

/// What becomes of the command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// To this process's own, byte by byte.
    PassThrough,
    /// Kept, up to a bound.
    Captured,
}

/// How the command went.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Absent if the sandbox ended first.
    pub(crate) exit: Option<Exit>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) truncated: bool,
}

/// The command's time limit ended it.
const TIMED_OUT: i32 = 124;
/// The command was killed, or the sandbox with it.
const KILLED: i32 = 137;

impl Outcome {
    pub(crate) fn exit_code(&self) -> i32 {
        match self.exit {
            Some(Exit { cause: ExitCause::TimedOut, .. }) => TIMED_OUT,
            Some(exit) => exit.code,
            None => KILLED,
        }
    }
}

/// Most that is kept of each captured stream.
const MOST_CAPTURED: usize = 16 << 20;

type Sender = Arc<Mutex<CallSender<UnixStream>>>;

/// A start of this command with standard input open, not yet fitted to the terminal.
pub(crate) fn start_of(command: &[String], timeout: Option<Duration>) -> Start {
    Start {
        argv: command.iter().map(|word| word.as_str().into()).collect(),
        stdin: Stdin::Piped,
        timeout_ms: timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        follow: Some(Reader::Holds),
        ..Start::default()
    }
}

/// Starts the command on a freshly dialled stream and relays until it ends.
pub(crate) fn follow(stream: UnixStream, start: &mut Start, streams: Streams) -> Result<Outcome, CliError> {
    let on_terminal =
        streams == Streams::PassThrough && io::stdin().is_terminal() && io::stdout().is_terminal();
    if on_terminal {
        start.terminal = Some(terminal_size());
        start.env.extend(std::env::var("TERM").ok().map(|term| format!("TERM={term}").into()));
    }
    let sender = stream.try_clone().map_err(CliError::new)?;
    let mut call = Connection::open(stream, &Request::Start(start.clone()))?;
    match call.reply()? {
        Reply::Started(_) => {}
        _ => return Err(CliError::new("the agent answered a start with something else")),
    }
    let sender: Sender = Arc::new(Mutex::new(CallSender::new(sender)));
    let raw = on_terminal.then(RawTerminal::enter).flatten();
    forward_signals(&sender, on_terminal)?;
    forward_input(&sender);
    let outcome = relay_output(&mut call, streams);
    drop(raw);
    outcome
}

fn relay_output(call: &mut Connection<UnixStream>, streams: Streams) -> Result<Outcome, CliError> {
    let mut outcome = Outcome::default();
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    loop {
        let frame = match call.next_frame() {
            Ok(Some(frame)) => frame,
            // The sandbox was ended from outside, or its agent was killed.
            Ok(None) | Err(_) => return Ok(outcome),
        };
        match (frame.kind, streams) {
            (FrameKind::Stdout, Streams::PassThrough) => pass(&mut stdout, &frame.payload)?,
            (FrameKind::Stderr, Streams::PassThrough) => pass(&mut stderr, &frame.payload)?,
            (FrameKind::Stdout, Streams::Captured) => {
                outcome.truncated |= keep(&mut outcome.stdout, &frame.payload)
            }
            (FrameKind::Stderr, Streams::Captured) => {
                outcome.truncated |= keep(&mut outcome.stderr, &frame.payload)
            }
            (FrameKind::Message, _) => match parse_reply(&frame.payload)? {
                Reply::Exited(exit) => {
                    outcome.exit = Some(exit);
                    return Ok(outcome);
                }
                Reply::Missed { .. } => outcome.truncated = true,
                _ => {}
            },
            (FrameKind::Data | FrameKind::End, _) => {}
        }
    }
}

/// Whoever reads our output has gone away: the command is ended with us, like any program in a pipe.
fn pass(stream: &mut impl Write, bytes: &[u8]) -> Result<(), CliError> {
    stream.write_all(bytes).and_then(|()| stream.flush()).map_err(CliError::output)
}

/// Says whether something had to be left out.
fn keep(kept: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let room = MOST_CAPTURED.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    bytes.len() > room
}

/// A thread of its own, never joined: it may sit in a read that no one will answer.
fn forward_input(sender: &Sender) {
    let sender = Arc::clone(sender);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            let sent = match io::stdin().read(&mut buffer) {
                Ok(0) => {
                    drop(lock(&sender).send_end());
                    return;
                }
                Ok(count) => lock(&sender).send_data(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(_) => return,
            };
            if sent.is_err() {
                return;
            }
        }
    });
}

/// On a terminal the keys do it; elsewhere the signals that ask a program to end are passed on to the command.
fn forward_signals(sender: &Sender, on_terminal: bool) -> Result<(), CliError> {
    let sender = Arc::clone(sender);
    let watched =
        if on_terminal { vec![SIGWINCH, SIGTERM, SIGHUP] } else { vec![SIGINT, SIGTERM, SIGHUP, SIGQUIT] };
    let mut signals = Signals::new(watched).map_err(CliError::new)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let control = match signal {
                SIGWINCH => Control::Resize(terminal_size()),
                signal => Control::Signal { signal },
            };
            if lock(&sender).send_control(&control).is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn lock(sender: &Sender) -> std::sync::MutexGuard<'_, CallSender<UnixStream>> {
    sender.lock().unwrap_or_else(PoisonError::into_inner)
}

fn terminal_size() -> TerminalSize {
    let size =
        rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(TerminalSize { columns: 80, rows: 24 }, |size| TerminalSize {
        columns: size.ws_col,
        rows: size.ws_row,
    })
}

/// The terminal passes every key to the sandbox's terminal until this is dropped.
struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    fn enter() -> Option<Self> {
        let before = rustix::termios::tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
