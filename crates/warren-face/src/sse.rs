//! Answers that are streams of server-sent events. Nothing is buffered: the next event is made when
//! the last one has been taken. A stream ends when its reader must go, and is kept open by comments
//! while it has nothing to say.

use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;
use warren_wire::api::StreamError;

use crate::auth::{Caller, Cut};
use crate::error::{ApiError, Code};

/// A proxy in between must not take a quiet stream for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The header by which a reader says what it saw last.
const LAST_EVENT_ID: &str = "last-event-id";

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub name: String,
    /// The position to come back with, to go on after this one.
    pub id: Option<u64>,
    /// JSON, and so without line breaks.
    pub data: String,
}

impl Message {
    pub fn new(name: impl Into<String>, data: &impl Serialize) -> Self {
        let data = serde_json::to_string(data).unwrap_or_default();
        Self { name: name.into(), id: None, data }
    }

    pub fn id(mut self, id: u64) -> Self {
        self.id = Some(id);
        self
    }

    /// Why the stream ends early. The server's own faults are logged here, since no response will.
    pub fn error(error: ApiError) -> Self {
        error.log();
        let problem = error.problem();
        Self::new("error", &StreamError { code: problem.code, detail: problem.detail })
    }

    fn farewell(cut: Cut) -> Self {
        Self::error(match cut {
            Cut::Revoked => ApiError::new(Code::Unauthorized, "the key was revoked"),
            Cut::Shutdown => ApiError::new(Code::ShuttingDown, "the server is shutting down"),
        })
    }
}

impl From<Message> for Event {
    fn from(message: Message) -> Self {
        let event = Self::default().event(message.name).data(message.data);
        match message.id {
            Some(id) => event.id(id.to_string()),
            None => event,
        }
    }
}

/// True if the request wants its answer as a stream.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
    })
}

/// The last event that the reader saw, if it comes back.
pub fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| ApiError::invalid("Last-Event-ID", "the header takes the `id` of an event"))
}

/// The answer, which ends with the messages or with its reader's welcome.
pub fn answer(caller: &Caller, messages: impl Stream<Item = Message> + Send + 'static) -> Response {
    let open = Some((Box::pin(messages), caller.guard()));
    let events = stream::unfold(open, |open| async {
        let (mut messages, guard) = open?;
        tokio::select! {
            biased;
            cut = guard.until_cut() => Some((Message::farewell(cut), None)),
            message = messages.next() => message.map(|message| (message, Some((messages, guard)))),
        }
    });
    let events = events.map(|message| Ok::<_, std::convert::Infallible>(Event::from(message)));
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_wanted_only_when_named() {
        let wants = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().unwrap());
            is_wanted(&headers)
        };
        assert!(wants("text/event-stream") && wants("application/json, Text/Event-Stream;q=0.5"));
        assert!(!wants("*/*") && !wants("application/json") && !is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn the_last_seen_event_is_a_number() {
        let seen = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LAST_EVENT_ID, value.parse().unwrap());
            last_seen(&headers)
        };
        assert_eq!(seen("17").unwrap(), Some(17));
        assert!(seen("x").is_err() && seen("").is_err() && seen("-1").is_err());
    }
}
