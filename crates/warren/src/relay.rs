//! Carries bytes and signals between this process and a command in a sandbox, over a socket of the
//! agent or a stream of the server.

mod agent;
mod service;
mod terminal;

use std::io::{self, IsTerminal, Read};
use std::sync::Arc;

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use warren_wire::guest::{CHUNK, Exit, ExitCause, TerminalSize};

pub(crate) use agent::{follow, start_of};
pub(crate) use service::{follow_service, watch_service};
pub(crate) use terminal::TerminalFlags;

use self::terminal::{RawTerminal, terminal_size};
use crate::error::CliError;
use crate::exit::{KILLED, TIMED_OUT};
use crate::ui;

/// Where the command's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// To this process's own streams, byte by byte.
    PassThrough,
    /// The same, and the command gets a terminal even where this process has none.
    Terminal,
    /// Into memory, up to a bound.
    Captured,
}

/// The end of a command, and its output if that was captured.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Absent if the sandbox ended first.
    pub(crate) exit: Option<Exit>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) truncated: bool,
}

impl Outcome {
    pub(crate) fn exit_code(&self) -> i32 {
        match self.exit {
            Some(Exit { cause: ExitCause::TimedOut, .. }) => TIMED_OUT.into(),
            Some(exit) => exit.code,
            None => KILLED.into(),
        }
    }
}

/// The bytes that are kept of each captured stream.
const MOST_CAPTURED: usize = 16 << 20;

/// Sends input and signals to a command.
trait Outbound: Send {
    fn data(&mut self, bytes: &[u8]) -> Result<(), CliError>;
    fn end(&mut self) -> Result<(), CliError>;
    fn resize(&mut self, size: TerminalSize) -> Result<(), CliError>;
    fn signal(&mut self, signal: i32) -> Result<(), CliError>;
}

/// Receives from a command.
trait Inbound {
    fn next_seen(&mut self) -> Result<Seen, CliError>;
}

/// A piece of output, or the end.
enum Seen {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Missed,
    Exited(Exit),
    /// The sandbox ended before the command.
    Ended,
}

type Sender = Arc<Mutex<dyn Outbound>>;

/// Tells whether the command gets a terminal: if this process has one for input and output, or if
/// it was asked for.
fn has_terminal(streams: Streams) -> bool {
    match streams {
        Streams::PassThrough => io::stdin().is_terminal() && io::stdout().is_terminal(),
        Streams::Terminal => true,
        Streams::Captured => false,
    }
}

/// Relays until the command ends. Without `sender` the command has no input and gets no signals.
fn relay(
    sender: Option<Sender>,
    inbound: &mut dyn Inbound,
    streams: Streams,
    on_terminal: bool,
) -> Result<Outcome, CliError> {
    let raw = on_terminal.then(RawTerminal::enter).flatten();
    if let Some(sender) = sender {
        forward_signals(&sender, raw.is_some())?;
        forward_input(&sender);
    }
    let outcome = relay_output(inbound, streams);
    drop(raw);
    outcome
}

fn relay_output(inbound: &mut dyn Inbound, streams: Streams) -> Result<Outcome, CliError> {
    let mut outcome = Outcome::default();
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    loop {
        match (inbound.next_seen()?, streams) {
            (Seen::Stdout(bytes), Streams::Captured) => {
                outcome.truncated |= keep(&mut outcome.stdout, &bytes)
            }
            (Seen::Stderr(bytes), Streams::Captured) => {
                outcome.truncated |= keep(&mut outcome.stderr, &bytes)
            }
            (Seen::Stdout(bytes), _) => ui::write(&mut stdout, &bytes)?,
            (Seen::Stderr(bytes), _) => ui::write(&mut stderr, &bytes)?,
            (Seen::Missed, _) => outcome.truncated = true,
            (Seen::Exited(exit), _) => return Ok(Outcome { exit: Some(exit), ..outcome }),
            (Seen::Ended, _) => return Ok(outcome),
        }
    }
}

/// Keeps bytes as long as there is room, and tells whether some were left out.
fn keep(kept: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let room = MOST_CAPTURED.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    bytes.len() > room
}

/// Sends standard input on from a thread that is never joined: its read may last for ever.
fn forward_input(sender: &Sender) {
    let sender = Arc::clone(sender);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            let sent = match io::stdin().read(&mut buffer) {
                Ok(0) => {
                    drop(sender.lock().end());
                    return;
                }
                Ok(count) => sender.lock().data(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(_) => return,
            };
            if sent.is_err() {
                return;
            }
        }
    });
}

/// Passes signals that ask a program to end on to the command. On a terminal its keys do that.
fn forward_signals(sender: &Sender, on_terminal: bool) -> Result<(), CliError> {
    let sender = Arc::clone(sender);
    let watched =
        if on_terminal { vec![SIGWINCH, SIGTERM, SIGHUP] } else { vec![SIGINT, SIGTERM, SIGHUP, SIGQUIT] };
    let mut signals = Signals::new(watched).map_err(CliError::new)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let sent = match signal {
                SIGWINCH => sender.lock().resize(terminal_size()),
                signal => sender.lock().signal(signal),
            };
            if sent.is_err() {
                return;
            }
        }
    });
    Ok(())
}
