use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use warren_core::Scope;

use crate::golden::assert_golden;
use crate::support::TestServer;

const EVENTS: &str = "/v1/events";

fn words(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

/// The next event of a stream: its id, name and data.
pub(crate) fn next_event(stream: &mut BufReader<TcpStream>) -> Option<(String, String, Value)> {
    let (mut id, mut name, mut data) = (String::new(), String::new(), None);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.to_owned();
        } else if let Some(text) = line.strip_prefix("event: ") {
            name = text.to_owned();
        } else if let Some(text) = line.strip_prefix("data: ") {
            data = serde_json::from_str(text).ok();
        } else if let (true, Some(data)) = (line.is_empty(), data.take()) {
            return Some((id, name, data));
        }
    }
}

#[test]
fn events_are_told_in_order_and_by_page() {
    let server = TestServer::start();
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let page = server.call("GET", EVENTS).send().expect(200).json();
    assert_eq!(words(&page), ["sandbox_created", "sandbox_ready", "session_provisioned", "session_acquired"]);
    assert_golden("events", page.clone());
    let first = server.call("GET", &format!("{EVENTS}?limit=1")).send().expect(200).json();
    let rest =
        server.call("GET", &format!("{EVENTS}?after={}", first["next_after"])).send().expect(200).json();
    assert_eq!((words(&first).len(), words(&rest).len()), (1, 3));
    let end = server.call("GET", &format!("{EVENTS}?after={}", page["next_after"])).send().expect(200).json();
    assert_eq!(end, json!({"items": [], "next_after": page["next_after"]}));
}

#[test]
fn events_of_one_sandbox_or_session_are_chosen() {
    let server = TestServer::start();
    let one = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let of = |query: String| server.call("GET", &format!("{EVENTS}?{query}")).send().expect(200).json();
    let of_sandbox = of(format!("sandbox={}", one["sandbox_id"].as_str().unwrap()));
    assert_eq!(words(&of_sandbox).len(), 4);
    let of_session = of(format!("session={}", one["session_id"].as_str().unwrap()));
    assert!(
        of_session["items"].as_array().unwrap().iter().all(|event| event["session_id"] == one["session_id"])
    );
    for name in ["sandbox", "sandbox_id"] {
        let refused = server.call("GET", &format!("{EVENTS}?{name}=X")).send().expect(422).json();
        assert_eq!(refused["field"], name);
    }
    let unknown = server.call("GET", &format!("{EVENTS}?sandboxes=x")).send().expect(422).json();
    let there_are = "there are `after`, `limit`, `sandbox_id`, `session_id`";
    assert!(unknown["detail"].as_str().unwrap().ends_with(there_are), "{unknown}");
}

#[test]
fn events_are_chosen_before_they_are_counted() {
    let server = TestServer::start();
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let wanted = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let of = |query: &str| {
        let id = wanted["sandbox_id"].as_str().unwrap();
        server.call("GET", &format!("{EVENTS}?sandbox_id={id}&{query}")).send().expect(200).json()
    };
    let first = of("limit=1");
    assert_eq!(words(&first), ["sandbox_created"]);
    assert_eq!(first["items"][0]["sandbox_id"], wanted["sandbox_id"]);
    assert_eq!(first["next_after"], first["items"][0]["number"]);
    let rest = of(&format!("limit=3&after={}", first["next_after"]));
    assert_eq!(words(&rest).len(), 3);
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let none = of(&format!("after={}", rest["next_after"]));
    assert_eq!(none["items"], json!([]));
    assert!(none["next_after"].as_u64() > rest["next_after"].as_u64(), "{none}");
}

#[test]
fn a_follower_sees_what_was_and_what_comes_and_ends_with_the_server() {
    let server = TestServer::start();
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let call = server.call("GET", &format!("{EVENTS}?after=0")).header("Accept", "text/event-stream");
    let mut stream = BufReader::new(call.open());
    let seen: Vec<_> = (0..4).map(|_| next_event(&mut stream).unwrap()).collect();
    assert_eq!(seen[1].1, "sandbox_ready");
    assert_eq!(seen[1].0, seen[1].2["number"].to_string());
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let (_, name, data) = next_event(&mut stream).unwrap();
    assert!(name == "sandbox_created" && data["sandbox_id"].is_string());
    server.begin_shutdown();
    while let Some((_, name, data)) = next_event(&mut stream) {
        assert!(name != "error" || data["code"] == "shutting_down", "{data}");
    }
}

#[test]
fn a_follower_that_comes_back_misses_nothing() {
    let server = TestServer::start();
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let call = server.call("GET", &format!("{EVENTS}?after=0")).header("Accept", "text/event-stream");
    let (id, _, _) = next_event(&mut BufReader::new(call.open())).unwrap();
    let again = call.header("Last-Event-ID", &id);
    let (next, _, _) = next_event(&mut BufReader::new(again.open())).unwrap();
    assert!(next.parse::<u64>().unwrap() > id.parse::<u64>().unwrap());
    let bad = server.call("GET", EVENTS).header("Accept", "text/event-stream").header("Last-Event-ID", "x");
    assert_eq!(bad.send().expect(422).json()["field"], "Last-Event-ID");
}

#[test]
fn another_owners_events_are_not_told() {
    let server = TestServer::start();
    server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201);
    let stranger = server.key("stranger", Scope::Read);
    let page = server.stranger("GET", EVENTS).key(&stranger).send().expect(200).json();
    assert_eq!(page["items"], json!([]));
}

#[test]
fn a_revoked_key_sees_no_more() {
    let server = TestServer::start();
    let made = server
        .call("POST", "/v1/keys")
        .json(&json!({"name": "a", "scope": "read"}))
        .send()
        .expect(201)
        .json();
    let key = made["key"].as_str().unwrap();
    let call = server.stranger("GET", EVENTS).key(key).header("Accept", "text/event-stream");
    let mut stream = call.open();
    server.call("DELETE", &format!("/v1/keys/{}", made["key_id"].as_str().unwrap())).send().expect(200);
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest));
    assert!(!String::from_utf8_lossy(&rest).contains("sandbox_created"));
}
