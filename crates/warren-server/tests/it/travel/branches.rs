use serde_json::{Value, json};
use warren_core::Scope;

use super::{World, refusal, refused, write_in};
use crate::golden::assert_golden;

const FILE: &str = "/home/user/x";

fn ids(forks: &Value) -> Vec<String> {
    let items = forks["sandboxes"].as_array().unwrap().iter();
    items.map(|fork| fork["sandbox_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn forks_share_what_there_was_and_go_their_own_ways() {
    let world = World::new();
    world.write(FILE, "shared");
    let body = json!({"count": 2, "labels": {"try": "yes"}});
    let forks = world.ask("fork", &body).expect(201).json();
    let [one, two] = ids(&forks).try_into().unwrap();
    assert_eq!(forks["sandboxes"][0]["labels"]["try"], "yes");
    assert_eq!(forks["sandboxes"][0]["forked_from"], json!(world.id));
    assert!(forks["sandboxes"][0]["session_id"].as_str().unwrap().starts_with("sess-"));
    write_in(&world.server, &one, FILE, "other");
    let read = |id: &str| world.get(&format!("/v1/sandboxes/{id}/files?path={FILE}")).expect(200).body;
    assert_eq!(
        (read(&one), read(&two), read(&world.id)),
        (b"other".into(), b"shared".into(), b"shared".into())
    );
}

#[test]
fn a_snapshot_with_a_name_is_forked_without_its_sandbox() {
    let world = World::new();
    world.write(FILE, "then");
    let taken = world.ask("snapshots", &json!({"name": "kept"})).expect(201).json();
    let snapshot = taken["snapshot_id"].as_str().unwrap();
    world.server.call("DELETE", &format!("/v1/sandboxes/{}", world.id)).send().expect(200);
    let path = format!("/v1/snapshots/{snapshot}/fork");
    let forks = world.server.call("POST", &path).send().expect(201).json();
    let [id] = ids(&forks).try_into().unwrap();
    assert_eq!(world.get(&format!("/v1/sandboxes/{id}/files?path={FILE}")).expect(200).body, b"then");
    let listed = world.get(&format!("/v1/sandboxes/{}/snapshots", world.id)).expect(200).json();
    assert!(!listed["items"].as_array().unwrap().is_empty());
}

#[test]
fn differences_are_told_path_by_path() {
    let world = World::new();
    world.write("/home/user/changed", "one\n");
    world.write("/home/user/removed", "x\n");
    let then = world.snapshot();
    world.write("/home/user/changed", "two\n");
    world.write("/home/user/added", "y\n");
    let path = format!("/v1/sandboxes/{}/files?path=/home/user/removed", world.id);
    world.server.call("DELETE", &path).send().expect(204);
    let diff = world.get(&format!("/v1/diff?from={then}&to={}&text=true&path=/home/user", world.id));
    let diff = diff.expect(200).json();
    let mut blurred = diff.clone();
    for item in blurred["items"].as_array_mut().unwrap() {
        for side in ["before", "after"] {
            if let Some(side) = item.get_mut(side) {
                side["modified_at"] = "TIME".into();
            }
        }
    }
    assert_golden("diff", blurred);
    let first = world.get(&format!("/v1/diff?from={then}&to={}&limit=1", world.id)).expect(200).json();
    assert_eq!((first["items"].as_array().unwrap().len(), &first["truncated"]), (1, &json!(true)));
    let same = world.get(&format!("/v1/diff?from={then}&to={then}")).expect(200).json();
    assert_eq!(same, json!({"items": [], "truncated": false}));
}

#[test]
fn a_comparison_needs_two_states_of_ones_own() {
    let world = World::new();
    world.write(FILE, "x");
    let then = world.snapshot();
    let cases = [
        (String::new(), "from"),
        (format!("?from={then}"), "to"),
        (format!("?from=X&to={then}"), "from"),
        (format!("?from={then}&to=../../etc"), "to"),
        (format!("?from={then}&to={then}&path=etc"), "path"),
        (format!("?from={then}&to={then}&path=/a/../b"), "path"),
        (format!("?from={then}&to={then}&limit=0"), "limit"),
        (format!("?from={then}&to={then}&text=yes"), "text"),
    ];
    for (query, field) in cases {
        let answer = world.get(&format!("/v1/diff{query}"));
        assert_eq!(refusal(&answer), refused(422, "invalid_value", field), "{query}");
    }
    let stranger = world.server.key("stranger", Scope::Use);
    let path = format!("/v1/diff?from={then}&to={}", world.id);
    world.server.stranger("GET", &path).key(&stranger).send().expect(404);
}

#[test]
fn a_forks_changes_come_back() {
    let world = World::new();
    world.write(FILE, "base\n");
    let [fork] = ids(&world.ask("fork", &json!({})).expect(201).json()).try_into().unwrap();
    write_in(&world.server, &fork, "/home/user/new", "from the fork\n");
    let path = format!("/v1/sandboxes/{fork}/promote");
    let plan = world.server.call("POST", &path).send().expect(200).json();
    assert_eq!((&plan["into"], &plan["conflicts"]), (&json!(world.id), &json!([])));
    assert_eq!(plan["changes"][0]["path"], "/home/user/new");
    assert!(plan.get("applied").is_none() && world.read("/home/user/new").is_none());
    let done = world.post(&path, &json!({"apply": true})).expect(200).json();
    assert_eq!(done["applied"]["sandbox"]["sandbox_id"], json!(world.id));
    assert_eq!(world.read("/home/user/new").as_deref(), Some("from the fork\n"));
}

#[test]
fn what_both_sides_changed_is_a_conflict_until_somebody_decides() {
    let world = World::new();
    world.write(FILE, "base\n");
    let [fork] = ids(&world.ask("fork", &json!({})).expect(201).json()).try_into().unwrap();
    write_in(&world.server, &fork, FILE, "theirs\n");
    world.write(FILE, "ours\n");
    let path = format!("/v1/sandboxes/{fork}/promote");
    let plan = world.post(&path, &json!({})).expect(200).json();
    assert_eq!(plan["conflicts"][0], json!({"path": FILE, "ours": "changed", "theirs": "changed"}));
    let refused = world.post(&path, &json!({"apply": true})).expect(409);
    assert_eq!(refused.code(), "merge_conflict");
    assert_eq!(refused.json()["details"]["conflicts"][0]["path"], FILE);
    assert_eq!(refused.json()["details"]["into"], json!(world.id));
    assert_eq!(world.read(FILE).as_deref(), Some("ours\n"));
    world.post(&path, &json!({"apply": true, "conflicts": "theirs"})).expect(200);
    assert_eq!(world.read(FILE).as_deref(), Some("theirs\n"));
}

#[test]
fn a_part_of_a_forks_changes_is_merged_by_itself() {
    let world = World::new();
    world.write(FILE, "base\n");
    let [fork] = ids(&world.ask("fork", &json!({})).expect(201).json()).try_into().unwrap();
    write_in(&world.server, &fork, FILE, "theirs\n");
    write_in(&world.server, &fork, "/home/user/part/new", "from the fork\n");
    world.write(FILE, "ours\n");
    let path = format!("/v1/sandboxes/{fork}/promote");
    for bad in ["", "home/user/part", "/home/user/../part", "/a\u{0}b"] {
        let answer = world.post(&path, &json!({"path": bad}));
        assert_eq!(refusal(&answer), refused(422, "invalid_value", "path"), "{bad:?}");
    }
    let body = json!({"apply": true, "path": "/home/user/part/"});
    let done = world.post(&path, &body).expect(200).json();
    assert_eq!(done["conflicts"], json!([]));
    assert_eq!(world.read("/home/user/part/new").as_deref(), Some("from the fork\n"));
    assert_eq!(world.read(FILE).as_deref(), Some("ours\n"));
    let log = world.get(&format!("/v1/sandboxes/{}/journal", world.id)).expect(200).json();
    let entry = log["items"].as_array().unwrap().iter().find(|entry| entry["action"] == "promote").unwrap();
    assert_eq!(entry["path"], "/home/user/part");
}

#[test]
fn what_is_no_fork_has_nowhere_to_go() {
    let world = World::new();
    assert_eq!(refusal(&world.ask("promote", &json!({}))), refused(422, "invalid_value", "into"));
}

#[test]
fn a_template_is_made_of_a_snapshot_by_administrators() {
    let world = World::new();
    world.write(FILE, "ready made");
    let path = format!("/v1/snapshots/{}/template", world.snapshot());
    let made = world.post(&path, &json!({"name": "made"})).expect(201).json();
    assert_eq!(made["name"], "made");
    assert_eq!(refusal(&world.post(&path, &json!({"name": "../x"}))), refused(422, "invalid_value", "name"));
    let key = world.server.key("default", Scope::Use);
    let body = json!({"name": "other"});
    world.server.stranger("POST", &path).key(&key).json(&body).send().expect(403);
}
