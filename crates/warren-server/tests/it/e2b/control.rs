use serde_json::{Value, json};
use warren_core::Scope;

use super::{call, call_as, create, e2b_key, id_of, info, make};
use crate::golden::assert_golden;
use crate::support::{Answer, TestServer};

/// Insists on a refusal in this protocol's shape, and answers its message.
fn refused(answer: Answer, status: u16) -> String {
    let answer = answer.expect(status);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(body["code"], status, "{body}");
    body["message"].as_str().expect("a message").to_owned()
}

/// Tokens and the server's own port differ from run to run.
fn blurred(mut body: Value) -> Value {
    for name in ["envdAccessToken", "trafficAccessToken", "domain"] {
        if body[name].is_string() {
            body[name] = name.to_uppercase().into();
        }
    }
    body
}

#[test]
fn a_sandbox_is_made_told_and_killed() {
    let server = TestServer::start();
    let made = create(&server, json!({"timeout": 60, "metadata": {"user": "ann"}, "envVars": {"A": "1"}}));
    let id = id_of(&made);
    assert_eq!(made["domain"], format!("localhost:{}", server.address.port()));
    assert_eq!(made["envdAccessToken"].as_str().map(str::len), Some(64));
    assert_golden("e2b_created", blurred(made));
    assert_golden("e2b_detail", blurred(info(&server, &id)));
    assert_golden("e2b_list", call(&server, "GET", "/v2/sandboxes").pass().expect(200).json());
    assert_eq!(call(&server, "DELETE", &format!("/sandboxes/{id}")).pass().expect(204).body, b"");
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("POST", "/connect"), ("POST", "/pause"), ("POST", "/timeout")]
    {
        let gone =
            call(&server, method, &format!("/sandboxes/{id}{path}")).json(&json!({"timeout": 9})).pass();
        refused(gone, 404);
    }
    assert_eq!(call(&server, "GET", "/v2/sandboxes").pass().expect(200).json(), json!([]));
}

#[test]
fn the_first_generation_is_answered_too() {
    let server = TestServer::start();
    let body = json!({"templateID": "base", "secure": true});
    let made = call(&server, "POST", "/sandboxes").json(&body).pass().expect(201).json();
    let id = id_of(&made);
    assert!(made["envdAccessToken"].is_string() && made["trafficAccessToken"].is_null());
    let listed = call(&server, "GET", "/sandboxes").pass().expect(200).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    refused(call(&server, "POST", &format!("/sandboxes/{id}/connect")).pass(), 400);
    let connect =
        call(&server, "POST", &format!("/sandboxes/{id}-warren/connect")).json(&json!({"timeout": 9}));
    assert_eq!(id_of(&connect.pass().expect(200).json()), id, "a client's name after the id is left out");
}

#[test]
fn it_is_at_three_places() {
    let server = TestServer::start();
    let key = e2b_key(&server.admin);
    let listener = server.listen_for_e2b();
    let port = server.address.port();
    for (host, path) in [
        ("localhost", "/e2b/sandboxes"),
        ("api.localhost", "/sandboxes"),
        (&format!("api.localhost:{port}"), "/v2/sandboxes"),
    ] {
        let answer = server.visitor("GET", path, host).header("X-API-KEY", &key).pass();
        assert_eq!(answer.expect(200).json(), json!([]), "{host}{path}");
    }
    let own = server.stranger("GET", "/sandboxes").at(listener).header("X-API-KEY", &key).pass();
    assert_eq!(own.expect(200).json(), json!([]));
    refused(server.stranger("GET", "/v1/sandboxes").at(listener).key(&server.admin).pass(), 404);
    let other = server.visitor("GET", "/v1/sandboxes", "api.localhost").key(&server.admin).pass().expect(200);
    assert!(other.json()["items"].is_array(), "the service's own interface stays where it was");
    let own = server.stranger("GET", "/sandboxes").key(&server.admin).pass().expect(404);
    assert_eq!(own.header("content-type"), Some("application/problem+json"));
}

#[test]
fn nobody_comes_in_without_a_key() {
    let server = TestServer::start();
    for path in ["/e2b/sandboxes", "/e2b/v2/sandboxes", "/e2b/snapshots", "/e2b/templates", "/e2b/teams"] {
        refused(server.stranger("GET", path).pass(), 401);
        refused(
            server.stranger("GET", path).header("X-API-KEY", &format!("e2b_{}", "0".repeat(40))).pass(),
            401,
        );
    }
    let reader = server.key("default", Scope::Read);
    call_as(&server, &reader, "GET", "/v2/sandboxes").pass().expect(200);
    refused(
        call_as(&server, &reader, "POST", "/v2/sandboxes").json(&json!({"templateID": "base"})).pass(),
        403,
    );
    let id = make(&server);
    let told = call_as(&server, &reader, "GET", &format!("/sandboxes/{id}")).pass().expect(200).json();
    assert!(told["envdAccessToken"].is_null(), "who may only read is told what opens the sandbox: {told}");
    for (method, path) in [("DELETE", ""), ("POST", "/connect"), ("POST", "/pause"), ("PUT", "/network")] {
        refused(call_as(&server, &reader, method, &format!("/sandboxes/{id}{path}")).pass(), 403);
    }
    server.stranger("GET", "/e2b/health").pass().expect(200);
    refused(call(&server, "GET", "/nowhere").pass(), 404);
    refused(call(&server, "PUT", "/v2/sandboxes").pass(), 405);
}

#[test]
fn a_server_that_asks_for_no_key_takes_any() {
    let server = TestServer::with(|config| config.auth.enabled = false);
    let any = format!("e2b_{}", "0".repeat(40));
    server.stranger("GET", "/e2b/sandboxes").header("X-API-KEY", &any).pass().expect(200);
    server.stranger("GET", "/e2b/sandboxes").pass().expect(200);
}

#[test]
fn anothers_sandbox_is_one_that_does_not_exist() {
    let server = TestServer::start();
    let id = make(&server);
    let other = server.key("other", Scope::Use);
    let nobodys = format!("sbx{}", "a".repeat(26));
    let calls = [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/connect"),
        ("POST", "/resume"),
        ("POST", "/timeout"),
        ("POST", "/refreshes"),
        ("POST", "/pause"),
        ("POST", "/fork"),
        ("POST", "/snapshots"),
        ("PUT", "/network"),
        ("GET", "/metrics"),
        ("GET", "/logs"),
    ];
    for (method, path) in calls {
        let ask = |id: &str| {
            let body = json!({"timeout": 60});
            let path = format!("/sandboxes/{id}{path}");
            refused(call_as(&server, &other, method, &path).json(&body).pass(), 404).replace(id, "ID")
        };
        assert_eq!(ask(&id), ask(&nobodys), "{method} {path}");
    }
    let path = format!("/v2/sandboxes/{id}/connect");
    refused(call_as(&server, &other, "POST", &path).pass(), 404);
    assert_eq!(call_as(&server, &other, "GET", "/v2/sandboxes").pass().expect(200).json(), json!([]));
    assert_eq!(info(&server, &id)["state"], "running");
}

#[test]
fn a_sandbox_that_was_made_in_another_way_is_known_too() {
    let server = TestServer::start();
    let body = json!({"metadata": {"user": "ann"}, "ttl_s": 60});
    let made = server.call("POST", "/v1/sandboxes").json(&body).send().expect(201).json();
    let id = made["sandbox_id"].as_str().unwrap();
    let told = info(&server, id);
    assert_eq!((&told["templateID"], &told["state"]), (&json!("host"), &json!("running")));
    assert_eq!(told["metadata"], json!({"user": "ann"}));
    let connected = call(&server, "POST", &format!("/v2/sandboxes/{id}/connect")).pass().expect(200).json();
    assert!(connected["trafficAccessToken"].is_string(), "its ports are nobody's but its owner's");
}

#[test]
fn a_sandbox_may_ask_for_a_day() {
    let server = TestServer::start();
    let ask = |timeout: u64| {
        call(&server, "POST", "/v2/sandboxes").json(&json!({"templateID": "base", "timeout": timeout})).pass()
    };
    ask(86_400).expect(201);
    let refused = ask(86_401).expect(400).json();
    assert!(refused["message"].as_str().unwrap().contains("from 1 to 86400"), "{refused}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let server = TestServer::start();
    let many: serde_json::Map<String, Value> = (0..65).map(|n| (format!("k{n}"), json!("v"))).collect();
    let cases = [
        (json!({"templateID": "base", "timeout": 0}), 400, "timeout"),
        (json!({"templateID": "base", "timeout": -1}), 400, "timeout"),
        (json!({"templateID": "base", "timeout": 99_999_999}), 400, "timeout"),
        (json!({"templateID": "base", "timeout": "60"}), 400, "timeout"),
        (json!({"templateID": "base", "metadata": many}), 400, "metadata"),
        (json!({"templateID": "base", "metadata": {"a": "x".repeat(2000)}}), 400, "metadata"),
        (json!({"templateID": "base", "envVars": {"A=B": "1"}}), 400, "env"),
        (json!({"templateID": "base", "autoPauseMemory": false}), 400, "autoPause"),
        (
            json!({"templateID": "base", "autoPause": true, "autoPauseMemory": false, "autoResume": {"enabled": true}}),
            400,
            "autoResume",
        ),
        (json!({"templateID": "base", "volumeMounts": [{"name": "a", "path": "/a"}]}), 400, "volumeMounts"),
        (json!({"templateID": "base", "iam": {"tokens": {"a": {"audience": "b"}}}}), 400, "iam"),
        (json!({"templateID": "not-there"}), 404, "not-there"),
        (json!({}), 400, "template"),
    ];
    for (body, status, named) in cases {
        let message = refused(call(&server, "POST", "/v2/sandboxes").json(&body).pass(), status);
        assert!(message.contains(named), "{message}");
    }
    let cut = call(&server, "POST", "/v2/sandboxes").header("Content-Type", "application/json").body("{");
    refused(cut.pass(), 400);
    assert_eq!(call(&server, "GET", "/v2/sandboxes").pass().json(), json!([]));
}

#[test]
fn a_repeated_create_makes_one_sandbox() {
    let server = TestServer::start();
    let make = |timeout: u64| {
        let body = json!({"templateID": "base", "timeout": timeout});
        call(&server, "POST", "/v2/sandboxes").header("Idempotency-Key", "once-1").json(&body).pass()
    };
    let (first, again) = (make(60).expect(201).json(), make(60).expect(201).json());
    assert_eq!(id_of(&first), id_of(&again));
    assert_eq!(first, again);
    let other = make(61).expect(422).json();
    assert_eq!((&other["code"], &other["error_code"]), (&json!(422), &json!("idempotency_request_mismatch")));
}

#[test]
fn too_many_sandboxes_are_refused_once_and_for_all() {
    let server = TestServer::with(|config| config.limits.max_sandboxes = 1);
    let full = loop {
        let answer = call(&server, "POST", "/v2/sandboxes").json(&json!({"templateID": "base"})).pass();
        if answer.status != 201 {
            break answer;
        }
    };
    assert_eq!((full.header("should-retry"), full.header("retry-after")), (Some("false"), None));
    refused(full, 429);
}
