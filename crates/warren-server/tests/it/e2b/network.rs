//! Where sandboxes may go, as E2B's clients say it.

use serde_json::{Value, json};
use warren_core::catalog::SecretCatalog as _;
use warren_core::network::Injection;
use warren_core::{NetworkMode, NetworkPolicy, Owner, SandboxId};

use crate::support::{Answer, Call, TestServer};

fn ask(server: &TestServer, method: &str, path: &str) -> Call {
    server.stranger(method, path).header("X-API-KEY", &server.admin)
}

fn create(server: &TestServer, body: &Value) -> Answer {
    let mut whole = json!({"templateID": "base", "timeout": 600});
    whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    ask(server, "POST", "/e2b/v2/sandboxes").json(&whole).pass()
}

fn make(server: &TestServer, body: &Value) -> SandboxId {
    create(server, body).expect(201).json()["sandboxID"].as_str().unwrap().parse().unwrap()
}

fn put(server: &TestServer, id: &SandboxId, body: &Value) -> Answer {
    ask(server, "PUT", &format!("/e2b/sandboxes/{id}/network")).json(body).pass()
}

fn info(server: &TestServer, id: &SandboxId) -> Value {
    ask(server, "GET", &format!("/e2b/sandboxes/{id}")).pass().expect(200).json()
}

/// The mode and both lists that hold now.
fn holds(server: &TestServer, id: &SandboxId) -> (NetworkMode, Vec<String>, Vec<String>) {
    let policies = server.networks.policies(id).expect("it has a link");
    assert_eq!(policies.len(), 1, "nothing is between two policies");
    let NetworkPolicy { mode, allow, deny, .. } = &policies[0];
    let texts = |rules: &[warren_core::NetworkRule]| rules.iter().map(ToString::to_string).collect();
    (*mode, texts(allow), texts(deny))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sandbox_has_the_network_that_it_was_made_with() {
    let server = TestServer::start();
    let open = make(&server, &json!({}));
    assert_eq!(holds(&server, &open), (NetworkMode::Public, vec![], vec![]));
    assert_eq!(info(&server, &open).get("allowInternetAccess").filter(|value| !value.is_null()), None);
    let closed = make(&server, &json!({"allow_internet_access": false}));
    assert_eq!(holds(&server, &closed), (NetworkMode::Allow, vec![], vec![]));
    assert_eq!(info(&server, &closed)["allowInternetAccess"], false);
    let network = json!({"allowOut": ["1.1.1.1", "*.example.com"], "denyOut": ["0.0.0.0/0"]});
    let listed = make(&server, &json!({"network": network}));
    assert_eq!(holds(&server, &listed), (NetworkMode::Allow, words(&["1.1.1.1", "*.example.com"]), vec![]));
    assert_eq!(info(&server, &listed)["network"], network);
    let partly = make(&server, &json!({"network": {"allowOut": ["8.8.8.8"], "denyOut": ["8.8.8.8/31"]}}));
    assert_eq!(holds(&server, &partly), (NetworkMode::Public, vec![], words(&["8.8.8.9"])));
}

#[test]
fn an_update_replaces_all_that_was_said_before() {
    let server = TestServer::start();
    let traffic =
        json!({"allowPublicTraffic": false, "maskRequestHost": "localhost", "denyOut": ["1.1.1.1"]});
    let id = make(&server, &json!({"network": traffic}));
    put(&server, &id, &json!({"allowOut": ["a.example"], "denyOut": ["0.0.0.0/0"]})).expect(204);
    assert_eq!(holds(&server, &id), (NetworkMode::Allow, words(&["a.example"]), vec![]));
    let shown = info(&server, &id);
    // Who may come is not what an update speaks of.
    let whole = json!({"allowPublicTraffic": false, "maskRequestHost": "localhost", "allowOut": ["a.example"], "denyOut": ["0.0.0.0/0"]});
    assert_eq!(shown["network"], whole);
    put(&server, &id, &json!({"allow_internet_access": false})).expect(204);
    assert_eq!(holds(&server, &id), (NetworkMode::Allow, vec![], vec![]));
    assert_eq!(info(&server, &id)["allowInternetAccess"], false);
    put(&server, &id, &json!({})).expect(204);
    assert_eq!(holds(&server, &id), (NetworkMode::Public, vec![], vec![]));
    let cleared = info(&server, &id);
    assert_eq!(cleared.get("allowInternetAccess").filter(|value| !value.is_null()), None);
    assert_eq!(cleared["network"], json!({"allowPublicTraffic": false, "maskRequestHost": "localhost"}));
}

#[test]
fn what_cannot_be_held_to_is_refused_and_changes_nothing() {
    let server = TestServer::start();
    let id = make(&server, &json!({"network": {"denyOut": ["1.1.1.1"]}}));
    let before = holds(&server, &id);
    for (body, field) in [
        (json!({"allowOut": ["a.example"]}), "allowOut"),
        (json!({"denyOut": ["a.example"]}), "denyOut"),
        (json!({"dnsServers": ["9.9.9.9"]}), "dnsServers"),
        (json!({"egressProxy": {"address": "proxy.example:1080"}}), "egressProxy"),
        (json!({"rules": {"*": [{"transform": {"headers": {"a": "b"}}}]}}), "rules"),
        (json!({"rules": {"a.example": [{"transform": {"headers": {"Host": "b"}}}]}}), "rules"),
        (json!({"rules": {"a.example": [{"transform": {"headers": {"a": "b"}}}]}}), "rules"),
    ] {
        let refused = put(&server, &id, &body).expect(400).json();
        assert!(
            refused["code"] == 400 && refused["message"].as_str().unwrap().starts_with(field),
            "{refused}"
        );
        assert_eq!(holds(&server, &id), before);
    }
    for body in [
        json!({"network": {"dnsServers": ["9.9.9.9"]}}),
        json!({"network": {"egressProxy": {"address": "proxy.example:1080"}}}),
        json!({"network": {"httpsPorts": [49983]}}),
        json!({"network": {"maskRequestHost": "a b"}}),
        json!({"iam": {"tokens": {"a": {"audience": "b", "tokenType": "c"}}}}),
    ] {
        create(&server, &body).expect(400);
    }
    assert_eq!(server.catalog.secrets(&Owner::first()).unwrap(), []);
}

#[test]
fn who_may_not_change_a_sandbox_does_not() {
    let server = TestServer::start();
    let id = make(&server, &json!({}));
    let other = server.key("other", warren_core::Scope::Admin);
    let call = server.stranger("PUT", &format!("/e2b/sandboxes/{id}/network")).header("X-API-KEY", &other);
    let refused = call.json(&json!({"allow_internet_access": false})).pass().expect(404).json();
    let unknown = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa".parse().unwrap();
    let missing = put(&server, &unknown, &json!({})).expect(404).json();
    let text = |told: &Value, id: &SandboxId| told.to_string().replace(id.as_str(), "ID");
    assert_eq!(text(&refused, &id), text(&missing, &unknown));
    let reader = server.key("default", warren_core::Scope::Read);
    let call = server.stranger("PUT", &format!("/e2b/sandboxes/{id}/network")).header("X-API-KEY", &reader);
    call.json(&json!({"allow_internet_access": false})).pass().expect(403);
    assert_eq!(holds(&server, &id).0, NetworkMode::Public);
}

#[test]
fn headers_are_set_at_the_edge_and_their_values_are_in_no_record() {
    let server = TestServer::start();
    let secrets = || server.catalog.secrets(&Owner::first()).unwrap();
    let rules = |value: &str| json!({"api.example": [{"transform": {"headers": {"Authorization": value}}}]});
    let id = make(&server, &json!({"network": {"rules": rules("Bearer tell-nobody")}}));
    let kept = secrets();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].injection, Injection::Transform { headers: vec!["Authorization".to_owned()] });
    assert_eq!(server.networks.policies(&id).unwrap()[0].secrets, [kept[0].name.clone()]);
    let value = server.catalog.secret(&Owner::first(), &kept[0].name).unwrap().unwrap().value;
    assert_eq!(value, "Bearer tell-nobody");
    let shown = info(&server, &id).to_string()
        + &server.call("GET", "/v1/secrets").send().expect(200).json().to_string();
    let record = server.call("GET", &format!("/v1/sandboxes/{id}")).send().expect(200).json().to_string();
    assert!(!shown.contains("tell-nobody") && !record.contains("tell-nobody"), "{shown} {record}");
    assert!(shown.contains("api.example") && shown.contains("Authorization"));
    // Another rule takes the place of the first, and no rule of both.
    put(&server, &id, &json!({"rules": rules("Bearer another")})).expect(204);
    let now = secrets();
    assert!(now.len() == 1 && now[0].name != kept[0].name, "{now:?}");
    put(&server, &id, &json!({})).expect(204);
    assert_eq!(secrets(), []);
    let gone = make(&server, &json!({"network": {"rules": rules("Bearer x")}}));
    assert_eq!(secrets().len(), 1);
    ask(&server, "DELETE", &format!("/e2b/sandboxes/{gone}")).pass().expect(204);
    assert_eq!(secrets(), []);
}

#[test]
fn without_networks_a_sandbox_has_none_and_may_only_want_none() {
    let server = TestServer::without_networks();
    let quiet = make(&server, &json!({}));
    assert_eq!(server.networks.policies(&quiet), None);
    make(&server, &json!({"allow_internet_access": false}));
    put(&server, &quiet, &json!({"allow_internet_access": false})).expect(204);
    put(&server, &quiet, &json!({})).expect(204);
    let refused = put(&server, &quiet, &json!({"allow_internet_access": true}));
    assert_eq!(refused.status, 400, "{}", String::from_utf8_lossy(&refused.body));
    assert_ne!(create(&server, &json!({"allow_internet_access": true})).status, 201);
}
