use serde_json::{Map, Value, json};

use crate::support::{Answer, Call, TestServer};

/// The generation of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// 2025-11-25, after a handshake.
    Handshake,
    /// 2026-07-28, where each request says all there is to know.
    Stateless,
}

pub(super) const ERAS: [Era; 2] = [Era::Handshake, Era::Stateless];

/// The names under which a client says what it is.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// One message to one of the face's addresses.
pub(super) fn message(server: &TestServer, path: &str, era: Era, method: &str, params: Value) -> Call {
    message_of(server, path, era, (method, params, json!({})))
}

/// As [`message`], of a client that can do these things.
pub(super) fn message_of(
    server: &TestServer,
    path: &str,
    era: Era,
    (method, mut params, capabilities): (&str, Value, Value),
) -> Call {
    let mut call = server.call("POST", path).header("Accept", "application/json, text/event-stream");
    if era == Era::Stateless {
        let given = params["_meta"].as_object().cloned().unwrap_or_default();
        let own = Map::from_iter([
            (VERSION.to_owned(), json!("2026-07-28")),
            (CAPABILITIES.to_owned(), capabilities),
        ]);
        params["_meta"] = Value::Object(given.into_iter().chain(own).collect());
        call = call.header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", method);
        for name in ["name", "uri", "taskId"] {
            if let Some(name) = params[name].as_str() {
                call = call.header("Mcp-Name", name);
            }
        }
    } else {
        call = call.header("MCP-Protocol-Version", "2025-11-25");
    }
    call.json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

/// The result of a message that must have one.
pub(super) fn result(answer: &Answer) -> Value {
    let body = last_message(answer);
    assert_eq!(answer.status, 200, "{body}");
    assert!(body.get("error").is_none(), "{body}");
    body["result"].clone()
}

/// The last message of an answer, which may be a stream.
pub(super) fn last_message(answer: &Answer) -> Value {
    if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return messages(answer).pop().expect("a message");
    }
    answer.json()
}

/// Every message of a stream.
pub(super) fn messages(answer: &Answer) -> Vec<Value> {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Calls a tool.
pub(super) fn call(server: &TestServer, path: &str, era: Era, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    result(&message(server, path, era, "tools/call", params).pass())
}

/// The text that a tool answered.
pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// A server with one sandbox, made as a client of the protocol makes one.
pub(super) fn with_sandbox() -> (TestServer, String) {
    let server = TestServer::start();
    let made = call(&server, "/mcp", Era::Stateless, "sandbox", json!({"action": "create"}));
    let id = made["structuredContent"]["sandbox_id"].as_str().expect("an id").to_owned();
    (server, id)
}
