//! States of files that are captured: forks and snapshots.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{call, call_as, create, id_of, info, make};
use crate::support::{Answer, TestServer};
use warren_core::Scope;

fn take(server: &TestServer, id: &str, body: Value) -> Answer {
    call(server, "POST", &format!("/sandboxes/{id}/snapshots")).json(&body).pass()
}

fn snapshots(server: &TestServer, query: &str) -> Vec<String> {
    let answer = call(server, "GET", &format!("/snapshots?{query}")).pass().expect(200);
    let id = |snapshot: &Value| snapshot["snapshotID"].as_str().expect("an id").to_owned();
    answer.json().as_array().expect("a list").iter().map(id).collect()
}

fn encoded(id: &str) -> String {
    id.replace('/', "%2F").replace(':', "%3A")
}

#[test]
fn forks_are_sandboxes_of_their_own() {
    let server = TestServer::start();
    let made = create(&server, json!({"timeout": 300, "metadata": {"user": "ann"}, "autoPause": true}));
    let id = id_of(&made);
    let body = json!({"timeout": 60, "count": 3});
    let forks = call(&server, "POST", &format!("/sandboxes/{id}/fork")).json(&body).pass().expect(201).json();
    let ids: BTreeSet<String> =
        forks.as_array().unwrap().iter().map(|fork| id_of(&fork["sandbox"])).collect();
    assert_eq!((ids.len(), ids.contains(&id)), (3, false));
    for fork in &ids {
        let told = info(&server, fork);
        assert_eq!((&told["metadata"]["user"], &told["state"]), (&json!("ann"), &json!("running")));
        assert_eq!(told["lifecycle"]["onTimeout"], "pause");
        assert_ne!(told["envdAccessToken"], made["envdAccessToken"]);
    }
    assert_eq!(info(&server, &id)["state"], "running");
    for count in [0, 101] {
        let body = json!({"count": count});
        call(&server, "POST", &format!("/sandboxes/{id}/fork")).json(&body).pass().expect(400);
    }
    call(&server, "DELETE", &format!("/sandboxes/{id}")).pass().expect(204);
    call(&server, "POST", &format!("/sandboxes/{id}/fork")).pass().expect(404);
}

#[test]
fn sandboxes_begin_with_a_snapshot_also_when_its_sandbox_is_gone() {
    let server = TestServer::start();
    let id = make(&server);
    let taken = take(&server, &id, json!({})).expect(201).json();
    let snapshot = taken["snapshotID"].as_str().unwrap();
    assert!(snapshot.ends_with(":default") && taken["names"] == json!([]), "{taken}");
    assert_eq!(info(&server, &id)["state"], "running");
    call(&server, "DELETE", &format!("/sandboxes/{id}")).pass().expect(204);
    let body = json!({"templateID": snapshot});
    call(&server, "POST", "/v2/sandboxes").json(&body).pass().expect(201);
    assert_eq!(snapshots(&server, ""), [snapshot]);
    call(&server, "DELETE", &format!("/templates/{}", encoded(snapshot))).pass().expect(204);
    call(&server, "DELETE", &format!("/templates/{}", encoded(snapshot))).pass().expect(404);
    assert_eq!(snapshots(&server, ""), [""; 0]);
    call(&server, "POST", "/v2/sandboxes").json(&body).pass().expect(404);
}

#[test]
fn snapshots_are_found_by_sandbox_and_name() {
    let server = TestServer::start();
    let (one, two) = (make(&server), make(&server));
    let plain = take(&server, &one, json!({})).expect(201).json()["snapshotID"].as_str().unwrap().to_owned();
    server.clock.advance_s(1);
    let named = take(&server, &two, json!({"name": "mine"})).expect(201).json();
    assert_eq!(named["names"].as_array().map(Vec::len), Some(1), "{named}");
    let named = named["snapshotID"].as_str().unwrap().to_owned();
    assert_eq!(snapshots(&server, ""), [named.clone(), plain.clone()]);
    assert_eq!(snapshots(&server, &format!("sandboxID={one}")), std::slice::from_ref(&plain));
    assert_eq!(snapshots(&server, "name=mine"), std::slice::from_ref(&named));
    assert_eq!(snapshots(&server, "name=nobody"), [""; 0]);
    assert_eq!(snapshots(&server, "sandboxID=nobody"), [""; 0]);
    let page = call(&server, "GET", "/snapshots?limit=1").pass().expect(200);
    let token = page.header("x-next-token").expect("there is more").to_owned();
    assert_eq!(snapshots(&server, &format!("limit=1&nextToken={token}")), [plain]);
    take(&server, &one, json!({"name": "no such name!"})).expect(400);
    let other = server.key("other", Scope::Use);
    assert_eq!(call_as(&server, &other, "GET", "/snapshots").pass().expect(200).json(), json!([]));
}
