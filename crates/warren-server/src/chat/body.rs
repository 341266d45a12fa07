use std::net::SocketAddr;

use serde::Serialize;
use serde_json::{Map, Value};
use warren_core::{SandboxId, SessionId, Status};
use warren_engine::{ChatEnded, ChatRequest, ChatSandbox};

use super::refusal::{Refusal, Wrong};
use crate::convert::rfc3339;

const FIELDS: [&str; 3] = ["chat_id", "agent_id", "volume_host_path"];

/// A chat's sandbox, as `create` answers it.
#[derive(Debug, Serialize)]
pub(super) struct Chat {
    session_id: SessionId,
    chat_id: String,
    agent_id: String,
    volume_host_path: String,
    container_id: SandboxId,
    endpoint: Endpoint,
    status: Status,
    expires_at: String,
}

#[derive(Debug, Serialize)]
struct Endpoint {
    ip: String,
    port: u16,
}

/// The result of `DELETE`. A chat without a sandbox has nothing to name.
#[derive(Debug, Serialize)]
pub(super) struct Deleted {
    chat_id: String,
    result: &'static str,
    session_id: Option<SessionId>,
    container_id: Option<SandboxId>,
}

impl Chat {
    pub(super) fn new(chat: ChatSandbox, endpoint: SocketAddr) -> Self {
        Self {
            session_id: chat.session,
            chat_id: chat.chat,
            agent_id: chat.agent,
            volume_host_path: chat.volume.display().to_string(),
            container_id: chat.sandbox,
            endpoint: Endpoint { ip: endpoint.ip().to_string(), port: endpoint.port() },
            status: chat.status,
            expires_at: rfc3339(chat.expires_unix_ms),
        }
    }
}

impl Deleted {
    pub(super) fn new(chat_id: String, ended: Option<ChatEnded>) -> Self {
        let result = if ended.is_some() { "deleted" } else { "not_found" };
        let (session_id, container_id) = ended.map(|ended| (ended.session, ended.sandbox)).unzip();
        Self { chat_id, result, session_id, container_id }
    }
}

/// Reads the body of a create. All that is wrong with it is told at once.
pub(super) fn create(body: &[u8]) -> Result<ChatRequest, Refusal> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return Err(Refusal::Invalid(vec![Wrong::body("json_invalid", "the body is not a JSON object")]));
    };
    let mut wrong: Vec<Wrong> = fields
        .keys()
        .filter(|name| !FIELDS.contains(&name.as_str()))
        .map(|name| Wrong::field("extra_forbidden", name, "there is no such field"))
        .collect();
    let mut take = |name| text(&fields, name).map_err(|error| wrong.push(error)).ok();
    let (chat, agent, volume) = (take(FIELDS[0]), take(FIELDS[1]), take(FIELDS[2]));
    let chat =
        chat.map(|chat| uuid(chat).ok_or_else(|| Wrong::field("uuid_parsing", FIELDS[0], "not a uuid")));
    let chat = chat.and_then(|chat| chat.map_err(|error| wrong.push(error)).ok());
    if agent.is_some_and(|agent| agent.trim().is_empty()) {
        wrong.push(Wrong::field("string_too_short", FIELDS[1], "it must not be empty"));
    }
    if volume.is_some_and(|volume| !volume.starts_with('/')) {
        wrong.push(Wrong::field("value_error", FIELDS[2], "it must be an absolute path"));
    }
    match (chat, agent, volume) {
        (Some(chat), Some(agent), Some(volume)) if wrong.is_empty() => {
            Ok(ChatRequest { chat, agent: agent.to_owned(), volume: volume.into() })
        }
        _ => Err(Refusal::Invalid(wrong)),
    }
}

/// Reads a chat's id out of a path.
pub(super) fn chat_id(text: &str) -> Result<String, Refusal> {
    uuid(text).ok_or_else(|| Refusal::Invalid(vec![Wrong::path("uuid_parsing", "chat_id", "not a uuid")]))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<&'a str, Wrong> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Wrong::field("string_type", name, "it must be a text")),
        None => Err(Wrong::field("missing", name, "it is required")),
    }
}

/// The uuid in lower case with its dashes, which may be left out.
fn uuid(text: &str) -> Option<String> {
    let dashed = text.len() == 36 && [8, 13, 18, 23].iter().all(|&at| text.as_bytes()[at] == b'-');
    let digits: String = if dashed { text.replace('-', "") } else { text.to_owned() };
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = digits.to_ascii_lowercase();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    Some(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = "0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a001";

    fn wrong(body: &str) -> Vec<String> {
        match create(body.as_bytes()) {
            Err(Refusal::Invalid(wrong)) => wrong.iter().map(Wrong::place).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_whole_body_is_read() {
        let body = format!(r#"{{"chat_id": "{CHAT}", "agent_id": "a", "volume_host_path": "/srv/x"}}"#);
        let expected = ChatRequest { chat: CHAT.to_owned(), agent: "a".to_owned(), volume: "/srv/x".into() };
        assert_eq!(create(body.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        assert_eq!(wrong("{}"), ["body.chat_id", "body.agent_id", "body.volume_host_path"]);
        let body = r#"{"chat_id": "x", "agent_id": " ", "volume_host_path": "srv", "more": 1}"#;
        assert_eq!(wrong(body), ["body.more", "body.chat_id", "body.agent_id", "body.volume_host_path"]);
        let body = format!(r#"{{"chat_id": "{CHAT}", "agent_id": 7, "volume_host_path": null}}"#);
        assert_eq!(wrong(&body), ["body.agent_id", "body.volume_host_path"]);
        for body in ["", "[]", "{", "\"text\"", "\u{0}"] {
            assert_eq!(wrong(body), ["body"], "{body}");
        }
    }

    #[test]
    fn a_uuid_is_known_in_every_spelling_and_told_in_one() {
        for text in [CHAT, &CHAT.to_uppercase(), &CHAT.replace('-', "")] {
            assert_eq!(uuid(text).as_deref(), Some(CHAT));
        }
        for text in ["", "x", &CHAT[1..], &format!("{CHAT}0"), &CHAT.replace('b', "g"), "éééééééééééééééé"]
        {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
