use std::io::Read as _;
use std::time::Instant;

use serde_json::{Value, json};
use warren_core::Scope;

use crate::support::{Answer, Call, SOON, TestServer, until_closed};

/// A server with one sandbox, and the path to it.
fn sandbox() -> (TestServer, String) {
    let server = TestServer::start();
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}", made["sandbox_id"].as_str().unwrap());
    (server, path)
}

fn exec(server: &TestServer, path: &str, body: &Value) -> Answer {
    server.call("POST", &format!("{path}/exec")).json(body).send()
}

fn streamed(server: &TestServer, path: &str, body: &Value) -> Call {
    server.call("POST", &format!("{path}/exec")).header("Accept", "text/event-stream").json(body)
}

/// Name, id and data of each event.
pub(crate) fn events(body: &[u8]) -> Vec<(String, Option<u64>, Value)> {
    let text = std::str::from_utf8(body).expect("events are text");
    let blocks = text.split("\n\n").filter(|block| block.contains("data:"));
    let field = |block: &str, name: &str| {
        let lines = block.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).next()
    };
    blocks
        .map(|block| {
            let data = serde_json::from_str(&field(block, "data").unwrap()).expect("the data is JSON");
            let id = field(block, "id").map(|id| id.parse().expect("an id is a number"));
            (field(block, "event").unwrap_or_default(), id, data)
        })
        .collect()
}

#[test]
fn a_command_is_run_to_its_end() {
    let (server, path) = sandbox();
    let answer = exec(&server, &path, &json!({"command": ["echo", "hello"]})).expect(200).json();
    assert_eq!((&answer["exit_code"], &answer["cause"]), (&json!(0), &json!("exited")));
    assert_eq!((&answer["stdout"], &answer["stdout_bytes"]), (&json!("hello\n"), &json!(6)));
    assert_eq!(answer["stdout_truncated"], false);
    assert!(answer.get("signal").is_none());
    let failed = exec(&server, &path, &json!({"command": "fail"})).expect(200).json();
    assert_eq!((&failed["exit_code"], &failed["stderr"]), (&json!(3), &json!("failed\n")));
}

#[test]
fn a_command_finds_its_input_and_its_variables() {
    let (server, path) = sandbox();
    let text = exec(&server, &path, &json!({"command": ["cat"], "stdin": "käse"})).expect(200).json();
    assert_eq!(text["stdout"], "käse");
    let body = json!({"command": ["cat"], "stdin_base64": "/wA=", "encoding": "base64"});
    let bytes = exec(&server, &path, &body).expect(200).json();
    assert_eq!((&bytes["stdout"], &bytes["encoding"]), (&json!("/wA="), &json!("base64")));
    let env = exec(&server, &path, &json!({"command": ["env"], "env": {"A": "b c"}})).expect(200).json();
    assert!(env["stdout"].as_str().unwrap().contains("A=b c\n"), "{env}");
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let (server, path) = sandbox();
    let body = json!({"command": ["sleep", "60"], "timeout_s": 1});
    let answer = exec(&server, &path, &body).expect(200).json();
    assert_eq!(answer["cause"], "timed_out");
}

#[test]
fn too_much_output_is_cut_in_the_middle() {
    let (server, path) = sandbox();
    let body = json!({"command": ["yes", "100000"], "max_output_bytes": 100});
    let answer = exec(&server, &path, &body).expect(200).json();
    assert_eq!((&answer["stdout_bytes"], &answer["stdout_truncated"]), (&json!(200_000), &json!(true)));
    let text = answer["stdout"].as_str().unwrap();
    assert!(text.contains("199900 bytes left out") && text.len() < 200, "{text}");
}

#[test]
fn what_cannot_be_run_is_refused_by_field() {
    let (server, path) = sandbox();
    for (body, field) in [
        (json!({"command": []}), "command"),
        (json!({"command": 5}), "command"),
        (json!({}), "command"),
        (json!({"command": "true", "timeout_s": 0}), "timeout_s"),
        (json!({"command": "true", "env": {"A=B": "c"}}), "env"),
        (json!({"command": "true", "comand": 1}), "comand"),
        (json!({"command": "true", "stdin": "a", "stdin_base64": "YQ=="}), "stdin_base64"),
    ] {
        let refused = exec(&server, &path, &body).expect(422).json();
        assert_eq!(refused["field"], field, "{body}");
    }
    server.call("POST", &format!("{path}/exec")).body("{}").send().expect(415);
}

#[test]
fn another_owners_sandbox_is_not_there() {
    let (server, path) = sandbox();
    let key = server.key("other", Scope::Admin);
    for accept in ["application/json", "text/event-stream"] {
        let call = server.stranger("POST", &format!("{path}/exec")).key(&key).header("Accept", accept);
        let refused = call.json(&json!({"command": "true"})).send().expect(404);
        assert_eq!(refused.code(), "sandbox_not_found");
    }
    let reader = server.key("default", Scope::Read);
    let call = server.stranger("POST", &format!("{path}/exec")).key(&reader);
    call.json(&json!({"command": "true"})).send().expect(403);
}

#[test]
fn a_streamed_command_tells_all_in_order() {
    let (server, path) = sandbox();
    let answer =
        streamed(&server, &path, &json!({"command": ["cat"], "stdin": "one two"})).send().expect(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = events(&answer.body);
    let names: Vec<&str> = events.iter().map(|(name, _, _)| name.as_str()).collect();
    assert_eq!(names, ["started", "stdout", "exited"]);
    assert_eq!(events[0].2["position"], 0);
    assert_eq!((&events[1].1, &events[1].2), (&Some(7), &json!({"position": 0, "data": "one two"})));
    assert_eq!(events[2].2["exit_code"], 0);
}

#[test]
fn a_stream_ends_soon_after_its_key_is_revoked_or_the_server_ends() {
    let (server, path) = sandbox();
    let made =
        server.call("POST", "/v1/keys").json(&json!({"name": "a", "scope": "use"})).send().expect(201).json();
    let body = json!({"command": ["sleep", "60"]});
    let open = |key: &str| {
        let call = server.stranger("POST", &format!("{path}/exec")).key(key);
        let mut stream = call.header("Accept", "text/event-stream").json(&body).open();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    };
    let (mut revoked, mut kept) = (open(made["key"].as_str().unwrap()), open(&server.admin));
    server.call("DELETE", &format!("/v1/keys/{}", made["key_id"].as_str().unwrap())).send().expect(200);
    assert!(until_closed(&mut revoked) < SOON);
    let began = Instant::now();
    server.begin_shutdown();
    let mut rest = Vec::new();
    kept.read_to_end(&mut rest).unwrap();
    assert!(began.elapsed() < SOON);
    assert!(String::from_utf8_lossy(&rest).contains("shutting_down"));
}

#[test]
fn a_client_that_leaves_does_not_end_its_command() {
    let (server, path) = sandbox();
    let mut stream = streamed(&server, &path, &json!({"command": ["sleep", "60"], "tag": "long"})).open();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    drop(stream);
    let process = server.call("GET", &format!("{path}/processes/tag:long")).send().expect(200).json();
    assert_eq!(process["status"], "running");
}

#[test]
fn a_sandbox_that_ends_ends_its_commands() {
    let (server, path) = sandbox();
    let mut stream = streamed(&server, &path, &json!({"command": ["sleep", "60"]})).open();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    server.call("DELETE", &path).send().expect(200);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("event: error") && rest.contains("sandbox_ended"), "{rest}");
}
