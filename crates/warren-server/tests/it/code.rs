//! Code that is run cell by cell, with a service in the sandbox that knows a few cells by heart.

use std::io::Read as _;

use serde_json::{Value, json};
use warren_core::Scope;

use crate::support::{Answer, PATIENCE, TestServer};

/// A server with a sandbox in it.
struct Site {
    server: TestServer,
    sandbox: String,
}

impl Site {
    fn start() -> Self {
        let server = TestServer::start();
        let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
        Self { server, sandbox: made["sandbox_id"].as_str().unwrap().to_owned() }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.sandbox)
    }

    fn run(&self, body: &Value) -> Answer {
        self.server.call("POST", &self.path("/code")).json(body).send()
    }

    /// The cells that the journal knows, the newest first: their code, and what went wrong.
    fn cells(&self) -> Vec<(Value, Value)> {
        let journal = self.server.call("GET", &self.path("/journal")).send().expect(200).json();
        let cells = journal["items"].as_array().unwrap().iter().filter(|entry| entry["tool"] == "code");
        cells
            .map(|entry| {
                assert!(!entry["ended_at"].is_null(), "{entry}");
                (entry["params"].clone(), entry["detail"].clone())
            })
            .collect()
    }

    /// The processes that run the service.
    fn services(&self) -> Vec<Value> {
        let processes = self.server.call("GET", &self.path("/processes")).send().expect(200).json();
        let all = processes["items"].as_array().unwrap().clone();
        all.into_iter().filter(|process| process["tag"] == "code-interpreter").collect()
    }
}

#[test]
fn a_cell_is_run_to_its_end() {
    let site = Site::start();
    let order = json!({"code": "x", "language": "python", "env": {"A": "b"}, "timeout_s": 5});
    let told = json!({"code": "x", "language": "python", "context_id": null, "env_vars": {"A": "b"}, "timeout_s": 5});
    let expected = json!({
        "execution_count": 1, "stdout": "out\n", "stderr": "err\n", "timed_out": false, "truncated": false,
        "results": [{"text": "42", "json": told, "is_main_result": true}],
    });
    assert_eq!(site.run(&order).expect(200).json(), expected);
    let failed = site.run(&json!({"code": "fail"})).expect(200).json();
    assert_eq!(failed["error"], json!({"name": "E", "value": "v", "traceback": "t"}));
    assert_eq!(site.cells(), [(json!("fail"), json!("E: v")), (json!("x"), Value::Null)]);
}

#[test]
fn a_cell_can_be_followed() {
    let site = Site::start();
    let call = site.server.call("POST", &site.path("/code")).header("Accept", "text/event-stream");
    let text = call.clone().json(&json!({"code": "x"})).send().expect(200).body;
    let text = String::from_utf8(text).unwrap();
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, ["started", "stdout", "stderr", "result", "end"]);
    assert!(text.contains("data: {\"text\":\"out\\n\"}"), "{text}");
    assert!(text.contains("data: {\"execution_count\":1,\"timed_out\":false}"), "{text}");
    let text = String::from_utf8(call.json(&json!({"code": "fail"})).send().expect(200).body).unwrap();
    assert!(text.contains("event: exception"), "{text}");
}

#[test]
fn whoever_hangs_up_interrupts_the_cell() {
    let site = Site::start();
    let call = site.server.call("POST", &site.path("/code")).header("Accept", "text/event-stream");
    let mut stream = call.json(&json!({"code": "wait"})).open();
    let (mut told, mut piece) = (String::new(), [0; 1024]);
    while !told.contains("waiting") {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{told}");
        told.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    drop(stream);
    let noted = site.path("/files/stat?path=/interrupted");
    let end = std::time::Instant::now() + PATIENCE;
    while site.server.call("GET", &noted).send().status != 200 {
        assert!(std::time::Instant::now() < end, "nobody hung up on the service");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn the_service_is_started_once_and_again_after_it_was_killed() {
    let site = Site::start();
    assert!(site.services().is_empty());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| site.run(&json!({"code": "x"})).expect(200));
        }
    });
    let services = site.services();
    assert_eq!(services.len(), 1, "{services:?}");
    let process = services[0]["process_id"].to_string();
    site.server.call("DELETE", &site.path(&format!("/processes/{process}"))).send().expect(204);
    site.run(&json!({"code": "x"})).expect(200);
    let running = site.services().iter().filter(|process| process["status"] == "running").count();
    assert_eq!(running, 1);
}

#[test]
fn clients_of_the_port_find_the_service_too() {
    let site = Site::start();
    let port = site.server.call("GET", &site.path("/ports/49999")).send().expect(200).json();
    let host = format!("49999-{}.localhost:{}", site.sandbox, site.server.address.port());
    let call = site.server.visitor("POST", "/execute", &host);
    let call = call.header("Warren-Traffic-Token", port["token"].as_str().unwrap());
    let execute = || {
        let answer = call.clone().json(&json!({"code": "x"})).pass().expect(200);
        let lines = answer.body.split(|byte| *byte == b'\n');
        let events: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        assert_eq!(events.last().unwrap()["type"], "end_of_execution");
    };
    execute();
    assert_eq!(site.cells(), [(json!("x"), Value::Null)]);
    let services = site.services();
    assert_eq!(services.len(), 1);
    // Nobody speaks to one that was killed over a connection of old.
    let process = services[0]["process_id"].to_string();
    site.server.call("DELETE", &site.path(&format!("/processes/{process}"))).send().expect(204);
    execute();
    let running = site.services().iter().filter(|process| process["status"] == "running").count();
    assert_eq!(running, 1);
}

#[test]
fn contexts_are_listed_made_restarted_interrupted_and_removed() {
    let site = Site::start();
    let call =
        |method: &str, rest: &str| site.server.call(method, &site.path(&format!("/code/contexts{rest}")));
    let first = json!({"id": "first", "language": "python", "cwd": "/home/user"});
    assert_eq!(call("GET", "").send().expect(200).json(), json!({"items": [first]}));
    let made = call("POST", "").json(&json!({"language": "python"})).send().expect(201).json();
    assert_eq!(made["id"], "second");
    call("POST", "").send().expect(201);
    for (method, rest) in [("POST", "/first/restart"), ("POST", "/python/interrupt"), ("DELETE", "/first")] {
        call(method, rest).send().expect(204);
    }
    for (method, rest) in [("POST", "/nobody/restart"), ("POST", "/nobody/interrupt"), ("DELETE", "/nobody")]
    {
        let refused = call(method, rest).send().expect(404);
        assert_eq!(refused.code(), "code_context_not_found");
    }
    assert_eq!(call("DELETE", "/a%2Fb").send().expect(404).code(), "code_context_not_found");
    let refused = call("POST", "").json(&json!({"cwd": "/nowhere"})).send().expect(422).json();
    assert_eq!(
        (&refused["field"], &refused["detail"]),
        (&json!("cwd"), &json!("/nowhere is not a directory"))
    );
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let site = Site::start();
    for (body, field) in [
        (json!({"code": "x", "context": "a/b"}), "context"),
        (json!({"code": "x", "language": ""}), "language"),
        (json!({"code": "x", "language": "python", "context": "first"}), "language"),
        (json!({"code": "x", "timeout_s": 0}), "timeout_s"),
    ] {
        assert_eq!(site.run(&body).expect(422).json()["field"], field);
    }
    assert_eq!(
        site.run(&json!({"code": "x", "context": "nobody"})).expect(404).code(),
        "code_context_not_found"
    );
    let refused = site.run(&json!({"code": "x", "language": "klingon"})).expect(422);
    assert!(refused.json()["detail"].as_str().unwrap().contains("klingon"));
    assert_eq!(site.run(&json!({"code": "garbage"})).expect(502).code(), "sandbox_io");
}

#[test]
fn others_have_no_such_sandbox() {
    let site = Site::start();
    let (other, reader) = (site.server.key("other", Scope::Use), site.server.key("default", Scope::Read));
    let call =
        |key: &str| site.server.stranger("POST", &site.path("/code")).key(key).json(&json!({"code": "x"}));
    assert_eq!(call(&other).send().expect(404).code(), "sandbox_not_found");
    call(&reader).send().expect(403);
    assert!(site.services().is_empty());
}
