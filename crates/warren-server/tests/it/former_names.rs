//! A thing has one name. The names that some had before are still understood, and answers still
//! have them.

use serde_json::{Value, json};

use crate::support::TestServer;

fn create(server: &TestServer, body: &Value) -> Value {
    server.call("POST", "/v1/sandboxes").json(body).send().expect(201).json()
}

#[test]
fn the_place_where_processes_start_is_cwd_and_was_workdir() {
    let server = TestServer::start();
    for name in ["cwd", "workdir"] {
        let sandbox = create(&server, &json!({name: "/work"}));
        assert_eq!((&sandbox["cwd"], &sandbox["workdir"]), (&json!("/work"), &json!("/work")), "{name}");
        let refused = server.call("POST", "/v1/sandboxes").json(&json!({name: "work"})).send().expect(422);
        assert_eq!(refused.json()["field"], "cwd", "{name}");
    }
    let twice = server.call("POST", "/v1/sandboxes").json(&json!({"cwd": "/a", "workdir": "/b"})).send();
    assert_eq!(twice.expect(422).json()["detail"], "duplicate field `workdir`");
    let template = server.call("GET", "/v1/templates/host").send().expect(200).json();
    assert_eq!(template["cwd"], template["workdir"]);
}

#[test]
fn a_search_begins_at_a_path_which_was_a_root() {
    let server = TestServer::start();
    let sandbox = create(&server, &json!({}));
    let files = format!("/v1/sandboxes/{}/files", sandbox["sandbox_id"].as_str().unwrap());
    // The sandboxes of these tests know no search: what counts is that they are asked for one.
    for name in ["path", "root"] {
        for search in ["glob", "grep"] {
            let asked = server.call("GET", &format!("{files}/{search}?{name}=/work&pattern=x")).send();
            assert_eq!(asked.expect(422).code(), "unsupported", "{search} {name}");
        }
    }
    let missing = server.call("GET", &format!("{files}/glob?pattern=x")).send().expect(422).json();
    assert_eq!(missing["field"], "path");
}

#[test]
fn an_archive_is_sent_to_the_sandbox_or_to_its_files() {
    let server = TestServer::start();
    let sandbox = create(&server, &json!({}));
    let at = format!("/v1/sandboxes/{}", sandbox["sandbox_id"].as_str().unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_path("note").unwrap();
    header.set_size(5);
    header.set_mode(0o644);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, &b"hello"[..]).unwrap();
    let bytes = archive.into_inner().unwrap();
    for end in ["archive", "files/archive"] {
        let sent =
            server.call("PUT", &format!("{at}/{end}?path=/work")).body(bytes.clone()).send().expect(200);
        assert_eq!(sent.json()["files"], 1, "{end}");
    }
    server.stranger("PUT", &format!("{at}/archive?path=/work")).body(bytes.clone()).send().expect(401);
}
