//! Every row of the table of `/v1`, tried as another owner, with the wrong method and with what it
//! does not know. Keys and scopes are tried by `faces`, for every face.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warren_core::Scope;
use warren_server::{Access, Audience, Route, route_table};

use crate::support::{Answer, Call, TestServer};

/// Things of one owner, one of each kind, by which paths are filled.
pub(crate) struct Things {
    sandbox: String,
    session: String,
    process: String,
    snapshot: String,
}

impl Things {
    pub(crate) fn of_owner(server: &TestServer) -> Self {
        let sandbox = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
        let text = |name: &str| sandbox[name].as_str().unwrap().to_owned();
        let things = Self {
            sandbox: text("sandbox_id"),
            session: text("session_id"),
            process: String::new(),
            snapshot: String::new(),
        };
        let start = json!({"command": ["sleep", "600"], "stdin_open": true});
        let path = format!("/v1/sandboxes/{}/processes", things.sandbox);
        let process = server.call("POST", &path).json(&start).send().expect(201).json();
        let path = format!("/v1/sandboxes/{}/snapshots", things.sandbox);
        let snapshot = server.call("POST", &path).send().expect(201).json();
        let snapshot = snapshot["snapshot_id"].as_str().unwrap().to_owned();
        Self { process: process["process_id"].to_string(), snapshot, ..things }
    }

    pub(crate) fn of_nobody() -> Self {
        Self {
            sandbox: "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
            session: "sess-00000000-0000-4000-8000-000000000000".to_owned(),
            process: "1".to_owned(),
            snapshot: "snap-00000000-0000-4000-8000-000000000000".to_owned(),
        }
    }

    /// The path of a row, with a query that it takes.
    pub(crate) fn path(&self, route: &Route) -> String {
        let path = route
            .path
            .replace("{sandbox_id}", &self.sandbox)
            .replace("{session_id}", &self.session)
            .replace("{process}", &self.process)
            .replace("{snapshot_id}", &self.snapshot)
            .replace("{number}", "1")
            .replace("{entry}", "1")
            .replace("{port}", "80")
            .replace("{tool}", "ls")
            .replace("{context}", "python")
            .replace("{name}", "python")
            .replace("{secret}", "token")
            .replace("{key_id}", "key-00000000-0000-4000-8000-000000000000");
        assert!(!path.contains('{'), "tell this test how to fill {}", route.path);
        match route.operation {
            "read_file" | "head_file" | "write_file" | "remove_file" | "stat_file" | "list_files"
            | "watch_files" | "pack_files" | "unpack_files" | "blame" => {
                format!("{path}?path=/x")
            }
            "diff" => format!("{path}?from={0}&to={0}", self.snapshot),
            "glob_files" | "grep_files" => format!("{path}?root=/&pattern=x"),
            _ => path,
        }
    }
}

/// A body that the row takes. `None` where it takes none.
pub(crate) fn body(route: &Route) -> Option<Value> {
    let body = match route.operation {
        "create_sandbox" | "update_sandbox" | "release_session" | "mark_session_ready" => json!({}),
        "take_snapshot"
        | "complete_turn"
        | "complete_session_turn"
        | "undo"
        | "redo"
        | "fork_sandbox"
        | "fork_snapshot"
        | "promote_sandbox"
        | "pause_sandbox" => json!({}),
        "move_sandbox" => json!({"backend": "fake"}),
        "name_snapshot" => json!({"name": null}),
        "roll_back_sandbox" => json!({"snapshot_id": "snap-00000000-0000-4000-8000-000000000000"}),
        "make_template" => json!({"name": "made"}),
        "call_tool" => json!({"params": {"path": "/"}}),
        "set_default_sandbox" => json!({"sandbox_id": "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa"}),
        "run_code" => json!({"code": "1"}),
        "exec" | "start_process" => json!({"command": ["true"]}),
        "signal_process" => json!({"signal": "TERM"}),
        "resize_process" => json!({"columns": 80, "rows": 24}),
        "make_directory" => json!({"path": "/x"}),
        "pack_some_files" => json!({"path": "/x", "files": ["y"]}),
        "move_file" => json!({"from": "/x", "to": "/y"}),
        "change_file_mode" => json!({"path": "/x", "mode": "0644"}),
        "change_file_owner" => json!({"path": "/x", "owner": "root"}),
        "make_symlink" => json!({"path": "/x", "target": "/y"}),
        "acquire_session" => json!({"client": "a"}),
        "attach_session" => json!({"client": "a", "sandbox_id": "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa"}),
        "think_in_session" => json!({"seconds": 1}),
        "mark_session_failed" => json!({"reason": "x"}),
        "record_run" => json!({"task": "x", "duration_ms": 1, "tokens": 1}),
        "set_network" => json!("none"),
        "allow_network" | "deny_network" => json!({"rules": ["example.com"]}),
        "answer_network_request" => json!({"answer": "deny"}),
        "set_port" => json!({"public": true}),
        "put_secret" => json!({"value": "v", "hosts": ["api.example"]}),
        "create_key" => json!({"name": "a", "scope": "read"}),
        _ => return None,
    };
    Some(body)
}

fn call(server: &TestServer, route: &Route, things: &Things) -> Call {
    let call = server.stranger(route.method.as_str(), &things.path(route));
    match body(route) {
        Some(body) => call.json(&body),
        None if route.method == "PUT" || route.operation == "import_snapshots" => call.body(*b"x"),
        None => call,
    }
}

/// An answer without what tells two requests apart.
fn essence(answer: &Answer, things: &Things) -> (u16, String) {
    if answer.body.is_empty() {
        return (answer.status, String::new());
    }
    let mut body = answer.json();
    body.as_object_mut().unwrap().remove("request_id");
    let text = body.to_string().replace(&things.sandbox, "SANDBOX").replace(&things.session, "SESSION");
    (answer.status, text.replace(&things.snapshot, "SNAPSHOT"))
}

#[test]
fn what_belongs_to_another_is_answered_like_what_does_not_exist() {
    let server = TestServer::start();
    let (things, nobody) = (Things::of_owner(&server), Things::of_nobody());
    let mut tried = 0;
    for route in route_table() {
        let names_one =
            ["{sandbox_id}", "{session_id}", "{snapshot_id}"].iter().any(|id| route.path.contains(id))
                || route.operation == "diff";
        if route.audience != Audience::Owner || !names_one {
            continue;
        }
        // An administrator sees no more of another owner's things, unless he says for whom he acts.
        let stranger = server.key(
            "stranger",
            if route.access == Access::Key(Scope::Admin) { Scope::Admin } else { Scope::Use },
        );
        let foreign = call(&server, route, &things).key(&stranger).send();
        let unknown = call(&server, route, &nobody).key(&stranger).send();
        assert_eq!(foreign.status, 404, "{route:?}: {}", String::from_utf8_lossy(&foreign.body));
        assert_eq!(essence(&foreign, &things), essence(&unknown, &nobody), "{route:?}");
        tried += 1;
    }
    assert!(tried > 50, "{tried}");
    let own = server.call("GET", &format!("/v1/sandboxes/{}", things.sandbox)).send().expect(200).json();
    assert_eq!(own["status"], "ready");
}

#[test]
fn an_administrator_may_act_for_another_owner_and_nobody_else_may() {
    let server = TestServer::start();
    let things = Things::of_owner(&server);
    let path = format!("/v1/sandboxes/{}", things.sandbox);
    let admin = server.key("stranger", Scope::Admin);
    server.stranger("GET", &path).key(&admin).send().expect(404);
    server.stranger("GET", &path).key(&admin).header("X-Warren-Owner", "default").send().expect(200);
    let user = server.key("stranger", Scope::Use);
    server.stranger("GET", &path).key(&user).header("X-Warren-Owner", "default").send().expect(403);
}

#[test]
fn a_malformed_id_is_answered_like_an_unknown_one() {
    let server = TestServer::start();
    for id in ["x", "sbx", "SBXAAAAAAAAAAAAAAAAAAAAAAAAAA", "%00", "..", &"a".repeat(5000)] {
        let answer = server.call("GET", &format!("/v1/sandboxes/{id}/usage")).send().expect(404);
        assert!(["sandbox_not_found", "route_not_found"].contains(&answer.code().as_str()), "{id}");
        server.call("GET", &format!("/v1/sessions/{id}/details")).send().expect(404);
        let answer = server.call("GET", &format!("/v1/snapshots/{id}/export")).send().expect(404);
        assert!(["snapshot_not_found", "route_not_found"].contains(&answer.code().as_str()), "{id}");
        server.call("DELETE", &format!("/v1/snapshots/{id}")).send().expect(404);
    }
    server.call("GET", "/v1/sandboxes/%ff/usage").send().expect(400);
}

#[test]
fn no_row_takes_a_parameter_that_it_does_not_have() {
    let server = TestServer::start();
    let things = Things::of_owner(&server);
    for route in route_table() {
        let path = things.path(route);
        let mark = if path.contains('?') { '&' } else { '?' };
        let call = server.call(route.method.as_str(), &format!("{path}{mark}surprise=1"));
        let call = if let Some(body) = body(route) { call.json(&body) } else { call };
        let answer = call.send();
        assert_eq!(answer.status, 422, "{route:?}");
        assert!(route.method == "HEAD" || answer.json()["field"] == "surprise", "{route:?}");
    }
}

#[test]
fn other_methods_are_refused_with_those_that_are_allowed() {
    let server = TestServer::start();
    let things = Things::of_owner(&server);
    let paths: BTreeSet<&str> = route_table().iter().map(|route| route.path).collect();
    for path in paths {
        let rows: Vec<&Route> = route_table().iter().filter(|route| route.path == path).collect();
        let methods: BTreeSet<&str> = rows.iter().map(|route| route.method.as_str()).collect();
        let unused =
            ["PATCH", "DELETE", "PUT", "POST"].into_iter().find(|method| !methods.contains(method)).unwrap();
        let filled = things.path(rows[0]);
        let answer = server.call(unused, filled.split('?').next().unwrap()).send();
        assert_eq!(answer.status, 405, "{unused} {path}");
        assert_eq!(answer.code(), "method_not_allowed");
        let allowed = answer.header("allow").unwrap_or_default().to_owned();
        assert!(methods.iter().all(|method| allowed.contains(method)), "{path}: {allowed}");
    }
    assert_eq!(server.call("GET", "/v1/nothing").send().expect(404).code(), "route_not_found");
}
