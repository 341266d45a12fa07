use serde_json::json;
use warren_core::Scope;

use super::{World, refusal, refused};
use crate::golden::assert_golden;

const FILE: &str = "/home/user/x";

#[test]
fn a_sandbox_goes_back_and_what_it_had_is_kept() {
    let world = World::quiet();
    world.write(FILE, "then");
    let then = world.snapshot();
    world.write(FILE, "now");
    let done = world.ask("rollback", &json!({"snapshot_id": then})).expect(200).json();
    let mut shown = done.clone();
    for snapshot in ["to", "safety"] {
        // In the background it is written to disk and counted, sooner or later.
        shown[snapshot]["durable"] = json!(false);
        shown[snapshot].as_object_mut().unwrap().retain(|name, _| name != "bytes" && name != "inodes");
    }
    assert_golden("rolled_back", shown);
    assert_eq!(world.read(FILE).as_deref(), Some("then"));
    assert_eq!(
        (&done["sandbox"]["sandbox_id"], &done["to"]["snapshot_id"]),
        (&json!(world.id), &json!(then))
    );
    let safety = done["safety"]["snapshot_id"].as_str().unwrap();
    world.ask("rollback", &json!({"snapshot_id": safety})).expect(200);
    assert_eq!(world.read(FILE).as_deref(), Some("now"));
}

#[test]
fn undo_and_redo_go_back_and_forth() {
    let world = World::new();
    for text in ["1", "2", "3"] {
        world.write(FILE, text);
        world.snapshot();
    }
    world.ask("undo", &json!({})).expect(200);
    assert_eq!(world.read(FILE).as_deref(), Some("2"));
    world.ask("undo", &json!({"steps": 1})).expect(200);
    assert_eq!(world.read(FILE).as_deref(), Some("1"));
    world.ask("redo", &json!({"steps": 2})).expect(200);
    assert_eq!(world.read(FILE).as_deref(), Some("3"));
    let path = format!("/v1/sandboxes/{}/redo", world.id);
    assert_eq!(world.server.call("POST", &path).send().expect(409).code(), "nothing_to_undo");
}

#[test]
fn there_is_nothing_before_the_start_and_nothing_after_now() {
    let world = World::new();
    assert_eq!(world.ask("redo", &json!({})).expect(409).code(), "nothing_to_undo");
    world.write(FILE, "1");
    world.snapshot();
    world.ask("undo", &json!({})).expect(200);
    assert_eq!(world.read(FILE), None);
    assert_eq!(world.ask("undo", &json!({})).expect(409).code(), "nothing_to_undo");
}

#[test]
fn a_rollback_waits_for_nobody_and_asks_first() {
    let world = World::new();
    world.write(FILE, "then");
    let then = world.snapshot();
    let body = json!({"command": ["sleep", "600"]});
    let waiting = world.server.call("POST", &format!("/v1/sandboxes/{}/exec", world.id)).json(&body).open();
    let processes = format!("/v1/sandboxes/{}/processes", world.id);
    while world.get(&processes).expect(200).json()["items"] == json!([]) {
        std::thread::yield_now();
    }
    let refused = world.ask("rollback", &json!({"snapshot_id": then})).expect(409);
    assert_eq!(refused.code(), "tools_in_flight");
    assert_eq!(refused.header("retry-after"), Some("1"));
    world.ask("rollback", &json!({"snapshot_id": then, "force": true})).expect(200);
    drop(waiting);
}

#[test]
fn a_damaged_or_missing_snapshot_is_no_place_to_go() {
    let world = World::new();
    let nobodys = json!({"snapshot_id": "snap-00000000-0000-4000-8000-000000000000"});
    assert_eq!(world.ask("rollback", &nobodys).expect(404).code(), "snapshot_not_found");
    world.write(FILE, "then");
    let then = world.snapshot();
    let stranger = world.server.key("stranger", Scope::Use);
    let own =
        world.server.stranger("POST", "/v1/sandboxes").key(&stranger).json(&json!({})).send().expect(201);
    let path = format!("/v1/sandboxes/{}/rollback", own.json()["sandbox_id"].as_str().unwrap());
    let body = json!({"snapshot_id": then});
    let foreign = world.server.stranger("POST", &path).key(&stranger).json(&body).send().expect(404);
    assert_eq!(foreign.code(), "snapshot_not_found");
}

#[test]
fn turns_are_counted_and_captured() {
    let world = World::new();
    world.write(FILE, "one");
    let first = world.ask("turns", &json!({"session_id": world.session})).expect(200).json();
    assert_eq!((&first["turn"], &first["snapshot"]["turn"]), (&json!(1), &json!(1)));
    assert_eq!(first["snapshot"]["session_id"], json!(world.session));
    world.write(FILE, "two");
    let path = format!("/v1/sessions/{}/turns", world.session);
    let second = world.post(&path, &json!({"name": "two"})).expect(200).json();
    assert_eq!((&second["turn"], &second["snapshot"]["name"]), (&json!(2), &json!("two")));
    assert_eq!(second["snapshot"]["reason"], "turn");
    let other = world.post(&path, &json!({"session_id": "sess-00000000-0000-4000-8000-000000000000"}));
    assert_eq!(refusal(&other), refused(422, "invalid_value", "session_id"));
    let sandbox = world.get(&format!("/v1/sandboxes/{}", world.id)).expect(200).json();
    assert_eq!(sandbox["turn"], 2);
}

#[test]
fn a_session_that_ends_leaves_a_state_to_go_on_from() {
    let world = World::new();
    world.write(FILE, "kept");
    let path = format!("/v1/sessions/{}/end", world.session);
    let ended = world.server.call("POST", &path).send().expect(200).json();
    assert_eq!(ended["snapshot"]["reason"], "end");
    assert_ne!(ended["session"]["state"], "active");
    let body = json!({"snapshot_id": ended["snapshot"]["snapshot_id"]});
    let made = world.post("/v1/sandboxes", &body).expect(201).json();
    let path = format!("/v1/sandboxes/{}/files?path={FILE}", made["sandbox_id"].as_str().unwrap());
    assert_eq!(world.get(&path).expect(200).body, b"kept");
}

#[test]
fn the_journal_tells_what_was_done_and_by_whom() {
    let world = World::new();
    for text in ["one", "two"] {
        world.ask("exec", &json!({"command": ["write", FILE, text]})).expect(200);
    }
    world.ask("turns", &json!({})).expect(200);
    let path = format!("/v1/sandboxes/{}/journal", world.id);
    let journal = world.get(&format!("{path}?count=true")).expect(200).json();
    let items = journal["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| &item["action"]).collect::<Vec<_>>(), ["turn", "exec", "exec"]);
    assert!(items.iter().all(|item| item["by"] == "test"), "{journal}");
    assert_eq!((&items[1]["exit_code"], &items[1]["turn"]), (&json!(0), &json!(1)));
    assert!(items[1]["command"].as_str().unwrap().contains("two"), "{journal}");
    assert_eq!(journal["next_before"], json!(null));
    let page = world.get(&format!("{path}?limit=2")).expect(200).json();
    assert_eq!(page["next_before"], items[1]["number"]);
    let rest = world.get(&format!("{path}?before={}", page["next_before"])).expect(200).json();
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    for query in ["limit=0", "limit=1001", "before=x", "count=1"] {
        world.get(&format!("{path}?{query}")).expect(422);
    }
}

#[test]
fn a_path_is_blamed_on_the_command_that_wrote_it() {
    let world = World::new();
    world.ask("exec", &json!({"command": ["write", FILE, "x"]})).expect(200);
    world.ask("exec", &json!({"command": ["write", "/home/user/y", "y"]})).expect(200);
    world.snapshot();
    let blame = |path: &str| world.get(&format!("/v1/sandboxes/{}/blame?path={path}", world.id));
    let found = blame(FILE).expect(200).json();
    assert_eq!(found["path"], FILE);
    assert!(found["items"][0]["command"].as_str().unwrap().contains(FILE), "{found}");
    assert_eq!(found["state"], "changed");
    let missing = blame("/home/user/none").expect(200).json();
    assert_eq!((&missing["state"], &missing["items"]), (&json!("never_there"), &json!([])));
    assert_eq!(blame("/tmp").expect(200).json()["state"], "as_it_began");
    for path in ["", "x", "/../etc", "/a%00"] {
        assert_eq!(refusal(&blame(path)), refused(422, "invalid_value", "path"), "{path}");
    }
    let nothing = world.get(&format!("/v1/sandboxes/{}/blame", world.id));
    assert_eq!(refusal(&nothing), refused(422, "invalid_value", "path"));
}
