use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::client::ClientHandshake;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Message, WebSocket};

use super::{Client, ClientError, Connection, quoted};
use crate::api::{StreamCommand, StreamNotice, StreamOpening};

/// Both sides cut what they send into messages no longer than this.
const CHUNK: usize = 128 * 1024;

/// A process at the other end of a WebSocket. Dropping it lets the process run on.
#[derive(Debug)]
pub struct ProcessStream {
    reader: ProcessReader,
    writer: ProcessWriter,
}

/// The half that sees what the process does.
#[derive(Debug)]
pub struct ProcessReader {
    socket: WebSocket<Connection>,
}

/// The half that tells the process what to do. Clones write to the same process, whole messages at
/// a time.
#[derive(Debug, Clone)]
pub struct ProcessWriter {
    socket: Arc<Mutex<WebSocket<Connection>>>,
}

/// A message from the process, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Notice(StreamNotice),
}

impl Client {
    /// Starts a process, or joins one that runs.
    pub fn stream(&self, sandbox: &str, opening: &StreamOpening) -> Result<ProcessStream, ClientError> {
        let failed = |source| ClientError::Stream { address: self.base.clone(), source: Box::new(source) };
        let side = self.dial()?;
        // The connection is made already: only the path and the name count.
        let address = format!("ws://{}/v1/sandboxes/{}/stream", self.authority(), quoted(sandbox));
        let mut request = address.into_client_request().map_err(failed)?;
        let headers = request.headers_mut();
        if !self.key.is_empty() {
            let bearer = format!("Bearer {}", self.key);
            headers.insert("authorization", HeaderValue::from_str(&bearer).map_err(|_| ClientError::Key)?);
        }
        headers.insert("sec-websocket-protocol", HeaderValue::from_static("warren.v1"));
        let config = WebSocketConfig::default().max_message_size(Some(4 << 20));
        let (socket, _) = tungstenite::client::client_with_config(request, side.clone(), Some(config))
            .map_err(|error| refused(error, &self.base))?;
        let writer = WebSocket::from_raw_socket(side, Role::Client, Some(config));
        let writer = ProcessWriter { socket: Arc::new(Mutex::new(writer)) };
        writer.text(opening)?;
        Ok(ProcessStream { reader: ProcessReader { socket }, writer })
    }
}

impl ProcessStream {
    pub fn split(self) -> (ProcessReader, ProcessWriter) {
        (self.reader, self.writer)
    }
}

impl ProcessReader {
    /// The next message; `None` when the server has said all.
    pub fn next_seen(&mut self) -> Result<Option<Seen>, ClientError> {
        loop {
            let message = match self.socket.read() {
                Ok(message) => message,
                Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                    return Ok(None);
                }
                Err(tungstenite::Error::Io(error)) => return Err(ClientError::Read(error)),
                Err(_) => return Err(ClientError::Ended),
            };
            match message {
                Message::Text(text) => {
                    return serde_json::from_str(&text)
                        .map(|notice| Some(Seen::Notice(notice)))
                        .map_err(ClientError::Decode);
                }
                Message::Binary(bytes) => match bytes.split_first() {
                    Some((1, rest)) => return Ok(Some(Seen::Stdout(rest.to_vec()))),
                    Some((2, rest)) => return Ok(Some(Seen::Stderr(rest.to_vec()))),
                    _ => {}
                },
                Message::Close(_) => return Ok(None),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

impl ProcessWriter {
    /// Bytes for the process's standard input.
    pub fn send_data(&self, bytes: &[u8]) -> Result<(), ClientError> {
        bytes.chunks(CHUNK).try_for_each(|chunk| self.send(Message::Binary(chunk.to_vec().into())))
    }

    pub fn send_command(&self, command: &StreamCommand) -> Result<(), ClientError> {
        self.text(command)
    }

    fn text(&self, value: &impl serde::Serialize) -> Result<(), ClientError> {
        let text = serde_json::to_string(value).map_err(ClientError::Encode)?;
        self.send(Message::Text(text.into()))
    }

    fn send(&self, message: Message) -> Result<(), ClientError> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.send(message).map_err(|error| match error {
            tungstenite::Error::Io(error) => ClientError::Write(error),
            _ => ClientError::Ended,
        })
    }
}

/// A refused handshake carries the same problem as any other refusal.
fn refused(error: HandshakeError<ClientHandshake<Connection>>, address: &str) -> ClientError {
    let source = match error {
        HandshakeError::Failure(tungstenite::Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            return match serde_json::from_slice(body) {
                Ok(problem) => ClientError::Refused(problem),
                Err(_) => ClientError::Unexpected {
                    status: response.status().as_u16(),
                    text: String::from_utf8_lossy(body).chars().take(300).collect(),
                },
            };
        }
        HandshakeError::Failure(error) => error,
        HandshakeError::Interrupted(_) => io::Error::from(io::ErrorKind::WouldBlock).into(),
    };
    ClientError::Stream { address: address.to_owned(), source: Box::new(source) }
}
