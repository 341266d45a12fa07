use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warren_core::Scope;

use crate::golden::assert_golden;
use crate::support::TestServer;

const SANDBOXES: &str = "/v1/sandboxes";

fn made(server: &TestServer, body: &Value) -> String {
    let sandbox = server.call("POST", SANDBOXES).json(body).send().expect(201).json();
    sandbox["sandbox_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_create_answers_all_of_it() {
    let server = TestServer::start();
    let body = json!({
        "template": "python", "type": "research", "memory_mib": 512, "cpus": 1.5, "pids": 100, "disk_mib": 1024,
        "inodes": 1000, "open_files": 64, "ttl_s": 600, "env": {"A": "1"}, "labels": {"team": "a"},
        "metadata": {"note": "x"}, "user": "user", "cwd": "/work", "hostname": "box", "network": "public",
        "profile": "strict", "backend": "fake", "on_expiry": "delete",
        "timeouts": {"active_s": 10, "detached_s": 20, "suspended_s": 30}, "client": "me",
    });
    let sandbox = server.call("POST", SANDBOXES).json(&body).send().expect(201).json();
    assert_golden("sandbox_created", sandbox.clone());
    let id = sandbox["sandbox_id"].as_str().unwrap();
    let mut looked_at = server.call("GET", &format!("{SANDBOXES}/{id}")).send().expect(200).json();
    looked_at["session_id"] = sandbox["session_id"].clone();
    assert_eq!(looked_at, sandbox);
}

#[test]
fn a_create_of_nothing_takes_every_default() {
    let server = TestServer::start();
    let sandbox = server.call("POST", SANDBOXES).json(&json!({})).send().expect(201).json();
    assert_golden("sandbox_default", sandbox);
}

#[test]
fn a_sandbox_is_stopped_resumed_and_deleted() {
    let server = TestServer::start();
    let id = made(&server, &json!({}));
    let at = |end: &str| format!("{SANDBOXES}/{id}{end}");
    assert_eq!(server.call("GET", &at("/death")).send().expect(404).code(), "not_dead");
    let stopped = server.call("POST", &at("/stop")).send().expect(200).json();
    assert_eq!((&stopped["status"], &stopped["resumable"]), (&json!("stopped"), &json!(true)));
    assert_golden("sandbox_death", server.call("GET", &at("/death")).send().expect(200).json());
    let resumed = server.call("POST", &at("/resume")).send().expect(200).json();
    assert_eq!((&resumed["status"], &resumed["sandbox_id"]), (&json!("ready"), &json!(id)));
    for _ in 0..2 {
        let gone = server.call("DELETE", &at("")).send().expect(200).json();
        assert_eq!((&gone["status"], &gone["resumable"]), (&json!("stopped"), &json!(false)));
    }
    let list = server.call("GET", SANDBOXES).send().expect(200).json();
    assert_eq!(list, json!({"items": [], "next_cursor": null}));
    let list = server.call("GET", &format!("{SANDBOXES}?ended=true")).send().expect(200).json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    server.isolation.assert_only(&[]);
}

#[test]
fn a_paused_sandbox_says_what_it_allows() {
    let server = TestServer::start();
    let id = made(&server, &json!({}));
    let paused = server.call("POST", &format!("{SANDBOXES}/{id}/pause")).send().expect(200).json();
    assert_eq!((&paused["status"], &paused["paused_by"]), (&json!("paused"), &json!("request")));
    let work = json!({"command": ["true"]});
    let denied = server.call("POST", &format!("{SANDBOXES}/{id}/exec")).json(&work).send().expect(409);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_golden("problem_wrong_state", denied.json());
    server.call("POST", &format!("{SANDBOXES}/{id}/resume")).send().expect(200);
    server.call("POST", &format!("{SANDBOXES}/{id}/exec")).json(&work).send().expect(200);
}

#[test]
fn labels_metadata_and_states_choose_from_the_list() {
    let server = TestServer::start();
    let one = made(&server, &json!({"labels": {"team": "a", "env": "x=y"}, "metadata": {"n": "1"}}));
    let two = made(&server, &json!({"labels": {"team": "a"}}));
    let three = made(&server, &json!({}));
    server.call("POST", &format!("{SANDBOXES}/{three}/pause")).send().expect(200);
    let listed = |query: &str| -> Vec<String> {
        let list = server.call("GET", &format!("{SANDBOXES}?{query}")).send().expect(200).json();
        let id = |item: &Value| item["sandbox_id"].as_str().unwrap().to_owned();
        let mut ids: Vec<String> = list["items"].as_array().unwrap().iter().map(id).collect();
        ids.sort();
        ids
    };
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(listed("label=team%3Da"), sorted(vec![one.clone(), two.clone()]));
    assert_eq!(listed("label=team=a&label=env=x=y"), [one.as_str()]);
    assert_eq!(listed("metadata=n=1"), [one.as_str()]);
    assert_eq!(listed("status=paused,stopped"), [three.as_str()]);
    assert_eq!(listed("status=ready,paused"), sorted(vec![one, two, three]));
}

#[test]
fn pages_follow_each_other_without_gaps() {
    let server = TestServer::start();
    let mut made: Vec<String> = (0..5).map(|_| made(&server, &json!({}))).collect();
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.call("GET", &format!("{SANDBOXES}?limit=2{cursor}")).send().expect(200).json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        seen.extend(items.iter().map(|item| item["sandbox_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    made.sort();
    seen.sort();
    assert_eq!(seen, made);
}

#[test]
fn what_a_list_cannot_use_is_named() {
    let server = TestServer::start();
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("cursor=nonsense", "cursor"),
        ("status=asleep", "status"),
        ("label=a", "label"),
        ("ended=yes", "ended"),
        ("limit=1&limit=2", "limit"),
        ("lmit=1", "lmit"),
    ] {
        let refused = server.call("GET", &format!("{SANDBOXES}?{query}")).send().expect(422).json();
        assert_eq!(refused["field"], field, "{refused}");
    }
    server.call("GET", &format!("{SANDBOXES}?limit=%ff")).send().expect(400);
}

#[test]
fn what_is_changed_is_changed_and_the_rest_stays() {
    let server = TestServer::start();
    let id = made(&server, &json!({"labels": {"a": "1"}, "metadata": {"m": "1"}, "ttl_s": 100}));
    let path = format!("{SANDBOXES}/{id}");
    let before = server.call("GET", &path).send().expect(200).json();
    let patch = json!({"labels": {"b": "2"}, "ttl_s": 1000, "on_expiry": "delete"});
    let after = server.call("PATCH", &path).json(&patch).send().expect(200).json();
    assert_eq!(after["labels"], json!({"b": "2"}));
    assert_eq!((&after["metadata"], &after["on_expiry"]), (&before["metadata"], &json!("delete")));
    assert!(after["expires_at"].as_str() > before["expires_at"].as_str(), "{after}");
    assert!(after["generation"].as_u64() > before["generation"].as_u64());
    let refused = server.call("PATCH", &path).json(&json!({"ttl_s": 0})).send().expect(422).json();
    assert_eq!(refused["field"], "ttl_s");
}

#[test]
fn a_repeated_create_makes_nothing_and_answers_the_same() {
    let server = TestServer::start();
    let create =
        |body: Value| server.call("POST", SANDBOXES).header("Idempotency-Key", "once").json(&body).send();
    let first = create(json!({"pids": 50})).expect(201);
    assert_eq!(first.header("idempotent-replayed"), None);
    let second = create(json!({"pids": 50, "ttl_s": null})).expect(200);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(first.json()["sandbox_id"], second.json()["sandbox_id"]);
    assert_eq!(first.json()["session_id"], second.json()["session_id"]);
    assert_eq!(create(json!({"pids": 51})).expect(409).code(), "idempotency_mismatch");
    let stranger = server.key("stranger", Scope::Use);
    let call = server.stranger("POST", SANDBOXES).key(&stranger).header("Idempotency-Key", "once");
    let other = call.json(&json!({"pids": 50})).send().expect(201).json();
    assert_ne!(other["sandbox_id"], first.json()["sandbox_id"]);
    for bad in ["", "a b", "é", &"x".repeat(256)] {
        let call = server.call("POST", SANDBOXES).header("Idempotency-Key", bad).json(&json!({}));
        assert_eq!(call.send().expect(422).json()["field"], "Idempotency-Key", "{bad}");
    }
}

#[test]
fn a_wait_ends_when_the_sandbox_changes_or_the_time_is_over() {
    let server = TestServer::start();
    let id = made(&server, &json!({}));
    let path = format!("{SANDBOXES}/{id}");
    let generation = server.call("GET", &path).send().expect(200).json()["generation"].as_u64().unwrap();
    let wait = |timeout: u64| {
        server.call("GET", &format!("{path}?wait_generation={generation}&timeout_s={timeout}"))
    };
    let began = Instant::now();
    assert_eq!(wait(1).send().expect(200).json()["generation"], generation);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    let waiter = wait(60);
    let waiting = std::thread::spawn(move || waiter.send());
    server.call("PATCH", &path).json(&json!({"labels": {"a": "b"}})).send().expect(200);
    let changed = waiting.join().unwrap().expect(200).json();
    assert!(changed["generation"].as_u64() > Some(generation));
    assert_eq!(wait(301).send().expect(422).json()["field"], "timeout_s");
}

#[test]
fn usage_is_told() {
    let server = TestServer::start();
    let id = made(&server, &json!({}));
    let usage = server.call("GET", &format!("{SANDBOXES}/{id}/usage")).send().expect(200).json();
    assert_golden("usage", usage);
}

#[test]
fn an_owner_has_one_default_sandbox() {
    let server = TestServer::start();
    let path = "/v1/default-sandbox";
    assert_eq!(server.call("GET", path).send().expect(404).code(), "no_default_sandbox");
    let id = made(&server, &json!({}));
    let set = server.call("PUT", path).json(&json!({"sandbox_id": id})).send().expect(200).json();
    assert_eq!(set["sandbox_id"], json!(id));
    assert_eq!(server.call("GET", path).send().expect(200).json(), set);
    let stranger = server.key("stranger", Scope::Use);
    let foreign = server.stranger("PUT", path).key(&stranger).json(&json!({"sandbox_id": id})).send();
    assert_eq!(foreign.expect(404).code(), "sandbox_not_found");
    server.stranger("GET", path).key(&stranger).send().expect(404);
    server.call("DELETE", path).send().expect(204);
    server.call("GET", path).send().expect(404);
}

#[test]
fn limits_of_the_server_are_named_as_the_caller_knows_them() {
    let server = TestServer::start();
    for (field, value) in [("memory_mib", json!(1 << 20)), ("cpus", json!(100)), ("ttl_s", json!(90_000))] {
        let refused = server.call("POST", SANDBOXES).json(&json!({field: value})).send().expect(422).json();
        assert_eq!(refused["field"], field, "{refused}");
        let session = json!({"client": "a", "sandbox": {field: value}});
        let refused = server.call("POST", "/v1/sessions").json(&session).send().expect(422).json();
        assert_eq!(refused["field"], format!("sandbox.{field}"), "{refused}");
    }
    let refused = server.call("POST", SANDBOXES).json(&json!({"template": "missing"})).send().expect(404);
    assert_eq!(refused.code(), "template_not_found");
    let refused = server.call("POST", SANDBOXES).json(&json!({"backend": "nowhere"})).send().expect(422);
    assert_eq!(refused.code(), "nothing_fits");
}
