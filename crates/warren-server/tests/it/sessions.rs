use serde_json::{Value, json};
use warren_core::Scope;

use crate::golden::assert_golden;
use crate::support::TestServer;

const SESSIONS: &str = "/v1/sessions";

fn acquired(server: &TestServer, body: &Value) -> Value {
    server.call("POST", SESSIONS).json(body).send().expect(201).json()
}

fn id(session: &Value) -> &str {
    session["session_id"].as_str().unwrap()
}

#[test]
fn an_acquired_session_comes_with_its_sandbox() {
    let server = TestServer::start();
    let body = json!({
        "client": "agent-7", "sandbox": {"memory_mib": 256}, "required": {"write_access": true, "memory_mib": 128},
        "limits": {"runs": 3, "tokens": 1000}, "labels": {"a": "1"}, "metadata": {"b": "2"},
    });
    assert_golden("session_acquired", acquired(&server, &body));
}

#[test]
fn a_preferred_sandbox_is_joined_unless_a_fresh_one_is_required() {
    let server = TestServer::start();
    let first = acquired(&server, &json!({"client": "a"}));
    let sandbox = &first["sandbox_id"];
    let joined = acquired(&server, &json!({"client": "b", "preferred_sandbox_id": sandbox}));
    assert_eq!((&joined["sandbox_id"], &joined["fresh"]), (sandbox, &json!(false)));
    let fresh =
        acquired(&server, &json!({"client": "c", "preferred_sandbox_id": sandbox, "require_fresh": true}));
    assert!(fresh["sandbox_id"] != *sandbox && fresh["fresh"] == true);
}

#[test]
fn a_session_goes_through_its_states() {
    let server = TestServer::start();
    let session = acquired(&server, &json!({"client": "a"}));
    let at = |verb: &str| format!("{SESSIONS}/{}/{verb}", id(&session));
    for (verb, state) in
        [("detach", "detached"), ("resume", "active"), ("suspend", "suspended"), ("resume", "active")]
    {
        let now = server.call("POST", &at(verb)).send().expect(200).json();
        assert_eq!(now["state"], state, "{verb}");
    }
    let thinking =
        server.call("POST", &at("thinking")).json(&json!({"seconds": 60})).send().expect(200).json();
    assert!(thinking["thinking_until"].is_string());
    let released =
        server.call("POST", &at("release")).json(&json!({"keep_alive": true})).send().expect(200).json();
    assert_eq!(released["state"], "released");
    let denied = server.call("POST", &at("detach")).send().expect(409).json();
    assert_eq!((&denied["code"], &denied["state"]), (&json!("wrong_state"), &json!("released")));
    let looked_at = server.call("GET", &format!("{SESSIONS}/{}", id(&session))).send().expect(200).json();
    assert_eq!(looked_at["sandbox"]["resumable"], true, "{looked_at}");
}

#[test]
fn a_terminated_session_takes_its_sandbox_along() {
    let server = TestServer::start();
    let session = acquired(&server, &json!({"client": "a"}));
    let ended =
        server.call("POST", &format!("{SESSIONS}/{}/terminate", id(&session))).send().expect(200).json();
    assert_eq!(ended["state"], "terminated");
    server.isolation.assert_only(&[]);
}

#[test]
fn an_attach_joins_or_makes() {
    let server = TestServer::start();
    let first = acquired(&server, &json!({"client": "a"}));
    let attach = |body: Value| server.call("POST", "/v1/sessions/attach").json(&body).send();
    let joined = attach(json!({"sandbox_id": first["sandbox_id"], "client": "b"})).expect(200).json();
    assert_eq!((&joined["sandbox_id"], &joined["fresh"]), (&first["sandbox_id"], &json!(false)));
    let unknown = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(attach(json!({"sandbox_id": unknown, "client": "b"})).expect(404).code(), "sandbox_not_found");
    let create =
        json!({"sandbox_id": unknown, "client": "b", "create_if_missing": true, "create": {"pids": 77}});
    let made = attach(create).expect(201).json();
    assert_eq!((&made["fresh"], &made["sandbox"]["limits"]["pids"]), (&json!(true), &json!(77)));
    for (body, field) in [
        (json!({"sandbox_id": "Nonsense", "client": "b"}), "sandbox_id"),
        (json!({"sandbox_id": unknown, "client": "b", "create": {}}), "create"),
        (
            json!({"sandbox_id": unknown, "client": "b", "create_if_missing": true, "create": {"client": "x"}}),
            "create.client",
        ),
    ] {
        assert_eq!(attach(body).expect(422).json()["field"], field);
    }
}

#[test]
fn lists_are_chosen_by_sandbox_and_client() {
    let server = TestServer::start();
    let one = acquired(&server, &json!({"client": "a"}));
    acquired(&server, &json!({"client": "b"}));
    let listed = |query: &str| {
        let list = server.call("GET", &format!("{SESSIONS}?{query}")).send().expect(200).json();
        list["items"].as_array().unwrap().len()
    };
    assert_eq!((listed(""), listed("client=a"), listed("client=nobody")), (2, 1, 0));
    assert_eq!(listed(&format!("sandbox={}", one["sandbox_id"].as_str().unwrap())), 1);
    server.call("POST", &format!("{SESSIONS}/{}/terminate", id(&one))).send().expect(200);
    assert_eq!((listed(""), listed("ended=true")), (1, 2));
    let refused = server.call("GET", &format!("{SESSIONS}?sandbox=Nonsense")).send().expect(422).json();
    assert_eq!(refused["field"], "sandbox");
}

#[test]
fn runs_are_counted_and_limited() {
    let server = TestServer::start();
    let session = acquired(&server, &json!({"client": "a", "limits": {"runs": 2, "tokens": 100}}));
    let at = |end: &str| format!("{SESSIONS}/{}/{end}", id(&session));
    let run = json!({
        "task": "build", "result": "ok", "duration_ms": 1500, "tokens": 40, "screenshots": ["a.png"], "provider": "p",
    });
    assert_golden("run_recorded", server.call("POST", &at("runs")).json(&run).send().expect(201).json());
    assert_golden("can_run", server.call("GET", &at("can-run")).send().expect(200).json());
    let long = json!({"task": "build", "duration_ms": 400_000, "tokens": 10});
    let second = server.call("POST", &at("runs")).json(&long).send().expect(201).json();
    assert_eq!((&second["number"], &second["status"]), (&json!(2), &json!("over_time")));
    let denied = server.call("POST", &at("runs")).json(&run).send().expect(409).json();
    assert_eq!((&denied["code"], &denied["state"]), (&json!("run_denied"), &json!("out_of_runs")));
    let can = server.call("GET", &at("can-run")).send().expect(200).json();
    assert_eq!((&can["allowed"], &can["reason"]), (&json!(false), &json!("out_of_runs")));
    let details = server.call("GET", &at("details")).send().expect(200).json();
    assert_eq!(details["session"]["totals"], json!({"runs": 2, "tokens": 50, "duration_ms": 401_500}));
    assert_eq!(details["runs"], server.call("GET", &at("runs")).send().expect(200).json()["items"]);
}

#[test]
fn what_a_session_needs_is_ready_or_failed() {
    let server = TestServer::start();
    let session = acquired(&server, &json!({"client": "a"}));
    let at = |end: &str| format!("{SESSIONS}/{}/{end}", id(&session));
    let body = json!({"url": "http://box:8000", "job_id": "j-1"});
    let ready = server.call("POST", &at("ready")).json(&body).send().expect(200).json();
    assert_eq!(ready["provision"], json!({"state": "ready", "url": "http://box:8000", "job_id": "j-1"}));
    let other = acquired(&server, &json!({"client": "b"}));
    let path = format!("{SESSIONS}/{}/failed", id(&other));
    let failed = server.call("POST", &path).json(&json!({"reason": "no browser"})).send().expect(200).json();
    assert_eq!(failed["provision"], json!({"state": "failed", "reason": "no browser"}));
    let refused = server.call("POST", &path).json(&json!({"reason": ""})).send().expect(422).json();
    assert_eq!(refused["field"], "reason");
}

#[test]
fn a_client_that_attaches_is_told_what_the_sandbox_can_do() {
    let server = TestServer::start();
    let made = json!({"ttl_s": 600, "memory_mib": 256, "on_expiry": "delete", "profile": "strict",
        "network": {"mode": "none"}});
    let sandbox = server.call("POST", "/v1/sandboxes").json(&made).send().expect(201).json();
    let body = json!({"sandbox_id": sandbox["sandbox_id"], "client": "b"});
    let session = server.call("POST", "/v1/sessions/attach").json(&body).send().expect(200).json();
    let able = &session["capabilities"];
    assert_eq!((&able["backend"], &able["profile"]), (&sandbox["backend"], &json!("strict")));
    assert_eq!((&able["limits"], &able["created_at"]), (&sandbox["limits"], &sandbox["created_at"]));
    assert_eq!((&able["has_network"], &able["allowed_destinations"]), (&json!(false), &json!([])));
    assert_eq!((&able["can_write_filesystem"], &able["is_persistent"]), (&json!(true), &json!(false)));
    let paths = |name: &str| able[name].as_array().unwrap().clone();
    assert!(paths("readable_paths").contains(&json!("/proc")), "{able}");
    assert!(paths("writable_paths").contains(&json!("/")), "{able}");
    assert!(!paths("writable_paths").contains(&json!("/proc")), "{able}");
    let left = able["time_remaining_ms"].as_u64().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
    let looked_at = server.call("GET", &format!("{SESSIONS}/{}", id(&session))).send().expect(200).json();
    assert_eq!(looked_at.get("capabilities"), None);
}

#[test]
fn a_path_that_must_be_readable_is_there_or_the_sandbox_does_not_fit() {
    let server = TestServer::start();
    let first = acquired(&server, &json!({"client": "a"}));
    let sandbox = first["sandbox_id"].as_str().unwrap();
    let note = format!("/v1/sandboxes/{sandbox}/files?path=/note");
    server.call("PUT", &note).body("read me").send().expect(200);
    let wanted = |path: &str| json!({"client": "b", "preferred_sandbox_id": sandbox, "required": {"readable": [path]}});
    assert_eq!(acquired(&server, &wanted("/note"))["sandbox_id"], sandbox);
    // The preferred one lacks it, and so does a fresh one, which is ended again.
    let refused = server.call("POST", SESSIONS).json(&wanted("/not-there")).send().expect(422).json();
    assert_eq!(refused["field"], "required.readable");
    assert!(refused["detail"].as_str().unwrap().contains("/not-there"), "{refused}");
    let left = server.call("GET", "/v1/sandboxes").send().expect(200).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
    let later = json!({"client": "b", "background": true, "required": {"readable": ["/note"]}});
    let refused = server.call("POST", SESSIONS).json(&later).send().expect(422).json();
    assert_eq!(refused["field"], "required.readable");
}

#[test]
fn a_session_tells_how_many_snapshots_its_sandbox_has() {
    let server = TestServer::start();
    let session = acquired(&server, &json!({"client": "a"}));
    let at = format!("{SESSIONS}/{}", id(&session));
    let before = server.call("GET", &at).send().expect(200).json()["snapshot_count"].as_u64().unwrap();
    let snapshots = format!("/v1/sandboxes/{}/snapshots", session["sandbox_id"].as_str().unwrap());
    server.call("POST", &snapshots).json(&json!({"name": "one"})).send().expect(201);
    let now = server.call("GET", &at).send().expect(200).json();
    assert!(now["snapshot_count"].as_u64().unwrap() > before, "{now}");
    let details = server.call("GET", &format!("{at}/details")).send().expect(200).json();
    assert_eq!(details["session"]["snapshot_count"], now["snapshot_count"]);
    let by_sandbox = format!("{SESSIONS}?sandbox_id={}", session["sandbox_id"].as_str().unwrap());
    let list = server.call("GET", &by_sandbox).send().expect(200).json();
    assert_eq!(list["items"][0]["snapshot_count"], now["snapshot_count"]);
}

#[test]
fn an_expired_session_can_be_resumed() {
    let server = TestServer::start();
    let session = acquired(&server, &json!({"client": "a"}));
    let at = |end: &str| format!("{SESSIONS}/{}/{end}", id(&session));
    assert_eq!(server.call("POST", &at("expire")).send().expect(200).json()["state"], "expired");
    let resumed = server.call("POST", &at("resume")).send().expect(200).json();
    assert_eq!((&resumed["state"], &resumed["sandbox"]["status"]), (&json!("active"), &json!("ready")));
}

#[test]
fn what_an_acquire_cannot_use_is_named() {
    let server = TestServer::start();
    for (body, field) in [
        (json!({"client": ""}), "client"),
        (json!({"client": "a\u{7}"}), "client"),
        (json!({"client": "a", "sandbox": {"client": "b"}}), "sandbox.client"),
        (json!({"client": "a", "backend": "x", "sandbox": {"backend": "y"}}), "backend"),
        (json!({"client": "a", "preferred_sandbox_id": "X"}), "preferred_sandbox_id"),
        (json!({"client": "a", "required": {"readable": ["relative"]}}), "required.readable"),
        (json!({"client": "a", "tier": "gold"}), "tier"),
        (json!({"client": "a", "limits": {"run_s": 0}}), "limits.run_s"),
        (json!({"client": "a", "labels": {"": "x"}}), "labels"),
        (json!({"client": "a", "sandbox": {"labels": {"": "x"}}}), "sandbox.labels"),
        (json!({"client": "a", "sandbox": {"timeouts": {"active_s": 0}}}), "sandbox.timeouts.active_s"),
        (
            json!({"client": "a", "sandbox": {"mounts": [{"source": "/etc", "target": "/x"}]}}),
            "sandbox.mounts",
        ),
    ] {
        let refused = server.call("POST", SESSIONS).json(&body).send().expect(422).json();
        assert_eq!(refused["field"], field, "{body}: {refused}");
    }
}

#[test]
fn a_foreign_sandbox_is_neither_joined_nor_preferred() {
    let server = TestServer::start();
    let own = acquired(&server, &json!({"client": "a"}));
    let stranger = server.key("stranger", Scope::Use);
    let call = server.stranger("POST", "/v1/sessions/attach").key(&stranger);
    let refused = call.json(&json!({"sandbox_id": own["sandbox_id"], "client": "b"})).send().expect(404);
    assert_eq!(refused.code(), "sandbox_not_found");
    let call = server.stranger("POST", SESSIONS).key(&stranger);
    let other = call
        .json(&json!({"client": "b", "preferred_sandbox_id": own["sandbox_id"]}))
        .send()
        .expect(201)
        .json();
    assert!(other["sandbox_id"] != own["sandbox_id"] && other["fresh"] == true);
    let listed = server.stranger("GET", SESSIONS).key(&stranger).send().expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}
