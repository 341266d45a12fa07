//! A client of one sandbox: its requests, and how it reads streams.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use warren_e2b::rpc::{Codec, Envelope, Envelopes, Message, write_envelope};

use crate::support::{Answer, Call, TestServer};

/// A server with one sandbox, and what opens it.
pub(crate) struct Sandbox {
    pub(crate) server: TestServer,
    pub(crate) id: String,
    pub(crate) token: String,
}

impl Sandbox {
    pub(crate) fn make() -> Self {
        Self::on(TestServer::start())
    }

    pub(crate) fn on(server: TestServer) -> Self {
        let call = server.stranger("POST", "/e2b/v2/sandboxes").header("X-API-KEY", &server.admin);
        let made = call.json(&json!({"templateID": "base", "timeout": 300})).pass().expect(201).json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let (id, token) = (text("sandboxID"), text("envdAccessToken"));
        Self { server, id, token }
    }

    /// A request to the sandbox, without its token.
    pub(crate) fn stranger(&self, method: &str, path: &str) -> Call {
        let call = self.server.stranger(method, path);
        call.header("E2b-Sandbox-Id", &self.id).header("E2b-Sandbox-Port", "49983")
    }

    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        self.stranger(method, path).header("X-Access-Token", &self.token)
    }

    /// A plain call of the process service.
    pub(crate) fn ask(&self, method: &str, body: &Value) -> Answer {
        self.call("POST", &format!("/process.Process/{method}")).json(body).pass()
    }

    /// A stream of the process service, before it is sent.
    pub(crate) fn streaming(&self, method: &str) -> Call {
        let call = self.call("POST", &format!("/process.Process/{method}"));
        call.header("Content-Type", "application/connect+json")
    }

    /// A stream of the process service.
    pub(crate) fn open(&self, method: &str, body: &Value) -> Row {
        Row::of(&self.streaming(method).body(envelope(body)))
    }

    /// Starts a program of the fake sandbox.
    pub(crate) fn start(&self, words: &[&str]) -> Row {
        self.open("Start", &json!({"process": {"cmd": words[0], "args": words[1..]}}))
    }

    /// Ends it as its owner does.
    pub(crate) fn kill(&self) {
        let call = self.server.stranger("DELETE", &format!("/e2b/sandboxes/{}", self.id));
        call.header("X-API-KEY", &self.server.admin).pass().expect(204);
    }
}

/// One message of a stream, in JSON.
pub(crate) fn envelope(body: &Value) -> Vec<u8> {
    let payload = body.to_string();
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0][..], &size, payload.as_bytes()].concat()
}

/// The same in the other encoding.
pub(crate) fn binary_envelope<M: Message>(message: &M) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    write_envelope(Codec::Binary, message, &mut bytes);
    bytes.to_vec()
}

/// The next item of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    Message(Value),
    /// Said at the end.
    End(Value),
    /// The connection ended as an answer should.
    Over,
    /// It was broken off.
    Cut,
}

/// The answer to a stream, read as it comes.
pub(crate) struct Row {
    stream: TcpStream,
    pub(crate) head: String,
    arrived: Vec<u8>,
    envelopes: Envelopes,
}

impl Row {
    pub(crate) fn of(call: &Call) -> Self {
        Self::read(call.open())
    }

    /// Reads the head.
    pub(crate) fn read(stream: TcpStream) -> Self {
        let mut row =
            Self { stream, head: String::new(), arrived: Vec::new(), envelopes: Envelopes::new(1 << 24) };
        let end = row.until(b"\r\n\r\n").expect("a head");
        row.head = String::from_utf8(row.take(end)).unwrap().to_ascii_lowercase();
        row
    }

    /// The next message, whatever its encoding.
    pub(crate) fn raw(&mut self) -> Result<Option<Envelope>, ()> {
        loop {
            if let Some(envelope) = self.envelopes.next_envelope().unwrap() {
                return Ok(Some(envelope));
            }
            match self.chunk() {
                Some(chunk) if chunk.is_empty() => return Ok(None),
                Some(chunk) => self.envelopes.push(&chunk),
                None => return Err(()),
            }
        }
    }

    pub(crate) fn next(&mut self) -> Next {
        match self.raw() {
            Ok(Some(Envelope { end, payload })) => {
                let json = serde_json::from_slice(&payload).unwrap();
                if end { Next::End(json) } else { Next::Message(json) }
            }
            Ok(None) => Next::Over,
            Err(()) => Next::Cut,
        }
    }

    /// The next event of a process.
    pub(crate) fn event(&mut self) -> Value {
        match self.next() {
            Next::Message(mut message) => message["event"].take(),
            other => panic!("no event but {other:?}"),
        }
    }

    /// The pid that the first event tells.
    pub(crate) fn pid(&mut self) -> u64 {
        let event = self.event();
        event["start"]["pid"].as_u64().unwrap_or_else(|| panic!("no start but {event}"))
    }

    /// All that is written under a name until something else comes, which is told as well.
    pub(crate) fn output(&mut self, name: &str, least: usize) -> String {
        use base64::Engine as _;
        let mut all = Vec::new();
        while all.len() < least {
            let event = self.event();
            let text = event["data"][name].as_str().unwrap_or_else(|| panic!("no {name} but {event}"));
            all.extend(base64::engine::general_purpose::STANDARD.decode(text).unwrap());
        }
        String::from_utf8(all).unwrap()
    }

    /// The error that it ends with.
    pub(crate) fn error(&mut self) -> Value {
        match self.next() {
            Next::End(mut end) => end["error"].take(),
            other => panic!("no end but {other:?}"),
        }
    }

    /// Insists that it ends well.
    pub(crate) fn ends_well(&mut self) {
        assert_eq!(self.next(), Next::End(json!({})));
        assert_eq!(self.next(), Next::Over);
    }

    /// One piece of the body, the last of which is empty. `None` where the connection broke off.
    fn chunk(&mut self) -> Option<Bytes> {
        if !self.head.contains("transfer-encoding: chunked") {
            return Some(self.plain());
        }
        let line = self.until(b"\r\n")?;
        let size = self.take(line);
        let size = usize::from_str_radix(std::str::from_utf8(&size[..size.len() - 2]).unwrap(), 16).unwrap();
        while self.arrived.len() < size + 2 {
            self.more()?;
        }
        let mut chunk = self.take(size + 2);
        chunk.truncate(size);
        Some(chunk.into())
    }

    /// A body whose length is told, or nothing once it is read.
    fn plain(&mut self) -> Bytes {
        let length = self.head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |text| text.trim().parse().unwrap());
        while self.arrived.len() < length && self.more().is_some() {}
        std::mem::take(&mut self.arrived).into()
    }

    fn until(&mut self, mark: &[u8]) -> Option<usize> {
        loop {
            let found = self.arrived.windows(mark.len()).position(|window| window == mark);
            if let Some(at) = found {
                return Some(at + mark.len());
            }
            self.more()?;
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        self.arrived.drain(..count).collect()
    }

    fn more(&mut self) -> Option<()> {
        let mut bytes = [0; 65536];
        let count = self.stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        self.arrived.extend_from_slice(&bytes[..count]);
        Some(())
    }
}

/// Sends a request whose body comes in pieces, and leaves the connection open for more.
pub(crate) fn chunked(call: &Call) -> TcpStream {
    let stream = call.clone().header("Transfer-Encoding", "chunked").open();
    stream.set_nodelay(true).unwrap();
    stream
}

/// One piece; an empty one is the last.
pub(crate) fn piece(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.write_all(b"\r\n").unwrap();
}
