use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warren_wire::guest::{
    CallSender, Connection, Control, FrameKind, Reader, Reply, Request, Start, Stdin, TerminalSize,
    parse_reply,
};

use super::terminal::terminal_size;
use super::{Inbound, Outbound, Outcome, Seen, Streams, has_terminal, relay};
use crate::error::CliError;
use crate::time::milliseconds;

/// A start of this command with standard input open. [`follow`] adds the terminal.
pub(crate) fn start_of(command: &[String], timeout: Option<Duration>) -> Start {
    Start {
        argv: command.iter().map(|word| word.as_str().into()).collect(),
        stdin: Stdin::Piped,
        timeout_ms: timeout.map(milliseconds),
        follow: Some(Reader::Holds),
        ..Start::default()
    }
}

/// Starts the command on a new connection to the agent and relays until it ends.
pub(crate) fn follow(stream: UnixStream, start: &mut Start, streams: Streams) -> Result<Outcome, CliError> {
    let on_terminal = has_terminal(streams);
    if on_terminal {
        start.terminal = Some(terminal_size());
        start.env.extend(std::env::var("TERM").ok().map(|term| format!("TERM={term}").into()));
    }
    let sender = CallSender::new(stream.try_clone().map_err(CliError::new)?);
    let mut call = Connection::open(stream, &Request::Start(start.clone()))?;
    match call.reply()? {
        Reply::Started(_) => {}
        _ => return Err(CliError::new("the agent answered a start with something else")),
    }
    relay(Some(Arc::new(Mutex::new(sender))), &mut call, streams, on_terminal)
}

impl Outbound for CallSender<UnixStream> {
    fn data(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        Ok(self.send_data(bytes)?)
    }

    fn end(&mut self) -> Result<(), CliError> {
        Ok(self.send_end()?)
    }

    fn resize(&mut self, size: TerminalSize) -> Result<(), CliError> {
        Ok(self.send_control(&Control::Resize(size))?)
    }

    fn signal(&mut self, signal: i32) -> Result<(), CliError> {
        Ok(self.send_control(&Control::Signal { signal })?)
    }
}

impl Inbound for Connection<UnixStream> {
    fn next_seen(&mut self) -> Result<Seen, CliError> {
        loop {
            let frame = match self.next_frame() {
                Ok(Some(frame)) => frame,
                // The sandbox was ended from outside, or its agent was killed.
                Ok(None) | Err(_) => return Ok(Seen::Ended),
            };
            match frame.kind {
                FrameKind::Stdout => return Ok(Seen::Stdout(frame.payload)),
                FrameKind::Stderr => return Ok(Seen::Stderr(frame.payload)),
                FrameKind::Message => match parse_reply(&frame.payload)? {
                    Reply::Exited(exit) => return Ok(Seen::Exited(exit)),
                    Reply::Missed { .. } => return Ok(Seen::Missed),
                    _ => {}
                },
                FrameKind::Data | FrameKind::End => {}
            }
        }
    }
}
