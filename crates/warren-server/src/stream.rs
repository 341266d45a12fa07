//! A process at the other end of a WebSocket.
//!
//! The client's first message says which process. From then on three things happen side by side, so
//! that none waits for another: what the process writes is told, what the client sends is heard,
//! and input is fed to the process at the pace at which it reads. Each holds a few messages at
//! most: a client that takes nothing stops the process's output in the agent, and a process that
//! reads nothing stops the client. The conversation ends with the process, with the client, when
//! either is silent for too long, when the key is revoked, or when the server shuts down.

mod ending;
mod feed;
mod pulse;

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use warren_engine::{ProcessEvent, ProcessHandle, ProcessReader, Sandbox, give_port};
use warren_face::auth::Caller;
use warren_face::error::ApiError;
use warren_wire::api::{StreamCommand, StreamMissed, StreamNotice, StreamOpening, TerminalSize};
use warren_wire::guest::{ProcessId, ProcessSelector, Reader, Stdin};

use crate::convert;
pub(crate) use ending::Ending;
use feed::Input;
pub(crate) use pulse::Pulse;

/// The subprotocol, for clients that name one.
pub(crate) const PROTOCOL: &str = "warren.v1";

/// Bytes of one message.
pub(crate) const MOST_MESSAGE: usize = 1 << 20;

/// How long the first message may take.
const OPENING: Duration = Duration::from_secs(10);

pub(crate) const PING_EVERY: Duration = Duration::from_secs(20);

/// How long a client may be silent although it is pinged.
pub(crate) const MOST_SILENCE: Duration = Duration::from_secs(60);

/// How long a client may read nothing.
pub(crate) const MOST_STALL: Duration = Duration::from_secs(60);

/// Messages of input that wait for the process to read.
const WAITING_INPUT: usize = 4;

/// Marks of the two streams, before their bytes.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;

/// One client and the process it is about to name.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) caller: Caller,
    pub(crate) sandbox: Sandbox,
}

impl Conversation {
    /// Goes on until somebody ends it.
    pub(crate) async fn hold(self, mut socket: WebSocket) {
        let ending = tokio::select! {
            biased;
            cut = self.caller.until_cut() => Ending::from(cut),
            ending = self.talk(&mut socket) => ending,
        };
        ending.say(socket).await;
    }

    async fn talk(&self, socket: &mut WebSocket) -> Ending {
        let handle = match self.open(socket).await {
            Ok(handle) => handle,
            Err(ending) => return ending,
        };
        let started = handle.started;
        let (reader, writer) = handle.split();
        let (sink, stream) = socket.split();
        let (queue, waiting) = mpsc::channel(WAITING_INPUT);
        let pulse = Pulse::default();
        tokio::select! {
            ending = tell(sink, convert::started(&started), reader, &pulse) => ending,
            ending = self.hear(stream, started.process, queue, &pulse) => ending,
            ending = feed::feed(writer, waiting) => ending,
        }
    }

    /// Takes the first message and does what it asks.
    async fn open(&self, socket: &mut WebSocket) -> Result<ProcessHandle, Ending> {
        let first = loop {
            match tokio::time::timeout(OPENING, socket.recv()).await {
                Ok(Some(Ok(Message::Text(text)))) => break text,
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                Ok(Some(Ok(Message::Binary(_)))) => {
                    return Err(Ending::misunderstood("the first message is text"));
                }
                Ok(Some(Err(error))) => return Err(Ending::broken_at_first(error)),
                Ok(Some(Ok(Message::Close(_))) | None) => return Err(Ending::Left),
                Err(_) => return Err(Ending::misunderstood("the first message did not come")),
            }
        };
        let opening = serde_json::from_str(&first)
            .map_err(|error| Ending::misunderstood(format!("the first message cannot be used: {error}")))?;
        self.begin(opening).await.map_err(Ending::Failed)
    }

    async fn begin(&self, opening: StreamOpening) -> Result<ProcessHandle, ApiError> {
        match opening {
            StreamOpening::Start(body) => {
                let port = convert::checked_port(body.port)?;
                let mut order = convert::start_order(body)?;
                order.stdin = Stdin::Piped;
                if let Some(port) = port {
                    give_port(&mut order, port);
                }
                Ok(self.sandbox.start(order).await?)
            }
            StreamOpening::Attach(attach) => {
                let process = convert::process_selector(&attach.process)?;
                Ok(self.sandbox.processes().follow(process, attach.from, Reader::Holds).await?)
            }
        }
    }

    async fn hear(
        &self,
        mut stream: impl Stream<Item = Result<Message, axum::Error>> + Unpin,
        process: ProcessId,
        queue: mpsc::Sender<Input>,
        pulse: &Pulse,
    ) -> Ending {
        loop {
            let message = match stream.next().await {
                Some(Ok(message)) => message,
                Some(Err(error)) => return Ending::broken(error),
                None => return Ending::Left,
            };
            // While a message is dealt with no other is read, and so no pong: that is not the
            // client's silence.
            let _dealing = pulse.rest();
            match message {
                Message::Close(_) => return Ending::Left,
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Binary(bytes) => drop(queue.send(Input::Bytes(bytes)).await),
                Message::Text(text) => match serde_json::from_str(&text) {
                    Ok(StreamCommand::StdinClose) => drop(queue.send(Input::End).await),
                    Ok(command) => {
                        if let Err(error) = self.command(process, command).await {
                            return Ending::Failed(error);
                        }
                    }
                    Err(error) => return Ending::misunderstood(format!("a message cannot be used: {error}")),
                },
            }
        }
    }

    /// Commands do not wait for input that the process does not read. One that comes too late is no
    /// failure.
    async fn command(&self, process: ProcessId, command: StreamCommand) -> Result<(), ApiError> {
        let (processes, process) = (self.sandbox.processes(), ProcessSelector::Id(process));
        let done = match command {
            StreamCommand::StdinClose => Ok(()),
            StreamCommand::Resize { columns, rows } => {
                let size = convert::terminal_size(TerminalSize { columns, rows }, "")?;
                processes.resize(process, size).await
            }
            StreamCommand::Signal { signal } => {
                let number = convert::signal_number(&signal)?;
                processes.signal(process, number, true).await
            }
        };
        if let Err(error) = done {
            tracing::debug!(sandbox.id = %self.sandbox.id(), %error, "a command came too late");
        }
        Ok(())
    }
}

/// Tells what the process does, and pings.
async fn tell(
    mut sink: impl Sink<Message, Error = axum::Error> + Unpin,
    started: StreamNotice,
    mut reader: ProcessReader,
    pulse: &Pulse,
) -> Ending {
    let mut pings = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut message = text(&started);
    loop {
        match tokio::time::timeout(MOST_STALL, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Ending::Left,
        }
        message = tokio::select! {
            _ = pings.tick() => {
                if pulse.silence() > MOST_SILENCE {
                    return Ending::Silent;
                }
                Message::Ping(Bytes::new())
            }
            event = reader.next() => match event {
                Ok(Some(ProcessEvent::Stdout { bytes, .. })) => output(STDOUT, &bytes),
                Ok(Some(ProcessEvent::Stderr { bytes, .. })) => output(STDERR, &bytes),
                Ok(Some(ProcessEvent::Missed { bytes, position })) => {
                    text(&StreamNotice::Missed(StreamMissed { bytes, position }))
                }
                Ok(Some(ProcessEvent::Exited(exit))) => return Ending::Exited(convert::exited(&exit)),
                Ok(None) => return Ending::Left,
                Err(error) => return Ending::Failed(error.into()),
            },
        };
    }
}

fn text(notice: &StreamNotice) -> Message {
    Message::Text(serde_json::to_string(notice).unwrap_or_default().into())
}

fn output(mark: u8, bytes: &Bytes) -> Message {
    let mut message = BytesMut::with_capacity(1 + bytes.len());
    message.put_u8(mark);
    message.extend_from_slice(bytes);
    Message::Binary(message.freeze())
}
