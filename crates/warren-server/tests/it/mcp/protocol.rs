use serde_json::{Value, json};

use super::client::{ERAS, Era, last_message, message, result};
use crate::support::TestServer;

fn tools(server: &TestServer, path: &str, era: Era) -> Vec<Value> {
    let list = result(&message(server, path, era, "tools/list", json!({})).pass());
    list["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_client_of_either_generation_learns_what_it_speaks_to() {
    let server = TestServer::start();
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    });
    let answer = message(&server, "/mcp", Era::Handshake, "initialize", hello).pass();
    assert!(answer.header("mcp-session-id").is_none(), "there are no sessions");
    let told = result(&answer);
    assert_eq!(
        (&told["protocolVersion"], &told["serverInfo"]["name"]),
        (&json!("2025-11-25"), &json!("warren"))
    );
    assert!(told["instructions"].as_str().unwrap().contains("undo"), "{told}");
    let told = result(&message(&server, "/mcp", Era::Stateless, "server/discover", json!({})).pass());
    let versions = told["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{told}");
}

#[test]
fn a_session_that_an_older_server_gave_is_no_hindrance() {
    let server = TestServer::start();
    let stale =
        message(&server, "/mcp", Era::Handshake, "tools/list", json!({})).header("Mcp-Session-Id", "gone");
    assert!(!result(&stale.pass())["tools"].as_array().unwrap().is_empty());
    for method in ["GET", "DELETE"] {
        let answer = server.call(method, "/mcp").header("Accept", "text/event-stream").pass();
        assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"), "{method}");
    }
}

#[test]
fn tools_are_listed_alike_for_all_and_in_few_words() {
    let server = TestServer::start();
    let list = tools(&server, "/mcp", Era::Stateless);
    assert_eq!(list, tools(&server, "/mcp", Era::Handshake));
    let size = serde_json::to_vec(&list).unwrap().len();
    assert!(size <= 12 << 10, "a model reads all of it, and it has {size} bytes");
    for tool in &list {
        let (name, about) = (&tool["name"], tool["description"].as_str().unwrap());
        assert!(about.len() < 1024, "{name}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} {hint}");
        }
        assert!(tool["title"].is_string() && tool.get("outputSchema").is_none(), "{name}");
    }
    let read_only = |name: &str| {
        list.iter().find(|tool| tool["name"] == name).unwrap()["annotations"]["readOnlyHint"].clone()
    };
    assert_eq!((read_only("read"), read_only("bash")), (json!(true), json!(false)));
}

#[test]
fn a_client_says_which_tools_it_wants() {
    let server = TestServer::start();
    assert_eq!(names(&tools(&server, "/mcp?tools=undo,bash", Era::Stateless)), ["bash", "undo"]);
    assert!(names(&tools(&server, "/mcp?tools=core", Era::Handshake)).contains(&"edit"));
    let params = json!({"name": "ls", "arguments": {"path": "/"}});
    let hidden = message(&server, "/mcp?tools=bash", Era::Stateless, "tools/call", params).pass();
    assert_eq!(last_message(&hidden)["error"]["code"], -32602);
    for wrong in ["tools=rm", "tools=", "tool=bash", "tools=bash&tools=ls"] {
        let answer =
            message(&server, &format!("/mcp?{wrong}"), Era::Stateless, "tools/list", json!({})).pass();
        assert!([400, 422].contains(&answer.status), "{wrong}: {}", answer.status);
    }
}

#[test]
fn an_address_of_one_sandbox_asks_for_no_sandbox() {
    let server = TestServer::start();
    let made = server.call("POST", "/v1/sandboxes").json(&json!({"name": "web"})).send().expect(201).json();
    let id = made["sandbox_id"].as_str().unwrap();
    for path in [format!("/mcp/{id}"), "/mcp/web".to_owned()] {
        for era in ERAS {
            for tool in tools(&server, &path, era) {
                assert!(tool["inputSchema"]["properties"].get("sandbox").is_none(), "{tool}");
            }
        }
    }
    let nobody =
        message(&server, "/mcp/sbxaaaaaaaaaaaaaaaaaaaaaaaaaa", Era::Stateless, "tools/list", json!({}));
    assert_eq!(nobody.pass().expect(404).code(), "sandbox_not_found");
}

#[test]
fn what_does_not_exist_is_an_error_of_the_protocol() {
    let server = TestServer::start();
    for (era, method) in [(Era::Handshake, "no/such"), (Era::Stateless, "no/such"), (Era::Stateless, "ping")]
    {
        let answer = message(&server, "/mcp", era, method, json!({})).pass();
        assert_eq!(last_message(&answer)["error"]["code"], -32601, "{method}");
    }
    let params = json!({"name": "rm", "arguments": {}});
    for era in ERAS {
        let answer = message(&server, "/mcp", era, "tools/call", params.clone()).pass();
        assert_eq!(last_message(&answer)["error"]["code"], -32602);
    }
}
