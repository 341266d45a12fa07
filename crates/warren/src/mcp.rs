//! The Model Context Protocol over standard input and output: each message of the client becomes a
//! request to a server, and the answers are passed back as they come.
//!
//! Nothing is kept here but which requests are open, so a server that is started again is found
//! again by the next message. The reader of standard input never waits for an answer: each open
//! request has a thread.

mod message;
pub(crate) mod print;

use std::collections::HashMap;
use std::io::{self, BufRead, Read as _, Write as _};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::{Value, json};
use warren_wire::client::{Client, ClientError, Connection, Exchange};

use self::message::{Kind, Message};
use crate::error::CliError;
use crate::global::Global;
use crate::server::Place;

/// A message is never longer: no server takes a longer one.
const LONGEST_MESSAGE: u64 = 16 << 20;
/// Requests that are open at once.
const MOST_OPEN: usize = 64;

/// Errors of the protocol.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const SERVER_ERROR: i32 = -32000;

/// Passes messages on until the client has no more.
pub(crate) struct Pump {
    global: Global,
    path: String,
    client: Mutex<Client>,
    /// Open requests by their ids, written as JSON.
    open: Mutex<HashMap<String, Connection>>,
    /// The version that a handshake agreed on.
    version: Mutex<Option<String>>,
    out: Mutex<io::Stdout>,
}

impl Pump {
    pub(crate) fn new(global: &Global, client: Client, path: String) -> Arc<Self> {
        Arc::new(Self {
            global: global.clone(),
            path,
            client: Mutex::new(client),
            open: Mutex::default(),
            version: Mutex::default(),
            out: Mutex::new(io::stdout()),
        })
    }

    /// Reads to the end of standard input. What is open then is taken back.
    pub(crate) fn run(self: &Arc<Self>) -> Result<(), CliError> {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            (&mut input).take(LONGEST_MESSAGE).read_until(b'\n', &mut line).map_err(CliError::new)?;
            if line.is_empty() {
                break;
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match Message::read(&line) {
                Ok(message) => self.take(message),
                Err(_) => self.fail(&Value::Null, PARSE_ERROR, "this is no message of JSON-RPC 2.0"),
            }
        }
        self.open.lock().drain().for_each(|(_, connection)| connection.close());
        Ok(())
    }

    fn take(self: &Arc<Self>, message: Message) {
        match &message.kind {
            Kind::Request { id } => {
                let key = id.to_string();
                if self.open.lock().contains_key(&key) {
                    return self.fail(id, INVALID_REQUEST, "a request of this id is open");
                }
                if self.open.lock().len() >= MOST_OPEN {
                    return self.fail(id, SERVER_ERROR, "too many requests are open");
                }
                let (pump, id) = (Arc::clone(self), id.clone());
                thread::spawn(move || {
                    if let Err(error) = pump.pass_on(&message, &key) {
                        pump.fail(&id, SERVER_ERROR, &error.chain());
                    }
                    pump.open.lock().remove(&key);
                });
            }
            Kind::Cancel { id } => {
                if let Some(connection) = self.open.lock().remove(&id.to_string()) {
                    connection.close();
                }
            }
            // The server remembers nothing that they could change.
            Kind::Other => {}
        }
    }

    fn pass_on(&self, message: &Message, key: &str) -> Result<(), CliError> {
        let (client, connection) = self.dial()?;
        self.open.lock().insert(key.to_owned(), connection.clone());
        let sent = message.for_server(&self.path, self.version.lock().as_deref());
        let passed = match client.send_mcp(connection, &sent) {
            Ok(answer) => self.answer(message, answer),
            Err(ClientError::Read(_)) => Err(lost()),
            Err(error) => Err(error.into()),
        };
        // A request that was taken back is not answered.
        if self.open.lock().contains_key(key) { passed } else { Ok(()) }
    }

    /// A server may have been started anew, elsewhere.
    fn dial(&self) -> Result<(Client, Connection), CliError> {
        let client = self.client.lock().clone();
        let failed = match client.dial_mcp() {
            Ok(connection) => return Ok((client, connection)),
            Err(error) => CliError::from(error),
        };
        let Ok(Place::Server(client)) = self.global.place() else { return Err(failed) };
        let connection = client.dial_mcp()?;
        *self.client.lock() = client.clone();
        Ok((client, connection))
    }

    fn answer(&self, message: &Message, mut answer: Exchange) -> Result<(), CliError> {
        let mut answered = false;
        // A stream that breaks off is one that has ended too early.
        while let Some(bytes) = answer.next_message().unwrap_or_default() {
            let Some(reply) = message::reply(&bytes) else {
                return Err(message::refusal(answer.status, &bytes));
            };
            answered |= reply.get("method").is_none();
            if message.is_handshake() {
                *self.version.lock() = message::agreed_version(&reply);
            }
            self.say(&reply)?;
        }
        if answered { Ok(()) } else { Err(lost()) }
    }

    fn fail(&self, id: &Value, code: i32, why: &str) {
        let told = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": why } });
        // A client that does not listen any more is told nothing.
        self.say(&told).ok();
    }

    fn say(&self, message: &Value) -> Result<(), CliError> {
        let line = format!("{message}\n");
        let mut out = self.out.lock();
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(CliError::new)
    }
}

fn lost() -> CliError {
    CliError::new("the server went away before it answered; `history` tells whether the call was made")
}
