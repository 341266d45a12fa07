use serde_json::{Value, json};

use super::{call, create, id_of, info, make};
use crate::support::{Answer, TestServer, eventually};

fn post(server: &TestServer, id: &str, what: &str, body: Value) -> Answer {
    call(server, "POST", &format!("/sandboxes/{id}/{what}")).json(&body).pass()
}

/// For how many seconds from now it lives.
fn remaining_s(server: &TestServer, id: &str) -> u64 {
    let record = server.call("GET", &format!("/v1/sandboxes/{id}")).send().expect(200).json();
    record["limits"]["ttl_s"].as_u64().expect("a time to live")
}

fn end_at(server: &TestServer, id: &str) -> String {
    info(server, id)["endAt"].as_str().expect("an end").to_owned()
}

#[test]
fn a_sandbox_is_found_by_every_word_for_it() {
    let server = TestServer::start();
    let id = id_of(&create(&server, json!({"timeout": 100})));
    let patch = server.call("PATCH", &format!("/v1/sandboxes/{id}")).json(&json!({"name": "web"})).send();
    patch.expect(200);
    for word in ["web", "@last", &id[..27], &format!("{id}-6532622b")] {
        assert_eq!(info(&server, word)["sandboxID"], id.as_str(), "{word}");
        assert_eq!(id_of(&post(&server, word, "connect", json!({"timeout": 100})).expect(200).json()), id);
    }
    for word in ["web-6532622b", "Web", "sbx", "@default"] {
        call(&server, "GET", &format!("/sandboxes/{word}")).pass().expect(404);
    }
    call(&server, "DELETE", "/sandboxes/web").pass().expect(204);
    call(&server, "GET", "/sandboxes/web").pass().expect(404);
}

#[test]
fn to_connect_never_shortens() {
    let server = TestServer::start();
    let id = id_of(&create(&server, json!({"timeout": 100})));
    let before = end_at(&server, &id);
    post(&server, &id, "connect", json!({"timeout": 50})).expect(200);
    assert_eq!(end_at(&server, &id), before);
    post(&server, &id, "connect", json!({"timeout": 200})).expect(200);
    assert!(end_at(&server, &id) > before);
    assert_eq!(remaining_s(&server, &id), 200);
    let usual = call(&server, "POST", &format!("/v2/sandboxes/{id}/connect")).pass().expect(200).json();
    assert_eq!((id_of(&usual), remaining_s(&server, &id)), (id.clone(), 300));
    post(&server, &id, "connect", json!({"timeout": 0})).expect(400);
}

#[test]
fn a_refresh_never_shortens_either() {
    let server = TestServer::start();
    let id = id_of(&create(&server, json!({"timeout": 100})));
    let before = end_at(&server, &id);
    post(&server, &id, "refreshes", json!({"duration": 50})).expect(204);
    call(&server, "POST", &format!("/sandboxes/{id}/refreshes")).pass().expect(204);
    assert_eq!(end_at(&server, &id), before);
    post(&server, &id, "refreshes", json!({"duration": 200})).expect(204);
    assert_eq!(remaining_s(&server, &id), 200);
    post(&server, &id, "refreshes", json!({"duration": 3601})).expect(400);
}

#[test]
fn a_timeout_that_is_set_may_be_shorter() {
    let server = TestServer::start();
    let id = id_of(&create(&server, json!({"timeout": 100})));
    post(&server, &id, "timeout", json!({"timeout": 20})).expect(204);
    assert_eq!(remaining_s(&server, &id), 20);
    for wrong in [json!({"timeout": -1}), json!({}), json!({"timeout": "20"})] {
        post(&server, &id, "timeout", wrong).expect(400);
    }
    post(&server, &id, "timeout", json!({"timeout": u32::MAX})).expect(204);
    assert!(remaining_s(&server, &id) >= 3600, "more than may be is as much as may be");
    server.clock.advance_s(remaining_s(&server, &id) + 1);
    eventually("its time is over", || call(&server, "GET", &format!("/sandboxes/{id}")).pass().status == 404);
    post(&server, &id, "timeout", json!({"timeout": 20})).expect(404);
}

#[test]
fn a_paused_sandbox_is_as_it_was_when_it_goes_on() {
    let server = TestServer::start();
    let made = create(&server, json!({"timeout": 100}));
    let id = id_of(&made);
    server.clock.advance_s(10);
    call(&server, "POST", &format!("/sandboxes/{id}/pause")).pass().expect(204);
    let paused = info(&server, &id);
    assert_eq!((&paused["state"], &paused["pauseMode"]), (&json!("paused"), &json!("full")));
    assert_eq!(paused["envdAccessToken"], made["envdAccessToken"]);
    server.clock.advance_s(1000);
    assert_eq!(info(&server, &id), paused, "its time stands still");
    post(&server, &id, "pause", json!({})).expect(409);
    post(&server, &id, "timeout", json!({"timeout": 20})).expect(404);
    post(&server, &id, "refreshes", json!({})).expect(404);
    post(&server, &id, "fork", json!({})).expect(409);
    post(&server, &id, "snapshots", json!({})).expect(409);
    let resumed = post(&server, &id, "connect", json!({"timeout": 50})).expect(201).json();
    assert_eq!(resumed, made, "the same id and the same tokens");
    assert_eq!((remaining_s(&server, &id), &info(&server, &id)["state"]), (50, &json!("running")));
    assert!(info(&server, &id)["pauseMode"].is_null());
    post(&server, &id, "connect", json!({"timeout": 60})).expect(200);
}

#[test]
fn a_pause_may_give_up_the_memory() {
    let server = TestServer::start();
    let id = make(&server);
    post(&server, &id, "pause", json!({"memory": false})).expect(204);
    let paused = info(&server, &id);
    assert_eq!((&paused["state"], &paused["pauseMode"]), (&json!("paused"), &json!("filesystem")));
    post(&server, &id, "pause", json!({})).expect(409);
    post(&server, &id, "connect", json!({"timeout": 50})).expect(201);
    assert_eq!((remaining_s(&server, &id), &info(&server, &id)["state"]), (50, &json!("running")));
    post(&server, &id, "pause", json!({"memory": true, "requireHealthyGuest": true})).expect(204);
    assert_eq!(info(&server, &id)["pauseMode"], "full");
    post(&server, &id, "connect", json!({"timeout": 50, "memory": false})).expect(201);
    assert_eq!(info(&server, &id)["state"], "running");
    post(&server, &id, "pause", json!({})).expect(204);
    call(&server, "DELETE", &format!("/sandboxes/{id}")).pass().expect(204);
    post(&server, &id, "connect", json!({"timeout": 50})).expect(404);
}

#[test]
fn early_clients_resume_what_is_paused_and_nothing_else() {
    let server = TestServer::start();
    let id = make(&server);
    post(&server, &id, "resume", json!({"timeout": 20})).expect(409);
    post(&server, &id, "pause", json!({})).expect(204);
    post(&server, &id, "resume", json!({"timeout": 20, "autoPause": true})).expect(201);
    let told = info(&server, &id);
    assert_eq!((remaining_s(&server, &id), &told["lifecycle"]["onTimeout"]), (20, &json!("pause")));
    post(&server, &id, "pause", json!({})).expect(204);
    call(&server, "POST", &format!("/sandboxes/{id}/resume")).pass().expect(201);
    assert_eq!(remaining_s(&server, &id), 15);
}

#[test]
fn what_becomes_of_a_sandbox_at_its_end_is_as_its_client_said() {
    let server = TestServer::start();
    let cases = [
        (json!({"timeout": 60}), "kill", None),
        (json!({"timeout": 60, "autoPause": true}), "pause", Some("full")),
        (json!({"timeout": 60, "autoPause": true, "autoPauseMemory": false}), "pause", Some("filesystem")),
    ];
    let made = cases.map(|(body, on_timeout, mode)| {
        let id = id_of(&create(&server, body));
        assert_eq!(info(&server, &id)["lifecycle"], json!({"onTimeout": on_timeout, "autoResume": false}));
        (id, mode)
    });
    server.clock.advance_s(61);
    for (id, mode) in &made {
        eventually("its time is over", || {
            let answer = call(&server, "GET", &format!("/sandboxes/{id}")).pass();
            match mode {
                None => answer.status == 404,
                Some(mode) => answer.status == 200 && answer.json()["pauseMode"] == **mode,
            }
        });
    }
    for (id, mode) in &made {
        let again = post(&server, id, "connect", json!({"timeout": 60}));
        assert_eq!(again.status, if mode.is_some() { 201 } else { 404 });
    }
}

#[test]
fn a_time_of_nothing_is_the_end_now() {
    let server = TestServer::start();
    let (killed, paused) = (make(&server), id_of(&create(&server, json!({"autoPause": true}))));
    post(&server, &killed, "timeout", json!({"timeout": 0})).expect(204);
    call(&server, "GET", &format!("/sandboxes/{killed}")).pass().expect(404);
    post(&server, &paused, "timeout", json!({"timeout": 0})).expect(204);
    assert_eq!(info(&server, &paused)["state"], "paused");
    post(&server, &paused, "timeout", json!({"timeout": 0})).expect(404);
}
