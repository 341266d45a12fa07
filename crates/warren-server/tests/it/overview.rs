//! The routes about the server itself, and its templates.

use serde_json::json;
use warren_core::Scope;
use warren_server::route_table;

use crate::golden::assert_golden;
use crate::support::TestServer;

#[test]
fn strangers_learn_whether_the_server_works_and_no_more() {
    let server = TestServer::start();
    assert_eq!(server.stranger("GET", "/v1/health").send().expect(200).json(), json!({"status": "ok"}));
    assert_golden("health", server.call("GET", "/v1/health").send().expect(200).json());
    server.stranger("GET", "/v1/health").key(&"0".repeat(40)).send().expect(401);
}

#[test]
fn figures_follow_what_happens() {
    let server = TestServer::start();
    let sandbox = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let stats = server.call("GET", "/v1/stats").send().expect(200).json();
    assert_eq!(
        (&stats["created"], &stats["active_sandboxes"], &stats["active_sessions"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let path = format!("/v1/sandboxes/{}", sandbox["sandbox_id"].as_str().unwrap());
    server.call("DELETE", &path).send().expect(200);
    let stats = server.call("GET", "/v1/stats").send().expect(200).json();
    assert_eq!((&stats["destroyed"], &stats["active_sandboxes"]), (&json!(1), &json!(0)));
}

#[test]
fn the_document_is_served_to_everybody() {
    let server = TestServer::start();
    let document = server.stranger("GET", "/v1/openapi.json").send().expect(200);
    assert_eq!(document.header("content-type"), Some("application/json"));
    let paths = document.json()["paths"].as_object().unwrap().len();
    let distinct: std::collections::BTreeSet<_> = route_table().iter().map(|route| route.path).collect();
    assert_eq!(paths, distinct.len());
}

#[test]
fn templates_are_listed_looked_at_and_deleted() {
    let server = TestServer::start();
    let list = server.call("GET", "/v1/templates").send().expect(200).json();
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["broken", "host", "python"]);
    assert_golden("template", server.call("GET", "/v1/templates/broken").send().expect(200).json());
    server.call("POST", "/v1/sandboxes").json(&json!({"template": "python"})).send().expect(201);
    assert_eq!(server.call("DELETE", "/v1/templates/python").send().expect(409).code(), "in_use");
    server.call("DELETE", "/v1/templates/broken").send().expect(204);
    for method in ["GET", "DELETE"] {
        for name in ["broken", "No-Name", "..%2f..%2fetc"] {
            let missing = server.call(method, &format!("/v1/templates/{name}")).send().expect(404);
            assert_eq!(missing.code(), "template_not_found", "{method} {name}");
        }
    }
}

#[test]
fn what_is_no_archive_makes_no_template() {
    let server = TestServer::start();
    let put =
        |name: &str, body: &[u8]| server.call("PUT", &format!("/v1/templates/{name}")).body(body).send();
    assert_eq!(put("new", b"this is not an archive").expect(422).code(), "invalid_value");
    assert_eq!(put("new", b"").expect(422).code(), "invalid_value");
    assert_eq!(put("host", b"x").expect(409).code(), "already_exists");
    let user = server.key("default", Scope::Use);
    server.stranger("PUT", "/v1/templates/new").key(&user).body(*b"x").send().expect(403);
    server.call("GET", "/v1/templates/new").send().expect(404);
    for wrong in [
        "x",
        "%7B%7D",
        "%7B%22env%22%3A%5B%22x%22%5D%2C%22user%22%3A%22u%22%2C%22workdir%22%3A%22/%22%2C%22command%22%3A%5B%5D%7D",
    ] {
        let call = server.call("PUT", &format!("/v1/templates/new?config={wrong}")).body(*b"x");
        assert_eq!(call.send().expect(422).code(), "invalid_value", "{wrong}");
    }
}

#[test]
fn losses_are_accepted_by_administrators() {
    let server = TestServer::start();
    let health = server.call("POST", "/v1/recovery/accept-losses").send().expect(200).json();
    assert_eq!((&health["status"], &health["read_only"]), (&json!("ok"), &json!(false)));
}
