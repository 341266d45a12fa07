use serde_json::{Value, json};

use super::client::{ERAS, Era, call, text, with_sandbox};
use crate::support::TestServer;

fn meta<'a>(result: &'a Value, name: &str) -> &'a Value {
    &result["_meta"][format!("warren/{name}")]
}

#[test]
fn an_agent_writes_reads_and_runs() {
    for era in ERAS {
        let (server, id) = with_sandbox();
        for path in ["/mcp".to_owned(), format!("/mcp/{id}")] {
            let use_tool = |tool: &str, arguments: Value| call(&server, &path, era, tool, arguments);
            let wrote = use_tool("write", json!({"path": "/home/user/a", "content": "hello\n"}));
            assert_eq!(wrote["isError"], false, "{wrote}");
            let read = use_tool("read", json!({"path": "/home/user/a"}));
            assert!(text(&read).contains("hello") && read.get("structuredContent").is_none(), "{read}");
            assert!(!text(&read).contains("undo"), "a look changes nothing: {read}");
            let listed = use_tool("ls", json!({"path": "/home/user"}));
            assert!(text(&listed).contains('a'), "{listed}");
            let ran = use_tool("bash", json!({"command": "echo hello"}));
            assert!(text(&ran).starts_with("hello\n"), "{ran}");
            assert_eq!((meta(&ran, "exit_code"), meta(&ran, "sandbox")), (&json!(0), &json!(id)));
        }
    }
}

#[test]
fn every_change_says_how_it_is_taken_back() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let wrote =
        call(&server, &path, Era::Stateless, "write", json!({"path": "/home/user/a", "content": "1"}));
    let first = meta(&wrote, "entry").as_u64().expect("a number");
    assert!(text(&wrote).ends_with(&format!("[#{first} · undo(to={}) takes it back]", first - 1)), "{wrote}");
    let again =
        call(&server, &path, Era::Stateless, "write", json!({"path": "/home/user/a", "content": "22"}));
    let second = meta(&again, "entry").as_u64().expect("a number");
    assert_eq!(second, first + 1);
    let undone = call(&server, &path, Era::Stateless, "undo", json!({"to": first.to_string()}));
    assert_eq!(undone["isError"], false, "{undone}");
    assert!(text(&undone).contains("takes it back]"), "{undone}");
    let journal = server.call("GET", &format!("/v1/sandboxes/{id}/journal")).send().expect(200).json();
    let newest = &journal["items"][0];
    assert_eq!((&newest["number"], &newest["action"]), (meta(&undone, "entry"), &json!("rollback")));
}

#[test]
fn a_program_that_fails_is_an_answer_and_a_tool_that_fails_an_error() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let failed = call(&server, &path, Era::Stateless, "bash", json!({"command": "fail"}));
    assert_eq!((&failed["isError"], meta(&failed, "exit_code")), (&json!(false), &json!(3)));
    assert!(text(&failed).contains("[exit code 3]"), "{failed}");
    let missing = call(&server, &path, Era::Stateless, "read", json!({"path": "/nothing"}));
    assert_eq!(missing["isError"], true, "{missing}");
}

#[test]
fn a_command_that_takes_long_goes_on_and_is_named() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    for arguments in
        [json!({"command": "sleep 1000", "wait_ms": 1}), json!({"command": "sleep 1000", "background": true})]
    {
        let begun = call(&server, &path, Era::Handshake, "bash", arguments);
        let process = meta(&begun, "process").as_u64().expect("a process");
        assert!(text(&begun).contains(&format!("process {process} runs on")), "{begun}");
        assert!(meta(&begun, "exit_code").is_null() && meta(&begun, "entry").is_u64(), "{begun}");
        let found = format!("/v1/sandboxes/{id}/processes/{process}");
        assert_eq!(server.call("GET", &found).send().expect(200).json()["status"], "running");
    }
}

#[test]
fn sandboxes_are_made_found_and_ended() {
    let (server, first) = with_sandbox();
    let use_tool = |arguments: Value| call(&server, "/mcp", Era::Stateless, "sandbox", arguments);
    let made = use_tool(json!({"action": "create", "name": "web", "ttl_s": 60}));
    assert_eq!(
        (&made["structuredContent"]["name"], &made["structuredContent"]["default"]),
        (&json!("web"), &json!(false))
    );
    let listed = use_tool(json!({"action": "list"}));
    let of = |name: &Value| {
        let items = listed["structuredContent"]["sandboxes"].as_array().unwrap();
        items.iter().find(|item| item["sandbox_id"] == *name).cloned().unwrap_or_default()
    };
    assert_eq!(
        (of(&json!(first))["default"].clone(), listed["structuredContent"]["more"].clone()),
        (json!(true), json!(false))
    );
    assert_eq!(use_tool(json!({"action": "info", "sandbox": "web"}))["structuredContent"]["status"], "ready");
    let forked = use_tool(json!({"action": "fork", "sandbox": "web", "name": "copy"}));
    assert_eq!(forked["structuredContent"]["name"], "copy", "{forked}");
    assert_eq!(
        use_tool(json!({"action": "remove"}))["isError"],
        true,
        "the default one is not removed by chance"
    );
    assert_eq!(use_tool(json!({"action": "remove", "sandbox": "web"}))["isError"], false);
    assert_eq!(use_tool(json!({"action": "info", "sandbox": "web"}))["isError"], true);
    let pinned =
        call(&server, &format!("/mcp/{first}"), Era::Stateless, "sandbox", json!({"action": "create"}));
    assert_eq!(meta(&pinned, "field"), "action");
}

#[test]
fn without_a_sandbox_a_tool_says_how_to_get_one() {
    let server = TestServer::start();
    let refused = call(&server, "/mcp", Era::Stateless, "bash", json!({"command": "true"}));
    assert_eq!((&refused["isError"], meta(&refused, "code")), (&json!(true), &json!("no_default_sandbox")));
    assert!(text(&refused).contains("sandbox(action=\"create\")"), "{refused}");
}

#[test]
fn a_call_that_is_repeated_under_its_own_id_is_made_once() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    let params = json!({
        "name": "write", "arguments": {"path": "/home/user/a", "content": "1"}, "_meta": {"warren/call": "one"}
    });
    let ask = || {
        let asked = super::client::message(&server, &path, Era::Stateless, "tools/call", params.clone());
        super::client::result(&asked.pass())
    };
    let (first, again) = (ask(), ask());
    assert_eq!(meta(&first, "entry"), meta(&again, "entry"));
}
