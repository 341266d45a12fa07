use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;
use warren_core::Scope;

use crate::support::{SOON, TestServer, until_closed, until_read};

const KEYS: &str = "/v1/keys";

#[test]
fn a_key_is_shown_once_used_and_revoked() {
    let server = TestServer::start();
    let made = server
        .call("POST", KEYS)
        .json(&json!({"name": "ci", "scope": "use", "owner": "team-a"}))
        .send()
        .expect(201)
        .json();
    let (key, id) = (made["key"].as_str().unwrap(), made["key_id"].as_str().unwrap());
    assert!(key.starts_with("wrn_") && key.len() == 44, "{key}");
    server.stranger("POST", "/v1/sandboxes").key(key).json(&json!({})).send().expect(201);
    let list = server.call("GET", KEYS).send().expect(200);
    assert!(!String::from_utf8_lossy(&list.body).contains(&key[4..]));
    assert!(list.json()["items"].as_array().unwrap().iter().any(|item| item["key_id"] == id));

    let revoked = server.call("DELETE", &format!("{KEYS}/{id}")).send().expect(200).json();
    assert!(revoked["revoked_at"].is_string());
    server.stranger("GET", "/v1/sandboxes").key(key).send().expect(401);
    let again = server.call("DELETE", &format!("{KEYS}/{id}")).send().expect(200).json();
    assert_eq!(again["revoked_at"], revoked["revoked_at"]);
}

#[test]
fn keys_are_checked_before_they_are_made() {
    let server = TestServer::start();
    for (body, field) in [
        (json!({"name": "", "scope": "use"}), "name"),
        (json!({"name": "a\nb", "scope": "use"}), "name"),
        (json!({"name": "x".repeat(129), "scope": "use"}), "name"),
        (json!({"name": "a", "scope": "root"}), "scope"),
        (json!({"name": "a", "scope": "use", "owner": "No Body"}), "owner"),
    ] {
        let refused = server.call("POST", KEYS).json(&body).send().expect(422).json();
        assert_eq!(refused["field"], field, "{refused}");
    }
    for id in ["key-00000000-0000-4000-8000-000000000000", "nonsense"] {
        assert_eq!(server.call("DELETE", &format!("{KEYS}/{id}")).send().expect(404).code(), "key_not_found");
    }
}

#[test]
fn making_and_revoking_keys_is_written_down() {
    let server = TestServer::start();
    let made =
        server.call("POST", KEYS).json(&json!({"name": "a", "scope": "read"})).send().expect(201).json();
    let id = made["key_id"].as_str().unwrap();
    server.call("DELETE", &format!("{KEYS}/{id}")).send().expect(200);
    let text = String::from_utf8(server.call("GET", "/v1/events").send().expect(200).body).unwrap();
    assert!(text.contains("key_created") && text.contains("key_revoked"), "{text}");
}

#[test]
fn a_revoked_keys_event_stream_ends_soon() {
    let server = TestServer::start();
    let key = server.key("default", Scope::Use);
    let follow = || server.stranger("GET", "/v1/events").header("Accept", "text/event-stream");
    let (mut cut, mut kept) = (follow().key(&key).open(), follow().key(&server.admin).open());
    let mut head = [0; 12];
    for stream in [&mut cut, &mut kept] {
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
    }
    revoke(&server, &key);
    assert!(until_closed(&mut cut) < SOON);
    kept.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut bytes = [0; 1024];
    let still_open = loop {
        match kept.read(&mut bytes) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(_) => break true,
        }
    };
    assert!(still_open, "another key's stream ended too");
}

#[test]
fn a_revoked_keys_waiting_request_is_refused() {
    let server = TestServer::start();
    let key = server.key("default", Scope::Use);
    let made = server.stranger("POST", "/v1/sandboxes").key(&key).json(&json!({})).send().expect(201).json();
    let path = format!(
        "/v1/sandboxes/{}?wait_generation={}&timeout_s=60",
        made["sandbox_id"].as_str().unwrap(),
        made["generation"]
    );
    let mut waiting = server.stranger("GET", &path).key(&key).open();
    until_read(&waiting);
    let began = Instant::now();
    revoke(&server, &key);
    let mut answer = Vec::new();
    waiting.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&answer));
    assert!(began.elapsed() < SOON);
}

#[test]
fn a_revoked_keys_web_socket_ends_soon() {
    let server = TestServer::start();
    let key = server.key("default", Scope::Use);
    let made = server.stranger("POST", "/v1/sandboxes").key(&key).json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}/stream", made["sandbox_id"].as_str().unwrap());
    let mut socket = server.connect();
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: warren.v1\r\n\r\n"
    )
    .unwrap();
    let mut head = [0; 12];
    socket.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 101");
    revoke(&server, &key);
    assert!(until_closed(&mut socket) < SOON);
}

fn revoke(server: &TestServer, key: &str) {
    let list = server.call("GET", KEYS).send().expect(200).json();
    let hint = &key[4..10];
    let found = list["items"].as_array().unwrap().iter().find(|item| item["hint"] == hint).unwrap();
    let path = format!("{KEYS}/{}", found["key_id"].as_str().unwrap());
    server.call("DELETE", &path).send().expect(200);
    server.stranger("GET", "/v1/sandboxes").key(key).send().expect(401);
}
