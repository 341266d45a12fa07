//! Tasks, and leave to reach the network.

use serde_json::{Value, json};
use warren_core::network::Protocol;
use warren_core::{NetworkEntry, NetworkVerdict, SandboxId, Scope};

use super::client::{Era, call, last_message, message, message_of, result, text, with_sandbox};
use crate::support::{Answer, TestServer, eventually};

fn tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn ask(server: &TestServer, path: &str, method: &str, params: Value, able: Value) -> Answer {
    message_of(server, path, Era::Stateless, (method, params, able)).pass()
}

#[test]
fn a_client_that_knows_tasks_gets_one_for_what_takes_long() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let begin = json!({"name": "bash", "arguments": {"command": "sleep 1000", "wait_ms": 1}});
    let begun = result(&ask(&server, &path, "tools/call", begin.clone(), tasks()));
    assert_eq!((&begun["resultType"], &begun["status"]), (&json!("task"), &json!("working")), "{begun}");
    let task = begun["taskId"].as_str().unwrap();
    let get = || result(&ask(&server, &path, "tasks/get", json!({"taskId": task}), tasks()));
    assert_eq!(get()["status"], "working");
    result(&ask(&server, &path, "tasks/cancel", json!({"taskId": task}), tasks()));
    eventually("it is over", || get()["status"] == "completed");
    let over = get();
    let shown = over["result"]["content"][0]["text"].as_str().unwrap();
    assert!(shown.contains("killed by signal 9") && shown.contains("undo(to="), "{over}");
    let plain = result(&ask(&server, &path, "tools/call", begin, json!({})));
    assert!(text(&plain).contains("runs on"), "{plain}");
}

#[test]
fn a_task_of_another_is_none() {
    let (server, id) = with_sandbox();
    let begin = json!({"name": "bash", "arguments": {"command": "sleep 1000", "wait_ms": 1}});
    let begun = result(&ask(&server, "/mcp", "tools/call", begin, tasks()));
    let task = begun["taskId"].as_str().unwrap();
    let stranger = server.key("stranger", Scope::Use);
    let other = call(&server, "/mcp", Era::Stateless, "sandbox", json!({"action": "create"}));
    let pinned = format!("/mcp/{}", other["structuredContent"]["sandbox_id"].as_str().unwrap());
    for method in ["tasks/get", "tasks/cancel"] {
        let params = json!({"taskId": task});
        let asked = message_of(&server, "/mcp", Era::Stateless, (method, params.clone(), tasks()));
        let foreign = asked.without("Authorization").key(&stranger).pass();
        assert_eq!(last_message(&foreign)["error"]["code"], -32602, "{method}");
        assert_eq!(last_message(&ask(&server, &pinned, method, params, tasks()))["error"]["code"], -32602);
        for wrong in ["", "x", "sbx.1.1", &format!("{id}.999.0"), &format!("{task}.1"), &"9".repeat(4000)] {
            let answer = ask(&server, "/mcp", method, json!({"taskId": wrong}), tasks());
            assert_eq!(last_message(&answer)["error"]["code"], -32602, "{wrong}");
        }
        let unable = ask(&server, "/mcp", method, json!({"taskId": task}), json!({}));
        assert_eq!(last_message(&unable)["error"]["code"], -32021, "{method}");
    }
    let running = server.call("GET", &format!("/v1/sandboxes/{id}/processes")).send().expect(200).json();
    assert_eq!(running["items"][0]["status"], "running", "nobody ended it");
}

/// A sandbox that asks before it goes anywhere, with a command that waits there.
struct Asking {
    server: TestServer,
    id: SandboxId,
    path: String,
}

impl Asking {
    fn new() -> Self {
        let server = TestServer::start();
        let body = json!({"network": {"mode": "ask", "allow": ["a.example"]}});
        let made = server.call("POST", "/v1/sandboxes").json(&body).send().expect(201).json();
        let id: SandboxId = made["sandbox_id"].as_str().unwrap().parse().unwrap();
        let path = format!("/mcp/{id}");
        Self { server, id, path }
    }

    fn tries(&self, host: &str) {
        let entry = NetworkEntry {
            verdict: NetworkVerdict::Asked,
            protocol: Protocol::Tcp,
            host: Some(host.to_owned()),
            address: Some("192.0.2.7".parse().unwrap()),
            port: 443,
            rule: "not in the allow list".to_owned(),
            process: Some("curl".to_owned()),
            count: 1,
        };
        self.server.networks.act(&self.id, entry);
    }

    fn call(&self, extra: Value, able: Value) -> Value {
        let mut params = json!({"name": "bash", "arguments": {"command": "sleep 1000", "wait_ms": 20_000}});
        for (name, value) in extra.as_object().unwrap() {
            params[name] = value.clone();
        }
        result(&ask(&self.server, &self.path, "tools/call", params, able))
    }

    fn policy(&self) -> Value {
        let status = self.server.call("GET", &format!("/v1/sandboxes/{}/network", self.id)).send();
        status.expect(200).json()["policy"].clone()
    }
}

#[test]
fn leave_to_reach_the_network_is_asked_for_in_the_middle_of_a_call() {
    let asking = Asking::new();
    asking.tries("b.example");
    let able = json!({"elicitation": {"form": {}}});
    let asked = asking.call(json!({}), able.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (name, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("b.example:443"), "{question}");
    let processes = || {
        let path = format!("/v1/sandboxes/{}/processes", asking.id);
        asking.server.call("GET", &path).send().expect(200).json()["items"].as_array().unwrap().len()
    };
    assert_eq!(processes(), 1);
    let answers = json!({name: {"action": "accept", "content": {"allow": "hour"}}});
    let arguments = json!({"command": "sleep 1000", "wait_ms": 1});
    let again =
        json!({"arguments": arguments, "requestState": asked["requestState"], "inputResponses": answers});
    let told = asking.call(again, able);
    assert!(text(&told).contains("runs on") && text(&told).contains("undo(to="), "{told}");
    assert_eq!(processes(), 1, "it is not begun again");
    assert_eq!(asking.policy()["grants"][0]["rule"], "b.example:443");
}

#[test]
fn who_cannot_be_asked_is_told_and_a_forged_state_opens_nothing() {
    let asking = Asking::new();
    asking.tries("b.example");
    let arguments = json!({"arguments": {"command": "sleep 1000", "wait_ms": 1}});
    let told = asking.call(arguments, json!({}));
    assert!(text(&told).contains("waits for leave to reach b.example:443"), "{told}");
    let able = json!({"elicitation": {}});
    for state in ["", "x", "1", "-1.0", "99999999999999999999.0"] {
        let refused = asking.call(json!({"requestState": state, "inputResponses": {}}), able.clone());
        assert_eq!(refused["_meta"]["warren/field"], "requestState", "{state}: {refused}");
    }
    let gone = asking.call(json!({"requestState": "77.0", "inputResponses": {}}), able);
    assert_eq!(gone["_meta"]["warren/code"], "process_not_found");
    assert!(asking.policy().get("grants").is_none_or(|grants| grants.as_array().is_none_or(Vec::is_empty)));
    let older = message(
        &asking.server,
        &asking.path,
        Era::Handshake,
        "tools/call",
        json!({
            "name": "bash", "arguments": {"command": "sleep 1000", "wait_ms": 1}
        }),
    );
    assert!(text(&result(&older.pass())).contains("waits for leave"), "an older client is never asked");
}
