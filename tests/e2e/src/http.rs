use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::server::TestServer;

/// The answer to a request that was written by hand.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", String::from_utf8_lossy(&self.body)))
    }

    /// The stable word for what was wrong.
    #[track_caller]
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl TestServer<'_> {
    /// One request with the administrator's key, on a connection of its own.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let bearer = format!("Bearer {}", self.key());
        self.ask_with(method, path, &[("authorization", &bearer)], body)
    }

    /// One request with these headers and no others that matter.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: warren\r\nconnection: close\r\n");
        if !body.is_empty() {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        let mut stream = self.connect();
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("the request is taken");
        read_answer(stream)
    }

    /// A connection on which nothing has been said.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).expect("the server accepts connections");
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("a socket has timeouts");
        stream
    }
}

/// Reads until the server closes the connection.
pub fn read_answer(mut stream: impl Read) -> Answer {
    let mut bytes = Vec::new();
    // A server that has said all may close before it was sent everything: what it said counts.
    drop(stream.read_to_end(&mut bytes));
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("an answer has a status");
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}
