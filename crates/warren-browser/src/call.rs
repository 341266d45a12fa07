//! Calls of the tools. The server inside speaks the older revision of the protocol, with sessions:
//! one is begun for each life of the sandbox, and again when the server inside was started anew.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use http::{Method, Request, StatusCode};
use serde_json::{Map, Value, json};
use warren_engine::Visit;

use crate::answer::Answer;
use crate::http1::Bounds;
use crate::service::TOOLS;
use crate::tools::{FETCH, READ, Tool};
use crate::{Browser, BrowserError};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const REVISION: &str = "2025-11-25";

/// How long a tool may take. Clients give up after a minute.
const PATIENCE: Duration = Duration::from_secs(55);
/// The longest answer that is read: a screenshot of a long page, and its text.
const MOST_ANSWER: usize = 6 << 20;
/// A longer name of a session is none.
const LONGEST_SESSION: usize = 256;
/// The characters of arguments that the journal repeats.
const MOST_SUMMARY: usize = 500;

/// The answer to a message.
enum Posted {
    Answered(Value),
    /// In the server's words, which are the sandbox's.
    Refused(String),
    /// The server does not know the session.
    Unknown,
}

impl Browser {
    /// Uses a tool. What changes something is an entry of the journal, with a frame of the page
    /// after it.
    pub async fn call(&self, tool: &Tool, arguments: Map<String, Value>) -> Result<Answer, BrowserError> {
        self.ensure().await?;
        let _turn = self.place.under_way.0.acquire().await;
        let visit = self.sandbox.visit().await?;
        if tool.looks {
            return self.run(&visit, tool, arguments).await;
        }
        visit.begin(&tool.name, &summary(&arguments)).await;
        let entry = visit.number();
        let done = self.run(&visit, tool, arguments).await;
        match &done {
            Ok(answer) if answer.failed => visit.done(Some("the tool failed")),
            Ok(_) => visit.done(None),
            Err(error) => visit.done(Some(&error.to_string())),
        }
        if let Some(entry) = entry {
            self.note_entry(entry);
        }
        done.map(|answer| Answer { entry, ..answer })
    }

    async fn run(
        &self,
        visit: &Visit,
        tool: &Tool,
        arguments: Map<String, Value>,
    ) -> Result<Answer, BrowserError> {
        match tool.name.as_str() {
            FETCH => self.fetch(visit, &arguments).await,
            READ => self.read(visit, &arguments).await,
            name => self.inner(visit, name, Value::Object(arguments)).await,
        }
    }

    /// Uses a tool of the server inside.
    pub(crate) async fn inner(
        &self,
        visit: &Visit,
        name: &str,
        arguments: Value,
    ) -> Result<Answer, BrowserError> {
        let params = json!({ "name": name, "arguments": arguments });
        for _ in 0..2 {
            let session = self.session(visit).await?;
            match self.post(visit, Some(&session), "tools/call", params.clone()).await? {
                Posted::Refused(said) => return Ok(Answer { failed: true, ..Answer::text(said) }),
                Posted::Answered(result) => {
                    let answer =
                        Answer::read(&result).ok_or_else(|| self.garbled("a result without content"))?;
                    self.note_tab(&answer);
                    return Ok(answer);
                }
                Posted::Unknown => *self.place.session.lock() = None,
            }
        }
        Err(self.garbled("it does not know the session that it began"))
    }

    /// The session of this life of the sandbox.
    pub(crate) async fn session(&self, visit: &Visit) -> Result<String, BrowserError> {
        let life = visit.life();
        let known = self.place.session.lock().clone();
        if let Some((_, session)) = known.filter(|(begun, _)| *begun == life) {
            return Ok(session);
        }
        let session = self.greet(visit).await?;
        *self.place.session.lock() = Some((life, session.clone()));
        Ok(session)
    }

    async fn greet(&self, visit: &Visit) -> Result<String, BrowserError> {
        let client = json!({ "name": "warren", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client });
        let body = self.message("initialize", params);
        let (head, answer) = self.send(visit, None, &body).await?;
        if !matches!(self.result(&answer, body["id"].as_u64())?, Posted::Answered(_)) {
            return Err(self.garbled("it begins no session"));
        }
        let session = head.headers.get(SESSION).and_then(|session| session.to_str().ok());
        let session = session.filter(|session| session.len() <= LONGEST_SESSION).map(str::to_owned);
        let session = session.ok_or_else(|| self.garbled("a session without a name"))?;
        let began = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.send(visit, Some(&session), &began).await?;
        Ok(session)
    }

    async fn post(
        &self,
        visit: &Visit,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Posted, BrowserError> {
        let body = self.message(method, params);
        let (head, answer) = self.send(visit, session, &body).await?;
        if matches!(head.status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            return Ok(Posted::Unknown);
        }
        self.result(&answer, body["id"].as_u64())
    }

    fn message(&self, method: &str, params: Value) -> Value {
        // Several calls may share a session.
        let id = self.place.calls.fetch_add(1, Ordering::Relaxed);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    async fn send(
        &self,
        visit: &Visit,
        session: Option<&str>,
        body: &Value,
    ) -> Result<(http::response::Parts, Bytes), BrowserError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/mcp")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header(VERSION, REVISION);
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let request = request.body(Bytes::from(body.to_string())).map_err(|error| self.garbled(error))?;
        self.ask(visit, TOOLS, request, Bounds { bytes: MOST_ANSWER, patience: PATIENCE }).await
    }

    /// The result of the call of this number: in a stream of events, or alone.
    fn result(&self, body: &[u8], id: Option<u64>) -> Result<Posted, BrowserError> {
        let is_ours = |message: &Value| message.get("id").and_then(Value::as_u64) == id;
        let mut message =
            messages(body).find(is_ours).ok_or_else(|| self.garbled("no answer to the call"))?;
        if let Some(error) = message.get("error") {
            let said = error.get("message").and_then(Value::as_str).unwrap_or("an error");
            let said: String = said.chars().filter(|char| !char.is_control()).take(300).collect();
            return Ok(Posted::Refused(said));
        }
        Ok(Posted::Answered(message.get_mut("result").map(Value::take).unwrap_or_default()))
    }
}

/// The messages of a body.
fn messages(body: &[u8]) -> impl Iterator<Item = Value> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let alone = serde_json::from_str(text).ok();
    let streamed = text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?).ok());
    alone.into_iter().chain(streamed)
}

/// Arguments in a line. What is typed may be a password, and is left out.
fn summary(arguments: &Map<String, Value>) -> String {
    let told = arguments.iter().map(|(name, value)| match (name.as_str(), value) {
        ("text" | "values" | "fields" | "data" | "promptText", _) => format!("{name}=…"),
        (_, Value::String(text)) => format!("{name}={text}"),
        (_, value) => format!("{name}={value}"),
    });
    let line = told.collect::<Vec<_>>().join(" ");
    line.chars().map(|char| if char.is_control() { ' ' } else { char }).take(MOST_SUMMARY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_stays_out_of_the_journal() {
        let Value::Object(typed) =
            json!({"text": "hunter2", "target": "e5", "submit": true, "fields": [{"value": "x"}]})
        else {
            panic!("no object")
        };
        let line = summary(&typed);
        assert!(!line.contains("hunter2") && !line.contains("value"), "{line}");
        assert!(line.contains("target=e5") && line.contains("submit=true"), "{line}");
    }

    #[test]
    fn messages_are_found_in_a_stream_and_alone() {
        let stream = b"event: message\ndata: {\"method\":\"x\"}\n\nevent: message\ndata: {\"id\": 1}\n\n";
        assert_eq!(messages(stream).count(), 2);
        assert_eq!(messages(b"{\"id\": 7}").next().and_then(|found| found["id"].as_u64()), Some(7));
        assert_eq!(messages(b"\xff\xfe").count() + messages(b"data: {").count() + messages(b"").count(), 0);
    }
}
