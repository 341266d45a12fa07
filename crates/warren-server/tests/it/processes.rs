use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};
use warren_core::Scope;

use crate::exec::events;
use crate::support::{Answer, SOON, TestServer, until_read};

/// A server with one sandbox, and the path to its processes.
fn processes() -> (TestServer, String) {
    let server = TestServer::start();
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}/processes", made["sandbox_id"].as_str().unwrap());
    (server, path)
}

fn start(server: &TestServer, path: &str, body: &Value) -> Value {
    server.call("POST", path).json(body).send().expect(201).json()
}

fn post(server: &TestServer, path: &str, body: &Value) -> Answer {
    server.call("POST", path).json(body).send()
}

#[test]
fn a_process_is_started_listed_and_killed() {
    let (server, path) = processes();
    let started = start(&server, &path, &json!({"command": ["sleep", "60"], "tag": "nap"}));
    assert_eq!((&started["status"], &started["command"]), (&json!("running"), &json!(["sleep", "60"])));
    let list = server.call("GET", &path).send().expect(200).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let (id, pid) = (&started["process_id"], &started["pid"]);
    for name in [id.to_string(), format!("pid:{pid}"), "tag:nap".to_owned()] {
        let found = server.call("GET", &format!("{path}/{name}")).send().expect(200).json();
        assert_eq!(found["process_id"], *id, "{name}");
    }
    server.call("DELETE", &format!("{path}/{id}")).send().expect(204);
    let ended = server.call("GET", &format!("{path}/{id}/wait")).send().expect(200).json();
    assert_eq!((&ended["status"], &ended["exit"]["signal"]), (&json!("exited"), &json!(9)));
    server.call("DELETE", &format!("{path}/{id}")).send().expect(204);
}

#[test]
fn processes_that_are_not_there_are_not_found() {
    let (server, path) = processes();
    for name in ["7", "pid:7", "tag:none", "nonsense", "pid:x", "-1"] {
        for (method, end) in
            [("GET", ""), ("DELETE", ""), ("GET", "/wait"), ("GET", "/output"), ("POST", "/stdin")]
        {
            let refused = server.call(method, &format!("{path}/{name}{end}")).send().expect(404);
            assert_eq!(refused.code(), "process_not_found", "{method} {name}{end}");
        }
    }
    let key = server.key("other", Scope::Admin);
    let refused = server.stranger("GET", &path).key(&key).send().expect(404);
    assert_eq!(refused.code(), "sandbox_not_found");
}

#[test]
fn signals_go_by_name_and_number() {
    let (server, path) = processes();
    for signal in [json!("TERM"), json!("SIGINT"), json!(15)] {
        let id = start(&server, &path, &json!({"command": ["sleep", "60"]}))["process_id"].clone();
        post(&server, &format!("{path}/{id}/signal"), &json!({"signal": signal})).expect(204);
        let ended = server.call("GET", &format!("{path}/{id}/wait")).send().expect(200).json();
        assert_eq!(ended["exit"]["cause"], "signalled", "{signal}");
        let late = post(&server, &format!("{path}/{id}/signal"), &json!({"signal": signal})).expect(409);
        assert_eq!(late.code(), "process_ended");
    }
    let id = start(&server, &path, &json!({"command": ["sleep", "60"]}))["process_id"].clone();
    for signal in [json!("NAP"), json!(0), json!(65), json!(null)] {
        let refused = post(&server, &format!("{path}/{id}/signal"), &json!({"signal": signal})).expect(422);
        assert_eq!(refused.json()["field"], "signal");
    }
}

#[test]
fn a_process_with_a_port_is_told_where_it_is_reached() {
    let (server, path) = processes();
    let sandbox = path.split('/').nth(3).unwrap();
    let made = start(&server, &path, &json!({"command": ["sleep", "60"], "port": 8000}));
    let url = made["address"].as_str().unwrap();
    assert!(url.starts_with(&format!("http://8000-{sandbox}.")), "{url}");
    let port = server.call("GET", &format!("/v1/sandboxes/{sandbox}/ports/8000")).send().expect(200).json();
    assert_eq!(port["url"], url);
    let id = &made["process_id"];
    let later = server.call("GET", &format!("{path}/{id}")).send().expect(200).json();
    let listed = server.call("GET", &path).send().expect(200).json();
    assert_eq!((&later["address"], &listed["items"][0]["address"]), (&json!(url), &json!(url)));
    let plain = start(&server, &path, &json!({"command": ["sleep", "60"]}));
    assert_eq!(plain.get("address"), None);
}

#[test]
fn waiting_ends_with_the_process_or_with_patience() {
    let (server, path) = processes();
    let id = start(&server, &path, &json!({"command": ["cat"], "stdin_open": true}))["process_id"].clone();
    let running = server.call("GET", &format!("{path}/{id}/wait?timeout_s=0")).send().expect(200).json();
    assert_eq!(running["status"], "running");
    let mut waiting = server.call("GET", &format!("{path}/{id}/wait?timeout_s=60")).open();
    until_read(&waiting);
    server.call("POST", &format!("{path}/{id}/stdin?close=true")).body("").send().expect(204);
    let mut answer = Vec::new();
    waiting.read_to_end(&mut answer).unwrap();
    let ended = Answer::parse(&answer).expect(200).json();
    assert_eq!((&ended["status"], &ended["exited"]["exit_code"]), (&json!("exited"), &json!(0)));
    assert_eq!(ended["exit"], ended["exited"], "clients of before find it by its old name");
    server.call("GET", &format!("{path}/{id}/wait?timeout_s=99999")).send().expect(422);
}

#[test]
fn input_arrives_and_output_can_be_followed_from_anywhere() {
    let (server, path) = processes();
    let id = start(&server, &path, &json!({"command": ["cat"], "stdin_open": true}))["process_id"].clone();
    server.call("POST", &format!("{path}/{id}/stdin")).body("first ").send().expect(204);
    server.call("POST", &format!("{path}/{id}/stdin?close=true")).body("second").send().expect(204);
    let all = server.call("GET", &format!("{path}/{id}/output")).send().expect(200);
    let text = |events: &[(String, Option<u64>, Value)]| -> String {
        let output = events.iter().filter(|(name, _, _)| name == "stdout");
        output.map(|(_, _, data)| data["data"].as_str().unwrap()).collect()
    };
    let told = events(&all.body);
    assert_eq!(text(&told), "first second");
    assert_eq!(told.last().unwrap().0, "exited");
    let rest = server.call("GET", &format!("{path}/{id}/output?from=6")).send().expect(200);
    assert_eq!(text(&events(&rest.body)), "second");
    let again =
        server.call("GET", &format!("{path}/{id}/output")).header("Last-Event-ID", "8").send().expect(200);
    assert_eq!(text(&events(&again.body)), "cond");
    let closed = server.call("POST", &format!("{path}/{id}/stdin")).body("third").send().expect(409);
    assert_eq!(closed.code(), "process_ended");
}

#[test]
fn a_process_with_a_port_is_starting_until_it_answers() {
    let (server, path) = processes();
    let listening = start(&server, &path, &json!({"command": ["listen"], "port": 8080}));
    assert_eq!((&listening["port"], &listening["status"]), (&json!(8080), &json!("running")));
    let silent = start(&server, &path, &json!({"command": ["sleep", "60"], "port": 8081}));
    assert_eq!(silent["status"], "starting");
    let id = &silent["process_id"];
    server.call("DELETE", &format!("{path}/{id}")).send().expect(204);
    let ended = server.call("GET", &format!("{path}/{id}")).send().expect(200).json();
    assert_eq!(ended["status"], "exited");
    let refused = post(&server, &path, &json!({"command": ["listen"], "port": 0})).expect(422);
    assert_eq!(refused.json()["field"], "port");
}

#[test]
fn a_waiting_caller_is_let_go_when_the_server_ends() {
    let (server, path) = processes();
    let id = start(&server, &path, &json!({"command": ["sleep", "60"]}))["process_id"].clone();
    let mut waiting = server.call("GET", &format!("{path}/{id}/wait")).open();
    until_read(&waiting);
    let began = Instant::now();
    server.begin_shutdown();
    let mut answer = Vec::new();
    waiting.read_to_end(&mut answer).unwrap();
    assert!(began.elapsed() < SOON);
    assert_eq!(Answer::parse(&answer).expect(503).code(), "shutting_down");
}

#[test]
fn input_that_breaks_off_does_not_end_the_process() {
    let (server, path) = processes();
    let id = start(&server, &path, &json!({"command": ["cat"], "stdin_open": true}))["process_id"].clone();
    let mut stream: TcpStream = server.connect();
    write!(
        stream,
        "POST {path}/{id}/stdin?close=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\nhalf",
        server.admin
    )
    .unwrap();
    let mut follower = server.call("GET", &format!("{path}/{id}/output")).open();
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("half") {
        let mut byte = [0];
        follower.read_exact(&mut byte).unwrap();
        told.push(byte[0]);
    }
    drop(stream);
    server.call("POST", &format!("{path}/{id}/stdin?close=true")).body(" more").send().expect(204);
    let all = server.call("GET", &format!("{path}/{id}/output")).send().expect(200);
    let output: String = events(&all.body)
        .iter()
        .filter_map(|(_, _, data)| data["data"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(output, "half more");
}
