//! Between this process's standard streams and a command in a sandbox, whether the way there is a
//! socket of the agent or a stream of the server.

mod agent;
mod service;
mod terminal;

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use warren_wire::guest::{CHUNK, Exit, ExitCause, TerminalSize};

pub(crate) use agent::{follow, start_of};
pub(crate) use service::{follow_service, watch_service};

use self::terminal::{RawTerminal, terminal_size};
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

/// The way to a command: what it is told.
trait Outbound: Send {
    fn data(&mut self, bytes: &[u8]) -> Result<(), CliError>;
    fn end(&mut self) -> Result<(), CliError>;
    fn resize(&mut self, size: TerminalSize) -> Result<(), CliError>;
    fn signal(&mut self, signal: i32) -> Result<(), CliError>;
}

/// The way from a command: what is seen of it. `None` when the sandbox ended first.
trait Inbound {
    fn next_seen(&mut self) -> Result<Option<Seen>, CliError>;
}

/// What comes from a command, in order.
enum Seen {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Missed,
    Exited(Exit),
}

type Sender = Arc<Mutex<dyn Outbound>>;

/// Whether the command gets a terminal: if this process has one at both ends.
fn has_terminal(streams: Streams) -> bool {
    streams == Streams::PassThrough && io::stdin().is_terminal() && io::stdout().is_terminal()
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
        forward_signals(&sender, on_terminal)?;
        forward_input(&sender);
    }
    let outcome = relay_output(inbound, streams);
    drop(raw);
    outcome
}

fn relay_output(inbound: &mut dyn Inbound, streams: Streams) -> Result<Outcome, CliError> {
    let mut outcome = Outcome::default();
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    while let Some(seen) = inbound.next_seen()? {
        match (seen, streams) {
            (Seen::Stdout(bytes), Streams::PassThrough) => pass(&mut stdout, &bytes)?,
            (Seen::Stderr(bytes), Streams::PassThrough) => pass(&mut stderr, &bytes)?,
            (Seen::Stdout(bytes), Streams::Captured) => {
                outcome.truncated |= keep(&mut outcome.stdout, &bytes)
            }
            (Seen::Stderr(bytes), Streams::Captured) => {
                outcome.truncated |= keep(&mut outcome.stderr, &bytes)
            }
            (Seen::Missed, _) => outcome.truncated = true,
            (Seen::Exited(exit), _) => {
                outcome.exit = Some(exit);
                return Ok(outcome);
            }
        }
    }
    Ok(outcome)
}

/// Whoever reads our output has gone away: the command is ended with us, like any program in a
/// pipe.
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
                    drop(lock(&sender).end());
                    return;
                }
                Ok(count) => lock(&sender).data(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(_) => return,
            };
            if sent.is_err() {
                return;
            }
        }
    });
}

/// On a terminal the keys do it; elsewhere the signals that ask a program to end are passed on to
/// the command.
fn forward_signals(sender: &Sender, on_terminal: bool) -> Result<(), CliError> {
    let sender = Arc::clone(sender);
    let watched =
        if on_terminal { vec![SIGWINCH, SIGTERM, SIGHUP] } else { vec![SIGINT, SIGTERM, SIGHUP, SIGQUIT] };
    let mut signals = Signals::new(watched).map_err(CliError::new)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let sent = match signal {
                SIGWINCH => lock(&sender).resize(terminal_size()),
                signal => lock(&sender).signal(signal),
            };
            if sent.is_err() {
                return;
            }
        }
    });
    Ok(())
}

fn lock(sender: &Sender) -> MutexGuard<'_, dyn Outbound + 'static> {
    sender.lock()
}
