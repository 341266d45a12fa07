//! Messages of JSON-RPC, as far as they must be understood to be passed on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use warren_wire::api::Problem;
use warren_wire::client::McpMessage;

use crate::error::CliError;

/// The first version in which requests say all about themselves, and headers repeat it.
const FIRST_WITH_HEADERS: &str = "2026-07-28";
const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
/// How much of an odd answer is told.
const LONGEST_TOLD: usize = 300;

/// A message of the client.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    method: String,
    value: Value,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Request {
        id: Value,
    },
    /// A request is taken back.
    Cancel {
        id: Value,
    },
    /// One that has no answer.
    Other,
}

impl Message {
    pub(super) fn read(line: &[u8]) -> serde_json::Result<Self> {
        let value: Value = serde_json::from_slice(line)?;
        let method = value["method"].as_str().unwrap_or_default().to_owned();
        let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
        let kind = match (method.as_str(), id) {
            ("", _) => Kind::Other,
            (_, Some(id)) => Kind::Request { id },
            ("notifications/cancelled", None) => Kind::Cancel { id: value["params"]["requestId"].clone() },
            (_, None) => Kind::Other,
        };
        Ok(Self { kind, method, value })
    }

    pub(super) fn is_handshake(&self) -> bool {
        self.method == "initialize"
    }

    /// The same as a request to a server. `agreed` is the version of an earlier handshake.
    pub(super) fn for_server(&self, path: &str, agreed: Option<&str>) -> McpMessage {
        let own = self.value.pointer(VERSION).and_then(Value::as_str);
        let version = own.or(agreed).filter(|_| !self.is_handshake());
        let mut headers: Vec<(&'static str, String)> = Vec::new();
        if let Some(version) = version {
            headers.push(("MCP-Protocol-Version", version.to_owned()));
            if version >= FIRST_WITH_HEADERS {
                headers.push(("Mcp-Method", plain(&self.method)));
                headers.extend(self.name().map(|name| ("Mcp-Name", plain(name))));
            }
        }
        McpMessage { path: path.to_owned(), headers, body: self.value.to_string().into_bytes() }
    }

    /// The thing that the request is about.
    fn name(&self) -> Option<&str> {
        let field = match self.method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return None,
        };
        self.value["params"][field].as_str()
    }
}

/// A value as it can stand in a header.
fn plain(value: &str) -> String {
    let usual = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let edges = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let odd = value.starts_with("=?base64?") && value.ends_with("?=");
    if usual && !edges && !odd { value.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(value)) }
}

/// The bytes as a message of the protocol, if they are one.
pub(super) fn reply(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    value.get("jsonrpc").is_some().then_some(value)
}

/// The version that a server agreed to.
pub(super) fn agreed_version(reply: &Value) -> Option<String> {
    reply["result"]["protocolVersion"].as_str().map(str::to_owned)
}

/// An answer that is not the protocol's, but that of the server around it.
pub(super) fn refusal(status: u16, bytes: &[u8]) -> CliError {
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) => CliError::new(format!("{} ({})", problem.detail, problem.code)),
        Err(_) => {
            let text: String = String::from_utf8_lossy(bytes).chars().take(LONGEST_TOLD).collect();
            CliError::new(format!("the server answered {status}: {text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Message {
        Message::read(value.to_string().as_bytes()).unwrap()
    }

    fn headers(message: &Message, agreed: Option<&str>) -> Vec<(&'static str, String)> {
        message.for_server("/mcp", agreed).headers
    }

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        assert_eq!(read(json!({"id": 1, "method": "ping"})).kind, Kind::Request { id: json!(1) });
        assert_eq!(read(json!({"id": "a", "method": "ping"})).kind, Kind::Request { id: json!("a") });
        let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 7}});
        assert_eq!(read(cancel).kind, Kind::Cancel { id: json!(7) });
        for other in
            [json!({"method": "notifications/initialized"}), json!({"id": 1, "result": {}}), json!([1])]
        {
            assert_eq!(read(other).kind, Kind::Other);
        }
        assert!(Message::read(b"{").is_err());
    }

    #[test]
    fn headers_say_what_the_version_asks_for() {
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "bash"}});
        assert!(headers(&read(call.clone()), None).is_empty());
        let old = headers(&read(call), Some("2025-11-25"));
        assert_eq!(old, [("MCP-Protocol-Version", "2025-11-25".to_owned())]);
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call =
            json!({"id": 1, "method": "resources/read", "params": {"uri": "warren://ä", "_meta": meta}});
        let new = headers(&read(call), None);
        let names: Vec<&str> = new.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"]);
        assert_eq!(new[2].1, format!("=?base64?{}?=", STANDARD.encode("warren://ä")));
        let hello = json!({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
        assert!(headers(&read(hello), Some("2025-11-25")).is_empty());
    }

    #[test]
    fn what_the_server_around_it_answers_is_told_in_its_words() {
        assert!(reply(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}").is_some());
        assert!(reply(b"{\"code\":\"unauthorized\"}").is_none() && reply(b"no").is_none());
        assert!(refusal(502, b"Bad Gateway").chain().contains("502"));
    }
}
