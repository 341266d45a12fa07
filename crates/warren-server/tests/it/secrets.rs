use serde_json::{Value, json};
use warren_core::Scope;

use crate::support::TestServer;

const SECRETS: &str = "/v1/secrets";
const VALUE: &str = "sk-never-to-be-seen-again";

fn put(server: &TestServer, name: &str, body: &Value) -> Value {
    server.call("PUT", &format!("{SECRETS}/{name}")).json(body).send().expect(200).json()
}

#[test]
fn a_secret_is_kept_listed_replaced_and_removed_and_never_shown() {
    let server = TestServer::start();
    let made = put(&server, "token", &json!({"value": VALUE, "hosts": ["API.example", "*.b.example:443"]}));
    assert_eq!(made["name"], "token");
    assert_eq!(made["hosts"], json!(["api.example", "*.b.example:443"]));
    assert_eq!((&made["header"], &made["template"]), (&json!("Authorization"), &json!("Bearer {}")));
    assert!(made.get("value").is_none() && made.get("placeholder").is_none());
    let body = json!({"value": VALUE, "hosts": ["api.example"], "placeholder": "TOKEN_GOES_HERE"});
    let changed = put(&server, "token", &body);
    assert_eq!(changed["placeholder"], "TOKEN_GOES_HERE");
    assert_eq!(changed["created_at"], made["created_at"]);
    put(
        &server,
        "another",
        &json!({"value": VALUE, "hosts": ["api.example"], "header": "X-Key", "template": "{}"}),
    );
    let list = server.call("GET", SECRETS).send().expect(200);
    let items = list.json()["items"].clone();
    assert_eq!((&items[0]["name"], &items[1]), (&json!("another"), &changed));
    assert_eq!(server.call("GET", "/v1/secrets/token").send().expect(200).json(), changed);
    server.call("DELETE", "/v1/secrets/token").send().expect(204);
    for method in ["GET", "DELETE"] {
        let answer = server.call(method, "/v1/secrets/token").send().expect(404);
        assert_eq!(answer.code(), "secret_not_found");
    }
    let events = String::from_utf8(server.call("GET", "/v1/events").send().expect(200).body).unwrap();
    assert!(events.contains("secret_changed") && events.contains("secret_removed"), "{events}");
    for text in [events, items.to_string(), String::from_utf8(list.body).unwrap()] {
        assert!(!text.contains(VALUE), "{text}");
    }
}

#[test]
fn secrets_are_each_owners_own() {
    let server = TestServer::start();
    put(&server, "token", &json!({"value": VALUE, "hosts": ["api.example"]}));
    let stranger = server.key("somebody-else", Scope::Admin);
    let call = |method: &str, path: &str| server.stranger(method, path).key(&stranger);
    call("GET", "/v1/secrets/token").send().expect(404);
    call("DELETE", "/v1/secrets/token").send().expect(404);
    assert_eq!(call("GET", SECRETS).send().expect(200).json()["items"], json!([]));
    let reader = server.key("default", Scope::Read);
    let body = json!({"value": "v", "hosts": ["api.example"]});
    server.stranger("PUT", "/v1/secrets/token").key(&reader).json(&body).send().expect(403);
    server.stranger("GET", "/v1/secrets/token").key(&reader).send().expect(200);
}

#[test]
fn what_is_wrong_with_a_secret_is_named_and_its_value_is_not_repeated() {
    let server = TestServer::start();
    let body = |change: Value| {
        let mut body = json!({"value": VALUE, "hosts": ["api.example"]});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    for (change, field) in [
        (json!({"value": ""}), "value"),
        (json!({"value": format!("{VALUE}\n")}), "value"),
        (json!({"hosts": []}), "hosts"),
        (json!({"hosts": ["*"]}), "hosts"),
        (json!({"hosts": ["10.0.0.0/8"]}), "hosts"),
        (json!({"hosts": ["api.example", "no host"]}), "hosts[1]"),
        (json!({"header": "Host"}), "header"),
        (json!({"template": "none"}), "template"),
        (json!({"placeholder": "short"}), "placeholder"),
        (json!({"placeholder": "LONG_ENOUGH", "header": "X-Key"}), "placeholder"),
    ] {
        let answer = server.call("PUT", "/v1/secrets/token").json(&body(change.clone())).send().expect(422);
        assert_eq!(answer.json()["field"], field, "{change}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(VALUE), "{change}");
    }
    let answer = server.call("PUT", "/v1/secrets/9").json(&body(json!({}))).send().expect(422);
    assert_eq!(answer.json()["field"], "secret");
    server.call("PUT", "/v1/secrets/token").json(&json!({"hosts": ["api.example"]})).send().expect(422);
    assert_eq!(server.call("GET", SECRETS).send().expect(200).json()["items"], json!([]));
}

#[test]
fn a_policy_names_only_secrets_that_are_there() {
    let server = TestServer::start();
    let wish = json!({"network": {"mode": "public", "secrets": ["token"]}});
    let refused = server.call("POST", "/v1/sandboxes").json(&wish).send().expect(422).json();
    assert!(refused["detail"].as_str().unwrap().contains("there is no secret `token`"), "{refused}");
    put(&server, "token", &json!({"value": VALUE, "hosts": ["api.example"]}));
    let made = server.call("POST", "/v1/sandboxes").json(&wish).send().expect(201);
    assert_eq!(made.json()["network"]["secrets"], json!(["token"]));
    assert!(!String::from_utf8_lossy(&made.body).contains(VALUE));
}
