use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use ureq::http::Method;

use super::calls::sandbox;
use super::{Client, ClientError, Connection};
use crate::api::{MakePortLink, Port, PortLink, Problem, SetPort};

/// The head of an answer is never taken to be longer than this.
const MOST_HEAD: usize = 64 << 10;

/// How long the server may take to reach the port.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// How a port is reached.
    pub fn port(&self, id: &str, port: u16) -> Result<Port, ClientError> {
        self.get(&sandbox(id, &format!("/ports/{port}")))
    }

    pub fn set_port(&self, id: &str, port: u16, settings: &SetPort) -> Result<Port, ClientError> {
        self.ask(Method::PUT, &sandbox(id, &format!("/ports/{port}")), Some(settings), &[])
    }

    /// An address that opens the port for a while.
    pub fn port_link(&self, id: &str, port: u16, wanted: &MakePortLink) -> Result<PortLink, ClientError> {
        self.post(&sandbox(id, &format!("/ports/{port}/link")), wanted)
    }

    /// A connection with a port, byte for byte.
    pub fn connect_port(&self, id: &str, port: u16) -> Result<Connection, ClientError> {
        let authority = self.authority();
        let mut stream = self.dial()?;
        let path = sandbox(id, &format!("/ports/{port}/connect"));
        let key = if self.key.is_empty() {
            String::new()
        } else {
            format!("Authorization: Bearer {}\r\n", self.key)
        };
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\n{key}Connection: Upgrade\r\nUpgrade: warren-tcp\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).map_err(ClientError::Write)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Read)?;
        let head = read_head(&mut stream).map_err(ClientError::Read)?;
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        if status != 101 {
            return Err(refused(stream, &head, status));
        }
        stream.set_read_timeout(None).map_err(ClientError::Read)?;
        Ok(stream)
    }
}

/// Reads to the end of the head and not a byte further: what follows is somebody else's.
pub(super) fn read_head(stream: &mut Connection) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MOST_HEAD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer's head does not end"));
        }
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn refused(stream: Connection, head: &str, status: u16) -> ClientError {
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>().ok()).flatten()
    });
    let mut text = Vec::new();
    // What is missing of it is missed below.
    drop(stream.take(length.unwrap_or(0).min(1 << 20)).read_to_end(&mut text));
    match serde_json::from_slice::<Problem>(&text) {
        Ok(problem) => ClientError::Refused(Box::new(problem)),
        Err(_) => ClientError::Unexpected {
            status,
            text: String::from_utf8_lossy(&text).chars().take(300).collect(),
        },
    }
}
