use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use ureq::http::Method;

use super::calls::sandbox;
use super::{CONNECT_PATIENCE, Client, ClientError};
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
    pub fn connect_port(&self, id: &str, port: u16) -> Result<TcpStream, ClientError> {
        let authority = self.base.trim_start_matches("http://");
        let mut stream = self.dial(authority)?;
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

    fn dial(&self, authority: &str) -> Result<TcpStream, ClientError> {
        use std::net::ToSocketAddrs as _;
        let host = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
        let failed = |error: io::Error| ClientError::Stream {
            address: self.base.clone(),
            source: Box::new(tungstenite::Error::Io(error)),
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in host.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
                Ok(stream) => return stream.set_nodelay(true).map(|()| stream).map_err(failed),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }
}

/// Reads to the end of the head and not a byte further: what follows is somebody else's.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
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

fn refused(stream: TcpStream, head: &str, status: u16) -> ClientError {
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
