use std::io::{BufRead, BufReader, Read};

use super::ClientError;
use crate::api::StreamError;

/// A line of a stream of server-sent events is never longer.
const MOST_LINE: u64 = 16 << 20;

/// One server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerEvent {
    pub name: String,
    pub id: Option<String>,
    pub data: String,
}

/// Reads server-sent events until the server ends the stream.
pub struct EventReader {
    lines: BufReader<Box<dyn Read + Send>>,
}

impl std::fmt::Debug for EventReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventReader")
    }
}

impl EventReader {
    pub(super) fn new(stream: impl Read + Send + 'static) -> Self {
        Self { lines: BufReader::new(Box::new(stream)) }
    }

    /// The next event; `None` at the end. An event that says why the server ends the stream is an
    /// error.
    pub fn next_event(&mut self) -> Result<Option<ServerEvent>, ClientError> {
        let mut event = ServerEvent::default();
        let mut some = false;
        loop {
            let mut line = String::new();
            let count = (&mut self.lines).take(MOST_LINE).read_line(&mut line).map_err(ClientError::Read)?;
            if count == 0 {
                return Ok(None);
            }
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if some {
                    return if event.name == "error" { Err(cut(&event)) } else { Ok(Some(event)) };
                }
                continue;
            }
            some |= take_field(line, &mut event);
        }
    }
}

fn cut(event: &ServerEvent) -> ClientError {
    match serde_json::from_str(&event.data) {
        Ok(StreamError { code, detail }) => ClientError::Cut { code, detail },
        Err(error) => ClientError::Decode(error),
    }
}

/// Says whether the line was one of a field; comments keep the connection open and nothing else.
fn take_field(line: &str, event: &mut ServerEvent) -> bool {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.strip_prefix(' ').unwrap_or(value);
    match name {
        "event" => value.clone_into(&mut event.name),
        "id" => event.id = Some(value.to_owned()),
        "data" => {
            if !event.data.is_empty() {
                event.data.push('\n');
            }
            event.data.push_str(value);
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart_and_comments_are_none() {
        let text = ": hello\n\nevent: stdout\nid: 7\ndata: a\ndata: b\n\n: ping\n\ndata: {}\r\n\r\n";
        let mut reader = EventReader::new(text.as_bytes());
        let first = reader.next_event().unwrap().unwrap();
        assert_eq!(first, ServerEvent { name: "stdout".into(), id: Some("7".into()), data: "a\nb".into() });
        assert_eq!(reader.next_event().unwrap().unwrap().data, "{}");
        assert_eq!(reader.next_event().unwrap(), None);
    }

    #[test]
    fn a_farewell_is_told_with_its_reason() {
        let text = "event: error\ndata: {\"code\": \"shutting_down\", \"detail\": \"good-bye\"}\n\n";
        let error = EventReader::new(text.as_bytes()).next_event().unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (Some("shutting_down"), "good-bye"));
    }
}
