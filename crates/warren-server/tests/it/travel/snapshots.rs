use serde_json::json;
use warren_core::Scope;
use warren_server::config::Config;

use super::{World, refusal, refused};
use crate::golden::assert_golden;
use crate::support::TestServer;

const NOBODYS: &str = "snap-00000000-0000-4000-8000-000000000000";

#[test]
fn a_snapshot_is_told_as_a_whole() {
    let world = World::quiet();
    world.write("/home/user/a", "one");
    let taken = world.ask("snapshots", &json!({"name": "first", "durable": true})).expect(201).json();
    assert!(taken["took_ms"].is_number() && taken["frozen_ms"].is_number());
    assert_golden("snapshot_taken", taken.clone());
    let path = format!("/v1/snapshots/{}", taken["snapshot_id"].as_str().unwrap());
    let found = world.get(&path).expect(200).json();
    assert_eq!((&found["name"], &found["durable"]), (&json!("first"), &json!(true)));
    assert!(found.get("took_ms").is_none());
    let sandbox = world.get(&format!("/v1/sandboxes/{}", world.id)).expect(200).json();
    assert_eq!(sandbox["snapshot_id"], taken["snapshot_id"]);
}

#[test]
fn a_snapshot_needs_no_body() {
    let world = World::new();
    let path = format!("/v1/sandboxes/{}/snapshots", world.id);
    let taken = world.server.call("POST", &path).send().expect(201).json();
    assert!(taken.get("name").is_none());
    let empty = world.server.call("POST", &path).header("Content-Type", "application/json").body("");
    empty.send().expect(201);
}

#[test]
fn snapshots_are_listed_by_sandbox_and_by_name() {
    let world = World::quiet();
    for name in ["a", "b"] {
        world.write("/home/user/x", name);
        world.ask("snapshots", &json!({"name": name})).expect(201);
        // Of the same moment, either might be the newer one.
        world.server.clock.advance_ms(1);
    }
    let names = |path: &str| {
        let page = world.get(path).expect(200).json();
        let items = page["items"].as_array().unwrap().clone();
        items.iter().filter_map(|item| item["name"].as_str().map(ToOwned::to_owned)).collect::<Vec<_>>()
    };
    let of_sandbox = format!("/v1/sandboxes/{}/snapshots", world.id);
    assert_eq!(names(&of_sandbox), ["b", "a"]);
    assert_eq!(names(&format!("{of_sandbox}?name=a")), ["a"]);
    assert_eq!(names("/v1/snapshots?named=true&limit=1"), ["b"]);
    let page = world.get("/v1/snapshots?named=true&limit=1").expect(200).json();
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(names(&format!("/v1/snapshots?named=true&limit=1&cursor={cursor}")), ["a"]);
    let stranger = world.server.key("stranger", Scope::Use);
    let foreign = world.server.stranger("GET", "/v1/snapshots").key(&stranger).send().expect(200).json();
    assert_eq!(foreign["items"], json!([]));
}

#[test]
fn a_name_is_given_and_taken_away() {
    let world = World::new();
    world.write("/home/user/x", "1");
    let (one, path) = (world.snapshot(), |id: &str| format!("/v1/snapshots/{id}"));
    let name = |id: &str, body| world.server.call("PATCH", &path(id)).json(&body).send();
    assert_eq!(name(&one, json!({"name": "kept"})).expect(200).json()["name"], "kept");
    assert!(name(&one, json!({"name": null})).expect(200).json().get("name").is_none());
    assert_eq!(refusal(&name(&one, json!({}))), refused(422, "invalid_value", "name"));
    assert_eq!(refusal(&name(&one, json!({"name": ""}))), refused(422, "invalid_value", "name"));
    assert_eq!(refusal(&name(NOBODYS, json!({"name": "x"}))).1, "snapshot_not_found");
    name(&one, json!({"name": "kept"})).expect(200);
    world.write("/home/user/x", "2");
    let taken = world.ask("snapshots", &json!({"name": "kept"}));
    assert_eq!(refusal(&taken).1, "snapshot_name_taken");
    let two = world.snapshot();
    assert_eq!(refusal(&name(&two, json!({"name": "kept"}))).1, "snapshot_name_taken");
}

#[test]
fn a_deleted_snapshot_is_gone_and_those_after_it_stay() {
    let world = World::new();
    let [one, two] = ["1", "2"].map(|text| {
        world.write("/home/user/x", text);
        world.snapshot()
    });
    let path = format!("/v1/snapshots/{one}");
    world.server.call("DELETE", &path).send().expect(204);
    world.get(&path).expect(404);
    world.server.call("DELETE", &path).send().expect(404);
    let kept = world.get(&format!("/v1/snapshots/{two}")).expect(200).json();
    assert_ne!(kept["parent_id"], json!(one));
}

#[test]
fn a_sandbox_begins_with_a_snapshot() {
    let world = World::new();
    world.write("/home/user/x", "then");
    let snapshot = world.snapshot();
    world.write("/home/user/x", "now");
    let body = json!({"snapshot_id": snapshot, "history": "off"});
    let made = world.post("/v1/sandboxes", &body).expect(201).json();
    assert_eq!((&made["history"], &made["snapshot_id"]), (&json!("off"), &json!(snapshot)));
    let path = format!("/v1/sandboxes/{}/files?path=/home/user/x", made["sandbox_id"].as_str().unwrap());
    assert_eq!(world.get(&path).expect(200).body, b"then");
    let acquired = json!({"client": "a", "sandbox": {"snapshot_id": snapshot}});
    let session = world.post("/v1/sessions", &acquired).expect(201).json();
    assert_eq!(session["sandbox"]["snapshot_id"], json!(snapshot));
}

#[test]
fn a_new_sandbox_is_refused_a_snapshot_that_it_cannot_begin_with() {
    let world = World::new();
    world.write("/home/user/x", "then");
    let snapshot = world.snapshot();
    let create = |body| world.post("/v1/sandboxes", &body);
    let malformed = create(json!({"snapshot_id": "../etc"}));
    assert_eq!(refusal(&malformed), refused(422, "invalid_value", "snapshot_id"));
    assert_eq!(refusal(&create(json!({"snapshot_id": NOBODYS}))).1, "snapshot_not_found");
    let other = create(json!({"snapshot_id": snapshot, "template": "python"}));
    assert_eq!(refusal(&other), refused(422, "invalid_value", "template"));
    let nested = world.post("/v1/sessions", &json!({"client": "a", "sandbox": {"snapshot_id": "x"}}));
    assert_eq!(refusal(&nested), refused(422, "invalid_value", "sandbox.snapshot_id"));
    let history = create(json!({"history": "sometimes"}));
    assert_eq!(refusal(&history), refused(422, "invalid_value", "history"));
    let stranger = world.server.key("stranger", Scope::Use);
    let body = json!({"snapshot_id": snapshot});
    let foreign = world.server.stranger("POST", "/v1/sandboxes").key(&stranger).json(&body).send();
    assert_eq!(refusal(&foreign).1, "snapshot_not_found");
}

#[test]
fn wrong_bodies_name_the_field() {
    let world = World::new();
    let cases = [
        ("snapshots", json!({"name": 7}), "name"),
        ("snapshots", json!({"name": "a\nb"}), "name"),
        ("snapshots", json!({"durable": "yes"}), "durable"),
        ("snapshots", json!({"colour": "red"}), "colour"),
        ("turns", json!({"session_id": "x"}), "session_id"),
        ("rollback", json!({}), "snapshot_id"),
        ("rollback", json!({"snapshot_id": "../x"}), "snapshot_id"),
        ("undo", json!({"steps": 0}), "steps"),
        ("undo", json!({"steps": -1}), "steps"),
        ("redo", json!({"steps": 10_001}), "steps"),
        ("fork", json!({"count": 0}), "count"),
        ("fork", json!({"count": 101}), "count"),
        ("fork", json!({"labels": {"": "x"}}), "labels"),
        ("fork", json!({"ttl_s": 0}), "ttl_s"),
        ("promote", json!({"into": "X"}), "into"),
        ("promote", json!({"conflicts": "mine"}), "conflicts"),
    ];
    for (what, body, field) in cases {
        let answer = world.ask(what, &body);
        assert_eq!(refusal(&answer), refused(422, "invalid_value", field), "{what} {body}");
    }
}

#[test]
fn what_was_written_around_a_refused_name_is_not_lost() {
    let world = World::on(TestServer::with(|config: &mut Config| config.http.max_body.0 = 1 << 20));
    world.write("/home/user/x", "kept");
    world.ask("snapshots", &json!({"name": "x".repeat(129)})).expect(422);
    assert_eq!(world.read("/home/user/x").as_deref(), Some("kept"));
}
