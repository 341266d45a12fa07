use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use warren_core::Scope;

use super::client::{ERAS, Era, call, message, text, with_sandbox};
use crate::support::{Answer, TestServer, eventually};

#[test]
fn no_page_of_elsewhere_speaks_to_tools_whatever_key_it_has() {
    let server = TestServer::start();
    let list = || message(&server, "/mcp", Era::Stateless, "tools/list", json!({}));
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "http://x.localhost"] {
        let answer = list().header("Origin", origin).pass().expect(403);
        assert_eq!(
            (answer.code().as_str(), answer.field().as_str()),
            ("foreign_request", "Origin"),
            "{origin}"
        );
    }
    for host in ["127.0.0.1", "localhost"] {
        let own = format!("http://{host}:{}", server.address.port());
        list().header("Origin", &own).pass().expect(200);
    }
}

#[test]
fn a_server_without_keys_answers_only_under_names_of_its_own() {
    let server = TestServer::with(|config| config.auth.enabled = false);
    let list = || message(&server, "/mcp", Era::Stateless, "tools/list", json!({})).without("Authorization");
    list().pass().expect(200);
    let answer = list().without("Host").header("Host", "evil.example").pass().expect(403);
    assert_eq!(answer.code(), "foreign_request");
    list().header("Sec-Fetch-Site", "cross-site").pass().expect(403);
}

#[test]
fn what_belongs_to_another_is_not_there() {
    let (server, id) = with_sandbox();
    call(&server, "/mcp", Era::Stateless, "write", json!({"path": "/home/user/secret", "content": "x"}));
    let stranger = server.key("stranger", Scope::Use);
    for era in ERAS {
        let ask = |path: &str, tool: &str, arguments: Value| {
            let params = json!({"name": tool, "arguments": arguments});
            let asked = message(&server, path, era, "tools/call", params).without("Authorization");
            asked.key(&stranger).pass()
        };
        for (tool, arguments) in [
            ("read", json!({"path": "/home/user/secret"})),
            ("bash", json!({"command": "true"})),
            ("undo", json!({})),
            ("sandbox", json!({"action": "info"})),
            ("sandbox", json!({"action": "fork"})),
            ("sandbox", json!({"action": "remove"})),
        ] {
            let of = |sandbox: &str| {
                let mut arguments = arguments.clone();
                arguments["sandbox"] = json!(sandbox);
                let told = super::client::last_message(&ask("/mcp", tool, arguments)).to_string();
                told.replace(sandbox, "ID")
            };
            let theirs = of(&id);
            assert!(theirs.contains("sandbox_not_found"), "{tool}: {theirs}");
            assert_eq!(theirs, of("sbxaaaaaaaaaaaaaaaaaaaaaaaaaa"), "{tool}");
        }
        let pinned = ask(&format!("/mcp/{id}"), "read", json!({"path": "/home/user/secret"}));
        assert_eq!(pinned.expect(404).code(), "sandbox_not_found");
    }
}

#[test]
fn a_key_that_may_only_read_calls_nothing() {
    let server = TestServer::start();
    let reader = server.key("default", Scope::Read);
    let list = message(&server, "/mcp", Era::Stateless, "tools/list", json!({})).without("Authorization");
    assert_eq!(list.clone().key(&reader).pass().expect(403).code(), "forbidden");
    assert_eq!(list.pass().expect(401).header("www-authenticate"), Some("Bearer"));
}

#[test]
fn what_is_no_message_is_refused_and_nothing_is_held() {
    let server = TestServer::with(|config| config.http.max_body.0 = 64 << 10);
    let post = || server.call("POST", "/mcp").header("Accept", "application/json, text/event-stream");
    let large =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": "x".repeat(70 << 10)}});
    post().json(&large).pass().expect(413);
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for body in ["", "{", "\u{0}", "7", "[]", "null", "{\"jsonrpc\":\"1.0\"}", deep.as_str()] {
        let answer = post().header("Content-Type", "application/json").body(body.as_bytes()).pass();
        assert!((400..500).contains(&answer.status), "{}: {}", &body[..body.len().min(20)], answer.status);
    }
    post().header("Content-Type", "text/plain").body(*b"{}").pass().expect(415);
    let deaf = server.call("POST", "/mcp").header("Accept", "text/html").json(&json!({"id": 1}));
    deaf.pass().expect(406);
}

#[test]
fn wrong_arguments_are_told_by_name_and_never_break_anything() {
    let (server, id) = with_sandbox();
    let path = format!("/mcp/{id}");
    for (tool, arguments, field) in [
        ("bash", json!({}), "command"),
        ("bash", json!({"command": 7}), "command"),
        ("bash", json!({"command": ""}), "command"),
        ("bash", json!({"command": "x".repeat(130_000)}), "command"),
        ("bash", json!({"command": "true", "wait_ms": 60_000}), "wait_ms"),
        ("bash", json!({"command": "true", "wait_ms": -1}), "wait_ms"),
        ("bash", json!({"command": "true", "wait_ms": 1e300}), "wait_ms"),
        ("bash", json!({"command": "true", "background": "yes"}), "background"),
        ("bash", json!({"command": "true", "max_output_bytes": u64::MAX}), "max_output_bytes"),
        ("bash", json!({"command": "true", "timeout_ms": 0}), "timeout_ms"),
        ("bash", json!({"command": "true", "sandbox": "web"}), "sandbox"),
        ("bash", json!({"command": "true", "\u{1b}[2J": 1}), "\u{1b}[2J"),
        ("python", json!({"code": ["x"]}), "code"),
        ("undo", json!({"steps": 0}), "steps"),
        ("undo", json!({"to": "1", "steps": 1}), "to"),
        ("undo", json!({"to": "99999999"}), "to"),
        ("undo", json!({"to": "../../etc"}), "to"),
        ("sandbox", json!({"action": "explode"}), "action"),
    ] {
        let refused = call(&server, &path, Era::Stateless, tool, arguments.clone());
        assert_eq!(refused["isError"], true, "{tool} {field}");
        assert_eq!(refused["_meta"]["warren/field"], field, "{tool}: {refused}");
        assert!(text(&refused).len() < 2000, "{tool}: not all of it is repeated");
    }
    let other = call(&server, "/mcp", Era::Stateless, "bash", json!({"command": "true", "sandbox": "../x"}));
    assert_eq!(other["_meta"]["warren/field"], "sandbox", "{other}");
}

#[test]
fn a_client_that_hangs_up_takes_its_command_along() {
    let (server, id) = with_sandbox();
    let params = json!({"name": "bash", "arguments": {"command": "sleep 1000"}});
    for era in ERAS {
        let mut client = message(&server, &format!("/mcp/{id}"), era, "tools/call", params.clone()).open();
        let processes = format!("/v1/sandboxes/{id}/processes");
        let all = |status: &str| {
            let items = server.call("GET", &processes).send().expect(200).json()["items"].clone();
            items.as_array().unwrap().iter().filter(|item| item["status"] == status).count()
        };
        eventually("it runs", || all("running") == 1);
        client.shutdown(Shutdown::Both).unwrap();
        drop(client.read(&mut [0; 64]));
        eventually("it ends with its client", || all("running") == 0);
    }
}

#[test]
fn a_client_that_stops_in_the_middle_of_a_message_is_cut() {
    let server = TestServer::with(|config| config.http.read_timeout = Duration::from_millis(500));
    let whole = message(&server, "/mcp", Era::Stateless, "tools/list", json!({})).bytes();
    let mut stopped = server.connect();
    stopped.write_all(&whole[..whole.len() - 20]).unwrap();
    let mut answer = Vec::new();
    drop(stopped.read_to_end(&mut answer));
    assert!(answer.is_empty() || Answer::parse(&answer).status == 408, "{answer:?}");
    message(&server, "/mcp", Era::Stateless, "tools/list", json!({})).pass().expect(200);
}

#[test]
fn a_flood_of_calls_is_refused_by_its_number_and_others_are_served() {
    // What is refused are calls, and not connections.
    let server = TestServer::with(|config| config.http.max_connections_per_address = 1000);
    let made = call(&server, "/mcp", Era::Stateless, "sandbox", json!({"action": "create"}));
    let id = made["structuredContent"]["sandbox_id"].as_str().unwrap();
    let stranger = server.key("stranger", Scope::Use);
    let of_stranger = |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        let asked = message(&server, "/mcp", Era::Stateless, "tools/call", params).without("Authorization");
        super::client::result(&asked.key(&stranger).pass())
    };
    of_stranger("sandbox", json!({"action": "create"}));
    let params = json!({"name": "bash", "arguments": {"command": "sleep 1000"}});
    let path = format!("/mcp/{id}");
    let one_more = || message(&server, &path, Era::Stateless, "tools/call", params.clone()).open();
    let mut flood: Vec<TcpStream> = (0..260).map(|_| one_more()).collect();
    let mut refused = None;
    eventually("one too many is refused", || {
        // Some may have failed for other reasons.
        flood.extend((0..5).map(|_| one_more()));
        let told = call(&server, &path, Era::Stateless, "bash", json!({"command": "true"}));
        refused = told["_meta"]["warren/code"].as_str().map(str::to_owned);
        refused.is_some()
    });
    assert_eq!(refused.as_deref(), Some("too_many_calls"));
    let served = of_stranger("bash", json!({"command": "echo hello"}));
    assert!(text(&served).starts_with("hello"), "{served}");
    drop(flood);
    eventually("there is room again", || {
        call(&server, &path, Era::Stateless, "bash", json!({"command": "true"}))["isError"] == false
    });
}
