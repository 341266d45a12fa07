//! Names, and the words that paths, queries and bodies take for a sandbox.

use serde_json::{Value, json};
use warren_core::Scope;

use crate::support::TestServer;

const SANDBOXES: &str = "/v1/sandboxes";

fn made(server: &TestServer, body: &Value) -> String {
    let sandbox = server.call("POST", SANDBOXES).json(body).send().expect(201).json();
    sandbox["sandbox_id"].as_str().unwrap().to_owned()
}

fn id_at(server: &TestServer, word: &str) -> String {
    let sandbox = server.call("GET", &format!("{SANDBOXES}/{word}")).send().expect(200).json();
    sandbox["sandbox_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_sandbox_is_reached_by_every_word_for_it() {
    let server = TestServer::start();
    let web = made(&server, &json!({"name": "web"}));
    let sandbox = server.call("GET", &format!("{SANDBOXES}/web")).send().expect(200).json();
    assert_eq!((&sandbox["sandbox_id"], &sandbox["name"]), (&json!(web), &json!("web")));
    server.call("PUT", "/v1/default-sandbox").json(&json!({"sandbox_id": "web"})).send().expect(200);
    for word in ["web", "@last", "%40last", "@default", &web[..27], &web] {
        assert_eq!(id_at(&server, word), web, "{word}");
        let run =
            server.call("POST", &format!("{SANDBOXES}/{word}/exec")).json(&json!({"command": ["true"]}));
        run.send().expect(200);
    }
    for word in ["we", "Web", "@first", "sbx", "..%2Fweb", "%00", "web%20"] {
        let refused = server.call("GET", &format!("{SANDBOXES}/{word}")).send().expect(404);
        assert_eq!(refused.code(), "sandbox_not_found", "{word}");
    }
    let listed = |query: &str| {
        let list = server.call("GET", &format!("{SANDBOXES}?{query}")).send().expect(200).json();
        list["items"].as_array().unwrap().len()
    };
    made(&server, &json!({}));
    assert_eq!((listed("name=web"), listed("name=db"), listed("")), (1, 0, 2));
    assert_eq!(server.call("GET", &format!("{SANDBOXES}?name=Web")).send().expect(422).field(), "name");
}

#[test]
fn a_name_that_cannot_be_one_is_refused_where_it_stands() {
    let server = TestServer::start();
    for name in
        ["", "Web", "sbxweb", "snap-1", "-a", "a-", "@last", "a b", "2", "a\u{0}", "a/b", &"a".repeat(64)]
    {
        let refused = server.call("POST", SANDBOXES).json(&json!({"name": name})).send().expect(422);
        assert_eq!(
            (refused.code().as_str(), refused.field().as_str()),
            ("invalid_value", "name"),
            "{name:?}"
        );
    }
    let id = made(&server, &json!({}));
    let patch = |body: Value| server.call("PATCH", &format!("{SANDBOXES}/{id}")).json(&body).send();
    assert_eq!(patch(json!({"name": "Web"})).expect(422).field(), "name");
    let nested = json!({"client": "me", "sandbox": {"name": "Web"}});
    let refused = server.call("POST", "/v1/sessions").json(&nested).send().expect(422);
    assert_eq!(refused.field(), "sandbox.name");
    let fork = json!({"name": "web", "count": 2});
    let refused = server.call("POST", &format!("{SANDBOXES}/{id}/fork")).json(&fork).send().expect(422);
    assert_eq!(refused.field(), "name");
}

#[test]
fn a_name_is_given_changed_and_taken_away() {
    let server = TestServer::start();
    let first = made(&server, &json!({"name": "web"}));
    let refused = server.call("POST", SANDBOXES).json(&json!({"name": "web"})).send().expect(409);
    assert_eq!(refused.code(), "sandbox_name_taken");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(&first), "{detail}");
    let second = made(&server, &json!({}));
    let patch =
        |word: &str, body: Value| server.call("PATCH", &format!("{SANDBOXES}/{word}")).json(&body).send();
    assert_eq!(patch(&second, json!({"name": "web"})).expect(409).code(), "sandbox_name_taken");
    assert_eq!(patch("web", json!({"name": "old"})).expect(200).json()["name"], "old");
    assert_eq!(patch(&second, json!({"name": "web"})).expect(200).json()["name"], "web");
    // What is left out stays.
    assert_eq!(patch("web", json!({"ttl_s": 600})).expect(200).json()["name"], "web");
    assert!(patch("web", json!({"name": null})).expect(200).json().get("name").is_none());
    assert_eq!(patch("web", json!({"ttl_s": 600})).expect(404).code(), "sandbox_not_found");
    server.call("DELETE", &format!("{SANDBOXES}/old")).send().expect(200);
    let third = made(&server, &json!({"name": "old"}));
    assert_ne!(third, first);
}

#[test]
fn a_beginning_of_several_ids_is_a_conflict_that_lists_them() {
    let server = TestServer::start();
    let ids: Vec<String> = (0..9).map(|_| made(&server, &json!({}))).collect();
    // Ids begin with one of eight digits, so two of nine begin alike.
    let beginning =
        ids.iter().map(|id| &id[..4]).find(|one| ids.iter().filter(|id| id.starts_with(one)).count() > 1);
    let refused = server.call("GET", &format!("{SANDBOXES}/{}", beginning.unwrap())).send().expect(409);
    assert_eq!(refused.code(), "ambiguous_prefix");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(ids.iter().filter(|id| detail.contains(*id)).count() > 1, "{detail}");
}

#[test]
fn another_owners_words_are_those_of_nobody() {
    let server = TestServer::start();
    let mine = made(&server, &json!({"name": "web"}));
    let key = server.key("other", Scope::Use);
    for word in ["web", "@last", &mine[..20], &mine] {
        let answer = server.stranger("GET", &format!("{SANDBOXES}/{word}")).key(&key).send().expect(404);
        assert_eq!(answer.code(), "sandbox_not_found");
        let text = answer.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(text, format!("there is no sandbox `{word}`"));
    }
    let none = server.stranger("GET", &format!("{SANDBOXES}/@default")).key(&key).send().expect(404);
    assert_eq!(none.code(), "no_default_sandbox");
    let theirs =
        server.stranger("POST", SANDBOXES).key(&key).json(&json!({"name": "web"})).send().expect(201);
    assert_ne!(theirs.json()["sandbox_id"], mine);
    assert_eq!(id_at(&server, "web"), mine);
}

#[test]
fn queries_and_bodies_take_words_too() {
    let server = TestServer::start();
    let web = made(&server, &json!({"name": "web"}));
    for path in [
        "/v1/events?sandbox_id=web",
        "/v1/sessions?sandbox_id=@last",
        "/v1/diff?from=web&to=@last",
        &format!("/v1/sessions?sandbox_id={}", &web[..20]),
    ] {
        server.call("GET", path).send().expect(200);
    }
    for path in ["/v1/events?sandbox_id=db", "/v1/sessions?sandbox_id=db", "/v1/diff?from=web&to=db"] {
        assert_eq!(server.call("GET", path).send().expect(404).code(), "sandbox_not_found", "{path}");
    }
    for (path, field) in [("/v1/events?sandbox_id=D", "sandbox_id"), ("/v1/diff?from=D&to=web", "from")] {
        assert_eq!(server.call("GET", path).send().expect(422).field(), field);
    }
    let attach = json!({"client": "me", "sandbox_id": "web"});
    let session = server.call("POST", "/v1/sessions/attach").json(&attach).send().expect(200).json();
    assert_eq!(session["sandbox_id"], web);
    let wrong = json!({"client": "me", "sandbox_id": "W"});
    let refused = server.call("POST", "/v1/sessions/attach").json(&wrong).send().expect(422);
    assert_eq!(refused.field(), "sandbox_id");
    let acquire = json!({"client": "me", "preferred_sandbox_id": "web"});
    let session = server.call("POST", "/v1/sessions").json(&acquire).send().json();
    assert_eq!(session["sandbox_id"], web);
    let fork = json!({"name": "web-2"});
    let forked = server.call("POST", &format!("{SANDBOXES}/web/fork")).json(&fork).send().expect(201).json();
    assert_eq!(forked["sandboxes"][0]["name"], "web-2");
    let into = json!({"into": "web"});
    let merged = server.call("POST", &format!("{SANDBOXES}/web-2/promote")).json(&into).send().expect(200);
    assert_eq!(merged.json()["into"], web);
}
