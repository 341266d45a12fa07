//! The chat service's contract, case by case.

use std::collections::BTreeSet;
use std::fs::{create_dir, write};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use warren_core::{IsolationErrorKind, SandboxId, Scope};
use warren_testkit::Standing;

use crate::support::{Answer, PATIENCE, TestServer};

const CHAT: &str = "0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a001";
const OTHER: &str = "0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a002";

/// A server that may mount one directory, with some volumes in it.
struct Chats {
    server: TestServer,
    volumes: TempDir,
}

impl Chats {
    fn start() -> Self {
        let volumes = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            create_dir(volumes.path().join(name)).unwrap();
        }
        write(volumes.path().join("file"), "").unwrap();
        symlink(volumes.path().join("one"), volumes.path().join("link")).unwrap();
        symlink("/etc", volumes.path().join("out")).unwrap();
        let server = TestServer::with(|config| config.mounts.allow = vec![volumes.path().to_owned()]);
        Self { server, volumes }
    }

    fn path(&self, volume: &str) -> String {
        self.volumes.path().canonicalize().unwrap().join(volume).display().to_string()
    }

    fn body(&self, chat: &str, agent: &str, volume: &str) -> Value {
        json!({"chat_id": chat, "agent_id": agent, "volume_host_path": self.path(volume)})
    }

    fn post(&self, body: &Value) -> Answer {
        self.server.call("POST", "/api/v1/create").json(body).send()
    }

    fn create(&self, chat: &str, agent: &str, volume: &str) -> Answer {
        self.post(&self.body(chat, agent, volume))
    }

    fn delete(&self, chat: &str) -> Answer {
        self.server.call("DELETE", &format!("/api/v1/sandboxes/{chat}")).send()
    }

    fn standing(&self, answer: &Value) -> Option<Standing> {
        self.server.isolation.standing(&sandbox(answer))
    }

    /// Starts a program in a chat's sandbox.
    fn spawn(&self, answer: &Value, argv: &[&str]) {
        let path = format!("/v1/sandboxes/{}/processes", sandbox(answer));
        self.server.call("POST", &path).json(&json!({"command": argv})).send().expect(201);
    }
}

fn sandbox(answer: &Value) -> SandboxId {
    answer["container_id"].as_str().unwrap().parse().unwrap()
}

fn endpoint(answer: &Value) -> SocketAddr {
    let ip: IpAddr = answer["endpoint"]["ip"].as_str().unwrap().parse().unwrap();
    let port = answer["endpoint"]["port"].as_u64().unwrap();
    SocketAddr::new(ip, port.try_into().unwrap())
}

/// Insists on an error as the contract words it.
fn expect_detail(answer: Answer, status: u16, detail: &str) {
    let answer = answer.expect(status);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json(), json!({"detail": detail}));
}

/// Which parts of the request a 422 blames.
fn blamed(answer: Answer) -> Vec<String> {
    let body = answer.expect(422).json();
    assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    let blamed = body["detail"].as_array().unwrap().iter();
    blamed
        .map(|wrong| wrong["loc"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn health_is_open_to_everybody_but_wrong_keys() {
    let chats = Chats::start();
    let answer = chats.server.stranger("GET", "/api/v1/health").send().expect(200);
    assert_eq!(answer.json(), json!({"status": "ok"}));
    let wrong = chats.server.stranger("GET", "/api/v1/health").key(&"0".repeat(40)).send().expect(401);
    assert!(wrong.json()["detail"].is_string());
}

#[test]
fn a_create_answers_every_field_of_the_contract() {
    let chats = Chats::start();
    let answer = chats.create(CHAT, "agent-7", "one").expect(200).json();
    let fields: BTreeSet<_> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "session_id",
        "chat_id",
        "agent_id",
        "volume_host_path",
        "container_id",
        "endpoint",
        "status",
        "expires_at",
    ];
    assert_eq!(fields, BTreeSet::from(expected));
    assert!(answer["session_id"].as_str().unwrap().starts_with("sess-"));
    assert_eq!(answer["chat_id"], CHAT);
    assert_eq!(answer["agent_id"], "agent-7");
    assert_eq!(answer["volume_host_path"], chats.path("one"));
    assert_eq!(answer["status"], "ready");
    assert_eq!(answer["endpoint"].as_object().unwrap().len(), 2);
    assert_eq!(endpoint(&answer).port(), 8000);
    assert!(endpoint(&answer).ip().is_loopback());
    // The clock of these tests stands at 1 700 000 000 s, and a chat's sandbox lives for 300 s.
    assert_eq!(answer["expires_at"], "2023-11-14T22:18:20.000Z");
    assert_eq!(chats.standing(&answer), Some(Standing::Running));
}

#[test]
fn the_sandbox_knows_its_agent_and_has_the_volume() {
    let chats = Chats::start();
    let answer = chats.create(CHAT, "agent-7", "one").expect(200).json();
    let path = format!("/v1/sandboxes/{}", sandbox(&answer));
    let made = chats.server.call("GET", &path).send().expect(200).json();
    let mount = &made["mounts"][0];
    assert_eq!((&mount["source"], &mount["target"]), (&json!(chats.path("one")), &json!("/workspace")));
    assert_eq!(mount["read_only"], json!(false));
    let call = chats.server.call("POST", &format!("{path}/exec"));
    let ran = call.json(&json!({"command": ["env"]})).send().expect(200).json();
    assert!(ran["stdout"].as_str().unwrap().contains("AGENT_ID=agent-7"), "{ran}");
}

#[test]
fn the_same_request_is_answered_with_the_same_sandbox() {
    let chats = Chats::start();
    let first = chats.create(CHAT, "agent", "one").expect(200).json();
    assert_eq!(chats.create(CHAT, "agent", "one").expect(200).json(), first);
    assert_eq!(chats.create(CHAT, "agent", "link").expect(200).json(), first, "the canonical path counts");
    assert_eq!(chats.create(&CHAT.to_uppercase(), "agent", "one").expect(200).json(), first);
    let other = chats.create(OTHER, "agent", "one").expect(200).json();
    assert_ne!(other["container_id"], first["container_id"]);
    assert_ne!(other["endpoint"], first["endpoint"]);
}

#[test]
fn another_agent_or_volume_is_a_conflict() {
    let chats = Chats::start();
    let first = chats.create(CHAT, "agent", "one").expect(200).json();
    expect_detail(chats.create(CHAT, "else", "one"), 409, "sandbox_conflict");
    expect_detail(chats.create(CHAT, "agent", "two"), 409, "sandbox_conflict");
    assert_eq!(chats.create(CHAT, "agent", "one").expect(200).json(), first);
}

#[test]
fn an_expired_sandbox_is_replaced() {
    let chats = Chats::start();
    let first = chats.create(CHAT, "agent", "one").expect(200).json();
    chats.server.clock.advance_s(299);
    assert_eq!(chats.create(CHAT, "agent", "one").expect(200).json(), first);
    chats.server.clock.advance_s(1);
    let second = chats.create(CHAT, "else", "two").expect(200).json();
    assert_ne!(second["container_id"], first["container_id"]);
    assert_eq!(chats.standing(&first), None);
    assert_eq!(chats.standing(&second), Some(Standing::Running));
}

#[test]
fn creates_for_one_chat_are_served_one_after_the_other() {
    let chats = Chats::start();
    let made: BTreeSet<String> = scope(|threads| {
        let calls: Vec<_> = (0..8)
            .map(|_| threads.spawn(|| chats.create(CHAT, "agent", "one").expect(200).json().to_string()))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(chats.server.isolation.standings().len(), 1);
}

#[test]
fn bad_requests_are_refused_by_the_name_of_the_field() {
    let chats = Chats::start();
    let with = |field: &str, value: Value| {
        let mut body = chats.body(CHAT, "agent", "one");
        body[field] = value;
        body
    };
    let cases = [
        (with("more", json!(1)), vec!["more"]),
        (with("chat_id", json!("chat-1")), vec!["chat_id"]),
        (with("chat_id", json!(7)), vec!["chat_id"]),
        (with("agent_id", json!("")), vec!["agent_id"]),
        (with("agent_id", json!("  ")), vec!["agent_id"]),
        (with("agent_id", json!("a".repeat(201))), vec!["agent_id"]),
        (with("volume_host_path", json!("one")), vec!["volume_host_path"]),
        (with("volume_host_path", json!("")), vec!["volume_host_path"]),
        (with("volume_host_path", json!(chats.path("nothing"))), vec!["volume_host_path"]),
        (with("volume_host_path", json!(chats.path("file"))), vec!["volume_host_path"]),
        (json!({}), vec!["chat_id", "agent_id", "volume_host_path"]),
        (json!([]), vec!["body"]),
    ];
    for (body, expected) in cases {
        assert_eq!(blamed(chats.post(&body)), expected, "{body}");
    }
    for body in ["", "{", "not json", "\u{0}"] {
        let call = chats.server.call("POST", "/api/v1/create").header("Content-Type", "application/json");
        assert_eq!(blamed(call.body(body).send()), ["body"], "{body}");
    }
    assert_eq!(blamed(chats.delete("chat-1")), ["chat_id"]);
    assert!(chats.server.isolation.standings().is_empty());
}

#[test]
fn a_volume_outside_the_allowed_directories_is_forbidden() {
    let chats = Chats::start();
    let outside =
        ["/etc".to_owned(), "/no/such/place".to_owned(), chats.path("out"), chats.path("one/../../../etc")];
    for path in outside {
        let body = json!({"chat_id": CHAT, "agent_id": "agent", "volume_host_path": path});
        expect_detail(chats.post(&body), 403, "volume_not_allowed");
    }
    assert!(chats.server.isolation.standings().is_empty());
}

#[test]
fn a_start_that_fails_leaves_nothing_running() {
    let chats = Chats::start();
    chats.server.isolation.fail_next(warren_testkit::Call::Create, IsolationErrorKind::Host);
    let answer = chats.create(CHAT, "agent", "one").expect(503);
    assert!(answer.header("retry-after").is_some());
    let body = answer.json();
    assert!(body["detail"].as_str().unwrap().starts_with("sandbox_start_failed"), "{body}");
    assert!(chats.server.isolation.standings().is_empty());
    chats.create(CHAT, "else", "two").expect(200);
}

#[test]
fn a_delete_says_what_it_ended_and_can_be_repeated() {
    let chats = Chats::start();
    let nothing = json!({"chat_id": CHAT, "result": "not_found", "session_id": null, "container_id": null});
    assert_eq!(chats.delete(CHAT).expect(200).json(), nothing);
    let made = chats.create(CHAT, "agent", "one").expect(200).json();
    let ended = json!({
        "chat_id": CHAT,
        "result": "deleted",
        "session_id": made["session_id"],
        "container_id": made["container_id"],
    });
    assert_eq!(chats.delete(CHAT).expect(200).json(), ended);
    assert_eq!(chats.standing(&made), None);
    assert_eq!(chats.delete(CHAT).expect(200).json(), nothing);
    chats.create(CHAT, "else", "two").expect(200);
}

#[test]
fn strangers_readers_and_other_owners_get_nowhere() {
    let chats = Chats::start();
    let made = chats.create(CHAT, "agent", "one").expect(200).json();
    let (create, delete) = ("/api/v1/create", format!("/api/v1/sandboxes/{CHAT}"));
    let body = chats.body(CHAT, "agent", "one");
    for (method, path) in [("POST", create), ("DELETE", &delete)] {
        let stranger = chats.server.stranger(method, path).json(&body).send().expect(401);
        assert!(stranger.json()["detail"].is_string() && stranger.header("www-authenticate").is_some());
        let reader = chats.server.key("default", Scope::Read);
        let reader = chats.server.stranger(method, path).key(&reader).json(&body).send().expect(403);
        assert!(reader.json()["detail"].is_string());
    }
    let other = chats.server.key("other", Scope::Use);
    let answer = chats.server.stranger("DELETE", &delete).key(&other).send().expect(200).json();
    assert_eq!(answer["result"], "not_found");
    let theirs = chats.server.stranger("POST", create).key(&other).json(&body).send().expect(200).json();
    assert_ne!(theirs["container_id"], made["container_id"]);
    assert_eq!(chats.standing(&made), Some(Standing::Running));
}

#[test]
fn whatever_else_goes_wrong_is_a_detail_too() {
    let chats = Chats::start();
    let cases =
        [("GET", "/api/v1/create", 405), ("GET", "/api/v1/nothing", 404), ("PUT", "/api/v1/health", 405)];
    for (method, path, status) in cases {
        let answer = chats.server.call(method, path).send().expect(status);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let body = answer.json();
        assert!(body["detail"].is_string() && body.as_object().unwrap().len() == 1, "{body}");
    }
    let large = "x".repeat(100_000);
    let answer = chats.server.call("POST", "/api/v1/create").header("Content-Type", "application/json");
    let answer = answer.body(large).send().expect(413);
    assert!(answer.json()["detail"].is_string());
}

#[test]
fn the_endpoint_reaches_the_service_until_the_sandbox_ends() {
    let chats = Chats::start();
    let made = chats.create(CHAT, "agent", "one").expect(200).json();
    chats.spawn(&made, &["listen", "8000"]);
    let began = Instant::now();
    while echo(endpoint(&made)).is_none() {
        assert!(began.elapsed() < PATIENCE, "the service does not answer");
        sleep(Duration::from_millis(20));
    }
    chats.delete(CHAT).expect(200);
    assert_eq!(echo(endpoint(&made)), None);
    until_refused(endpoint(&made));
}

#[test]
fn the_endpoint_closes_when_the_sandbox_ends_in_any_other_way() {
    let chats = Chats::start();
    let made = chats.create(CHAT, "agent", "one").expect(200).json();
    chats.server.isolation.die(&sandbox(&made), false);
    until_refused(endpoint(&made));
}

/// Other tests of this process have sandboxes of the same ids, and so may take the address for a
/// moment.
fn until_refused(endpoint: SocketAddr) {
    let began = Instant::now();
    while TcpStream::connect(endpoint).is_ok() {
        assert!(began.elapsed() < PATIENCE, "the endpoint outlives the sandbox");
        sleep(Duration::from_millis(20));
    }
}

/// The echo of the service; `None` when there is none yet.
fn echo(endpoint: SocketAddr) -> Option<()> {
    let mut stream = TcpStream::connect(endpoint).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"hello").ok()?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).ok()?;
    assert_eq!(&answer, b"hello");
    Some(())
}
