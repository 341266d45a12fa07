//! Resources and prompts.

use serde_json::{Value, json};
use warren_core::Scope;

use super::client::{ERAS, Era, call, last_message, message, result, text, with_sandbox};
use crate::support::TestServer;

fn read(server: &TestServer, path: &str, era: Era, uri: &str) -> Value {
    last_message(&message(server, path, era, "resources/read", json!({"uri": uri})).pass())
}

#[test]
fn files_outputs_and_journals_are_read_by_name() {
    let (server, id) = with_sandbox();
    call(&server, "/mcp", Era::Stateless, "write", json!({"path": "/home/user/a b", "content": "hello\n"}));
    let ran = call(&server, "/mcp", Era::Stateless, "bash", json!({"command": "echo hello"}));
    let process = &ran["_meta"]["warren/process"];
    for era in ERAS {
        let content = |uri: String| read(&server, "/mcp", era, &uri)["result"]["contents"][0].clone();
        assert_eq!(content(format!("warren://{id}/files/home/user/a%20b"))["text"], "hello\n");
        assert!(
            content(format!("warren://{id}/output/{process}"))["text"].as_str().unwrap().contains("hello")
        );
        let journal = content(format!("warren://{id}/journal"));
        assert_eq!(journal["mimeType"], "application/json");
        let entries: Value = serde_json::from_str(journal["text"].as_str().unwrap()).unwrap();
        assert!(entries.as_array().unwrap().len() >= 2, "{entries}");
        let listed = result(&message(&server, "/mcp", era, "resources/list", json!({})).pass());
        assert_eq!(listed["resources"][0]["uri"], format!("warren://{id}/journal"));
        let templates = result(&message(&server, "/mcp", era, "resources/templates/list", json!({})).pass());
        assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn what_is_no_resource_or_anothers_is_not_found() {
    let (server, id) = with_sandbox();
    let other = call(&server, "/mcp", Era::Stateless, "sandbox", json!({"action": "create"}));
    let other = other["structuredContent"]["sandbox_id"].as_str().unwrap();
    let code = |path: &str, era: Era, uri: &str| read(&server, path, era, uri)["error"]["code"].clone();
    for uri in ["warren://x", "file:///etc/passwd", "warren://../files/etc", "warren://nobody/journal"] {
        assert_eq!(code("/mcp", Era::Stateless, uri), -32602, "{uri}");
    }
    let told = read(&server, "/mcp", Era::Stateless, "warren://nobody/journal");
    assert_eq!(told["error"]["data"]["uri"], "warren://nobody/journal");
    assert_eq!(code("/mcp", Era::Handshake, "warren://nobody/journal"), -32002);
    let pinned = format!("/mcp/{id}");
    assert_eq!(code(&pinned, Era::Stateless, &format!("warren://{other}/journal")), -32602);
    let stranger = server.key("stranger", Scope::Use);
    let params = json!({"uri": format!("warren://{id}/journal")});
    let asked = message(&server, "/mcp", Era::Stateless, "resources/read", params).without("Authorization");
    assert_eq!(last_message(&asked.key(&stranger).pass())["error"]["code"], -32602);
}

#[test]
fn output_that_is_cut_says_where_all_of_it_is() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let content = "0123456789\n".repeat(200);
    let arguments = json!({"command": format!("echo {content}"), "max_output_bytes": 200});
    let ran = call(&server, &path, Era::Stateless, "bash", arguments);
    let link = &ran["content"][1];
    assert_eq!(
        (&link["type"], &ran["_meta"]["warren/truncated"]),
        (&json!("resource_link"), &json!(true)),
        "{ran}"
    );
    assert!(text(&ran).contains("bytes left out"), "{ran}");
    let whole = read(&server, &path, Era::Stateless, link["uri"].as_str().unwrap());
    let whole = whole["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    assert!(whole.len() > 2000, "{}", whole.len());
}

#[test]
fn prompts_are_filled_in_and_ask_for_what_they_need() {
    let server = TestServer::start();
    for era in ERAS {
        let listed = result(&message(&server, "/mcp", era, "prompts/list", json!({})).pass());
        let names: Vec<&str> = listed["prompts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|prompt| prompt["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["set_up_project", "find_what_broke_it", "try_safely"]);
        let params = json!({"name": "find_what_broke_it", "arguments": {"check": "make test"}});
        let filled = result(&message(&server, "/mcp", era, "prompts/get", params).pass());
        assert!(filled["messages"][0]["content"]["text"].as_str().unwrap().contains("make test"), "{filled}");
        for params in [json!({"name": "find_what_broke_it"}), json!({"name": "no"})] {
            let refused = last_message(&message(&server, "/mcp", era, "prompts/get", params).pass());
            assert_eq!(refused["error"]["code"], -32602);
        }
    }
}
