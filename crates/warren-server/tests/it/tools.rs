use std::io::Read as _;
use std::net::Shutdown;

use serde_json::{Value, json};

use crate::exec::events;
use crate::support::{Answer, Call, TestServer, eventually};

fn sandbox() -> (TestServer, String) {
    let server = TestServer::start();
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}/tools", made["sandbox_id"].as_str().unwrap());
    (server, path)
}

fn call(server: &TestServer, path: &str, tool: &str, body: &Value) -> Answer {
    request(server, path, tool, body).send()
}

fn request(server: &TestServer, path: &str, tool: &str, body: &Value) -> Call {
    server.call("POST", &format!("{path}/{tool}")).json(body)
}

#[test]
fn every_tool_says_what_it_takes() {
    let (server, _) = sandbox();
    let tools = server.call("GET", "/v1/tools").send().expect(200).json();
    let names: Vec<&str> =
        tools["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["bash", "read", "write", "edit", "ls", "glob", "grep", "python"] {
        assert!(names.contains(&name), "{name}");
    }
    for tool in tools["items"].as_array().unwrap() {
        assert_eq!(tool["parameters"]["type"], "object", "{tool}");
        assert!([1, 2].contains(&tool["tier"].as_u64().unwrap()), "{tool}");
    }
}

#[test]
fn a_tool_answers_with_content() {
    let (server, path) = sandbox();
    let written =
        call(&server, &path, "write", &json!({"params": {"path": "/home/user/a", "content": "hello\n"}}));
    assert_eq!(written.expect(200).json()["is_error"], false);
    let read = call(&server, &path, "read", &json!({"params": {"path": "/home/user/a"}})).expect(200).json();
    assert!(read["content"][0]["text"].as_str().unwrap().contains("hello"), "{read}");
    assert_eq!((&read["content"][0]["type"], &read["tier"]), (&json!("text"), &json!(1)));
    let ran = call(&server, &path, "bash", &json!({"params": {"command": "fail"}})).expect(200).json();
    assert_eq!((&ran["exit_code"], &ran["is_error"], &ran["tier"]), (&json!(3), &json!(true), &json!(2)));
    assert!(ran.get("snapshot_id").is_none());
}

#[test]
fn a_repeated_call_gets_the_first_answer() {
    let (server, path) = sandbox();
    let body = json!({"call_id": "call-1", "params": {"command": "echo hello"}});
    let first = call(&server, &path, "bash", &body).expect(200).json();
    let again = call(&server, &path, "bash", &body).expect(200).json();
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    assert_eq!(first["content"], again["content"]);
    let other = json!({"call_id": "call-1", "params": {"command": "echo other"}});
    let refused = call(&server, &path, "bash", &other);
    assert!([409, 422].contains(&refused.status), "{}", refused.status);
}

#[test]
fn what_a_tool_writes_is_told_as_it_comes() {
    let (server, path) = sandbox();
    let body = json!({"params": {"command": "echo hello"}});
    for stream in [
        request(&server, &path, "bash", &body).header("Accept", "text/event-stream"),
        request(&server, &path, "bash", &json!({"params": {"command": "echo hello"}, "stream": true})),
    ] {
        let answer = stream.send().expect(200);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        let told = events(&answer.body);
        let names: Vec<&str> = told.iter().map(|(name, _, _)| name.as_str()).collect();
        assert_eq!(names, ["stdout", "result"]);
        assert_eq!((&told[0].2["text"], &told[1].2["exit_code"]), (&json!("hello\n"), &json!(0)));
    }
}

#[test]
fn a_stream_that_fails_says_why() {
    let (server, path) = sandbox();
    let wrong = request(&server, &path, "bash", &json!({"params": {}})).header("Accept", "text/event-stream");
    let told = events(&wrong.send().expect(200).body);
    assert_eq!((told[0].0.as_str(), &told[0].2["code"]), ("error", &json!("invalid_value")));
    let nobody = path.replace(path.split('/').nth(3).unwrap(), "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let missing = request(&server, &nobody, "bash", &json!({"params": {}}));
    missing.header("Accept", "text/event-stream").send().expect(404);
}

#[test]
fn a_tool_runs_on_when_its_client_goes() {
    let (server, path) = sandbox();
    let body = json!({"call_id": "long", "params": {"command": "sleep 1000"}});
    let mut client = request(&server, &path, "bash", &body).open();
    let processes = path.replace("/tools", "/processes");
    let running = || server.call("GET", &processes).send().expect(200).json()["items"][0].clone();
    eventually("the tool runs", || running()["status"] == "running");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0; 64]).unwrap(), 0, "the server has let go of its client");
    let process = running();
    assert_eq!(process["status"], "running", "{process}");
    server.call("DELETE", &format!("{processes}/{}", process["process_id"])).send().expect(204);
    let again = call(&server, &path, "bash", &body).expect(200).json();
    assert_eq!((&again["is_error"], &again["repeated"]), (&json!(true), &json!(true)));
}

#[test]
fn wrong_calls_name_the_field() {
    let (server, path) = sandbox();
    let cases = [
        ("bash", json!({"params": []}), "params"),
        ("bash", json!({"params": "ls"}), "params"),
        ("bash", json!({"params": {}, "timeout_ms": 0}), "timeout_ms"),
        ("bash", json!({"params": {}, "max_output_bytes": 0}), "max_output_bytes"),
        ("bash", json!({"params": {}, "memory_bytes": 5}), "memory_bytes"),
        ("bash", json!({"params": {}, "call_id": "a b"}), "call_id"),
        ("bash", json!({"params": {}, "session_id": "x"}), "session_id"),
        ("bash", json!({"params": {}, "surprise": 1}), "surprise"),
    ];
    for (tool, body, field) in cases {
        let answer = call(&server, &path, tool, &body).expect(422).json();
        assert_eq!(answer["field"], field, "{body}: {answer}");
    }
    let params = call(&server, &path, "bash", &json!({"params": {"command": 7}})).expect(422).json();
    assert!(params["field"].as_str().unwrap().contains("command"), "{params}");
}

#[test]
fn a_tool_that_does_not_exist_is_not_found() {
    let (server, path) = sandbox();
    for tool in ["nothing", "BASH", "%2e%2e", "a%00b", &"x".repeat(500)] {
        let answer = call(&server, &path, tool, &json!({"params": {}})).expect(404);
        assert_eq!(answer.code(), "tool_not_found", "{tool}");
    }
}

#[test]
fn tool_calls_are_counted_by_tool() {
    let (server, path) = sandbox();
    call(&server, &path, "bash", &json!({"params": {"command": "true"}})).expect(200);
    call(&server, &path, "no-such-tool", &json!({"params": {}})).expect(404);
    let text = String::from_utf8(server.call("GET", "/metrics").send().expect(200).body).unwrap();
    assert!(text.contains(r#"warren_tool_seconds_count{tool="bash",failed="false"} 1"#), "{text}");
    assert!(!text.contains("no-such-tool"));
}
