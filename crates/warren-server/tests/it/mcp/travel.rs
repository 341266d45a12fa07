use serde_json::{Value, json};

use super::client::{Era, call, text, with_sandbox};
use crate::support::{TestServer, eventually};

fn meta<'a>(result: &'a Value, name: &str) -> &'a Value {
    &result["_meta"][format!("warren/{name}")]
}

fn write(server: &TestServer, path: &str, content: &str) -> u64 {
    let arguments = json!({"path": "/home/user/a", "content": content});
    let wrote = call(server, path, Era::Stateless, "write", arguments);
    meta(&wrote, "entry").as_u64().expect("a number")
}

fn content(server: &TestServer, path: &str) -> String {
    let read = call(server, path, Era::Stateless, "read", json!({"path": "/home/user/a"}));
    text(&read).to_owned()
}

#[test]
fn history_has_the_numbers_and_checkpoints_that_undo_takes() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let use_tool = |tool: &str, arguments: Value| call(&server, &path, Era::Stateless, tool, arguments);
    write(&server, &path, "one");
    let named = use_tool("checkpoint", json!({"name": "green"}));
    assert!(text(&named).contains("undo(to=\"green\")"), "{named}");
    let second = write(&server, &path, "two");
    let told = use_tool("history", json!({}));
    let history = &told["structuredContent"];
    assert_eq!(history["entries"][0]["entry"], second, "{told}");
    assert!(history["entries"][0]["did"].as_str().unwrap().starts_with("write "), "{told}");
    assert_eq!(history["checkpoints"][0]["name"], "green");
    assert_eq!(serde_json::from_str::<Value>(text(&told)).unwrap(), *history);
    let taken = use_tool("checkpoint", json!({"name": "green"}));
    assert_eq!(meta(&taken, "code"), "snapshot_name_taken");
    let undone = use_tool("undo", json!({"to": "green"}));
    assert!(text(&undone).contains("`green`"), "{undone}");
    assert!(content(&server, &path).contains("one"));
    let before = use_tool("history", json!({"before": second, "limit": 1}));
    assert!(before["structuredContent"]["entries"][0]["entry"].as_u64().unwrap() < second);
}

#[test]
fn an_undo_is_undone_by_what_it_says() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let first = write(&server, &path, "one");
    write(&server, &path, "two");
    let undone = call(&server, &path, Era::Handshake, "undo", json!({}));
    assert!(content(&server, &path).contains("one"), "{undone}");
    assert!(text(&undone).contains("undo(redo=true) takes it back"), "{undone}");
    call(&server, &path, Era::Handshake, "undo", json!({"redo": true}));
    assert!(content(&server, &path).contains("two"));
    call(&server, &path, Era::Handshake, "undo", json!({"to": first}));
    assert!(content(&server, &path).contains("one"));
}

#[test]
fn a_diff_is_a_patch_of_the_last_change_or_of_two_states() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let fresh = call(&server, &path, Era::Stateless, "diff", json!({}));
    assert_eq!(fresh["isError"], false, "{fresh}");
    let first = write(&server, &path, "one\n");
    write(&server, &path, "two\n");
    let last = call(&server, &path, Era::Stateless, "diff", json!({}));
    assert!(text(&last).contains("/home/user/a"), "{last}");
    let between = json!({"from": (first - 1).to_string(), "to": first.to_string(), "path": "/home"});
    let older = call(&server, &path, Era::Stateless, "diff", between);
    assert!(text(&older).contains("/home/user/a"), "{older}");
    let wrong = call(&server, &path, Era::Stateless, "diff", json!({"from": "nothing"}));
    assert_eq!((meta(&wrong, "field"), meta(&wrong, "code")), (&json!("from"), &json!("snapshot_not_found")));
}

#[test]
fn a_try_keeps_what_passes_and_drops_the_rest() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    write(&server, &path, "one");
    let sandboxes =
        || server.call("GET", "/v1/sandboxes").send().expect(200).json()["items"].as_array().unwrap().len();
    let count = sandboxes();
    for (arguments, kept) in [
        (json!({"command": "true"}), true),
        (json!({"command": "fail"}), false),
        (json!({"command": "true", "check": "fail"}), false),
        (json!({"command": "sleep 1000", "timeout_ms": 50}), false),
    ] {
        let tried = call(&server, &path, Era::Stateless, "try", arguments.clone());
        assert_eq!((&tried["isError"], meta(&tried, "kept")), (&json!(false), &json!(kept)), "{tried}");
    }
    eventually("no fork is left", || sandboxes() == count);
    assert!(content(&server, &path).contains("one"));
}

#[test]
fn processes_are_listed_read_written_to_and_ended() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let use_tool = |arguments: Value| call(&server, &path, Era::Stateless, "process", arguments);
    let begun =
        call(&server, &path, Era::Stateless, "bash", json!({"command": "sleep 1000", "background": true}));
    let process = meta(&begun, "process").as_u64().expect("a process");
    let listed = use_tool(json!({"action": "list"}));
    let first = &listed["structuredContent"]["processes"][0];
    assert_eq!((&first["id"], &first["running"]), (&json!(process), &json!(true)), "{listed}");
    let waited = use_tool(json!({"action": "wait", "id": process, "wait_ms": 1}));
    assert!(text(&waited).contains("runs on"), "{waited}");
    let read = use_tool(json!({"action": "output", "id": process}));
    assert!(text(&read).contains("runs on"), "{read}");
    let signalled = use_tool(json!({"action": "signal", "id": process, "signal": "SIGKILL"}));
    assert_eq!(signalled["isError"], false, "{signalled}");
    let ended = use_tool(json!({"action": "wait", "id": process}));
    assert!(meta(&ended, "exit_code").is_number(), "{ended}");
    let gone = use_tool(json!({"action": "wait", "id": 999}));
    assert_eq!(meta(&gone, "code"), "process_not_found");
    for (arguments, field) in [
        (json!({"action": "eat"}), "action"),
        (json!({"action": "wait"}), "id"),
        (json!({"action": "signal", "id": process, "signal": "9"}), "signal"),
        (json!({"action": "input", "id": process}), "text"),
        (json!({"action": "output", "id": process, "since": -1}), "since"),
    ] {
        assert_eq!(meta(&use_tool(arguments), "field"), field);
    }
}

#[test]
fn a_link_to_a_port_opens_it_for_a_while() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let made = call(&server, &path, Era::Stateless, "port", json!({"port": 8000, "expires_in_s": 60}));
    let url = text(&made).lines().next().unwrap();
    assert!(
        url.starts_with(&format!("http://8000-{id}.localhost:")) && url.contains("?warren-link="),
        "{made}"
    );
    assert!(text(&made).contains("nobody listens"), "{made}");
    let (host, rest) = url.trim_start_matches("http://").split_once('/').unwrap();
    let visited = server.visitor("GET", &format!("/{rest}"), host).pass();
    assert!(![401, 403].contains(&visited.status), "the link is believed");
    let forged = server.visitor("GET", &format!("/{}", rest.replace("warren-link=1", "warren-link=2")), host);
    assert_eq!(forged.pass().status, 401);
}
