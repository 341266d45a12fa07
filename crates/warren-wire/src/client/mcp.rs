//! Messages of the Model Context Protocol, each a request of its own.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use super::ports::read_head;
use super::{Client, ClientError, Connection, EventReader, MOST_ANSWER};

/// A quiet server says every few seconds that it is still there, once it streams; before that, no
/// call takes longer than this.
const PATIENCE: Duration = Duration::from_secs(4000);

/// A message for the server.
#[derive(Debug, Clone, Default)]
pub struct McpMessage {
    /// Such as `/mcp`.
    pub path: String,
    /// Names and values that the protocol asks for. A value with a line break is left out.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// The server's answer to a message, as it comes.
#[derive(Debug)]
pub struct Exchange {
    pub status: u16,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Events(EventReader),
    /// All of it, until it is read.
    Whole(Option<Connection>),
}

impl Client {
    /// A connection for one message. Closing it takes the message back.
    pub fn dial_mcp(&self) -> Result<Connection, ClientError> {
        self.dial()
    }

    /// Sends a message over a connection that nothing was sent over, and waits for an answer to
    /// begin.
    pub fn send_mcp(
        &self,
        mut connection: Connection,
        message: &McpMessage,
    ) -> Result<Exchange, ClientError> {
        // In the first version of the protocol an answer ends with its connection.
        let mut head = format!("POST {} HTTP/1.0\r\nHost: {}\r\n", message.path, self.authority());
        if !self.key.is_empty() {
            head.push_str(&format!("Authorization: Bearer {}\r\n", self.key));
        }
        head.push_str("Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n");
        for (name, value) in &message.headers {
            if !value.contains(['\r', '\n']) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", message.body.len()));
        let request = [head.as_bytes(), &message.body].concat();
        connection.write_all(&request).map_err(ClientError::Write)?;
        connection.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Read)?;
        let head = read_head(&mut connection).map_err(ClientError::Read)?;
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let answer = if header(&head, "content-type").starts_with("text/event-stream") {
            Answer::Events(EventReader::new(connection))
        } else {
            Answer::Whole(Some(connection))
        };
        Ok(Exchange { status, answer })
    }
}

impl Exchange {
    /// The next message of the answer; `None` at its end.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        match &mut self.answer {
            Answer::Events(events) => {
                while let Some(event) = events.next_event()? {
                    if !event.data.is_empty() {
                        return Ok(Some(event.data.into_bytes()));
                    }
                }
                Ok(None)
            }
            Answer::Whole(connection) => {
                let Some(connection) = connection.take() else { return Ok(None) };
                let mut body = Vec::new();
                connection
                    .take(MOST_ANSWER)
                    .read_to_end(&mut body)
                    .or_else(ignore_end)
                    .map_err(ClientError::Read)?;
                Ok(Some(body).filter(|body| !body.is_empty()))
            }
        }
    }
}

/// A server of TLS may end a connection without saying so; the length of a message tells.
fn ignore_end(error: io::Error) -> io::Result<usize> {
    if error.kind() == io::ErrorKind::UnexpectedEof { Ok(0) } else { Err(error) }
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let found = fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map_or("", |(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// Answers one request with these bytes, and gives back what it was.
    fn answered(answer: &'static str) -> (Vec<String>, Exchange) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), "key").unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = Vec::new();
            for line in io::BufReader::new(&stream).lines() {
                let line = line.unwrap();
                if line.is_empty() {
                    break;
                }
                lines.push(line);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            lines
        });
        let message = McpMessage {
            path: "/mcp".to_owned(),
            headers: vec![("Mcp-Method", "ping".to_owned()), ("Mcp-Name", "a\r\nEvil: 1".to_owned())],
            body: b"{}".to_vec(),
        };
        let exchange = client.send_mcp(client.dial_mcp().unwrap(), &message).unwrap();
        (served.join().unwrap(), exchange)
    }

    #[test]
    fn a_message_is_one_request_and_nothing_can_be_slipped_in() {
        let (head, mut exchange) =
            answered("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"id\":1}");
        assert_eq!(head[0], "POST /mcp HTTP/1.0");
        assert!(
            head.contains(&"Authorization: Bearer key".to_owned())
                && head.contains(&"Mcp-Method: ping".to_owned())
        );
        assert!(!head.iter().any(|line| line.contains("Evil") || line.contains("Mcp-Name")), "{head:?}");
        assert_eq!(exchange.next_message().unwrap().unwrap(), b"{\"id\":1}");
        assert!(exchange.next_message().unwrap().is_none());
    }

    #[test]
    fn a_stream_is_message_after_message() {
        let (_, mut exchange) = answered(
            "HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: alive\n\ndata: {\"a\":1}\n\nevent: message\ndata: {\"b\":2}\n\n",
        );
        assert_eq!(exchange.status, 200);
        assert_eq!(exchange.next_message().unwrap().unwrap(), b"{\"a\":1}");
        assert_eq!(exchange.next_message().unwrap().unwrap(), b"{\"b\":2}");
        assert!(exchange.next_message().unwrap().is_none());
    }
}
