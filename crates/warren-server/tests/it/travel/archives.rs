use std::io::Read as _;

use serde_json::json;
use warren_core::{LayerErrorKind, Scope};

use super::{World, refusal, refused};
use crate::support::TestServer;

const FILE: &str = "/home/user/x";

#[test]
fn a_history_goes_out_and_comes_back() {
    let world = World::new();
    world.write(FILE, "one");
    world.snapshot();
    world.write(FILE, "two");
    let last = world.snapshot();
    let archive = world.get(&format!("/v1/snapshots/{last}/export?format=history")).expect(200);
    assert_eq!(archive.header("content-type"), Some("application/octet-stream"));
    assert!(archive.header("content-disposition").unwrap().contains(&last));
    let other = TestServer::start();
    let path = "/v1/snapshots/import?format=history&name=brought";
    let imported = other.call("POST", path).body(archive.body).send().expect(201).json();
    let items = imported["items"].as_array().unwrap();
    assert_eq!(
        (items.last().unwrap()["name"].as_str(), &items[0]["reason"]),
        (Some("brought"), &json!("import"))
    );
    let path = format!("/v1/snapshots/{}/fork", items.last().unwrap()["snapshot_id"].as_str().unwrap());
    let forks = other.call("POST", &path).send().expect(201).json();
    let id = forks["sandboxes"][0]["sandbox_id"].as_str().unwrap();
    let file = other.call("GET", &format!("/v1/sandboxes/{id}/files?path={FILE}")).send().expect(200);
    assert_eq!(file.body, b"two");
}

#[test]
fn files_go_out_as_a_tar_and_changes_as_a_patch() {
    let world = World::new();
    let start = world.snapshot();
    world.write(FILE, "one\n");
    let last = world.snapshot();
    let tar = world.get(&format!("/v1/snapshots/{last}/export?path=/home")).expect(200);
    assert_eq!(tar.header("content-type"), Some("application/x-tar"));
    assert!(!tar.body.is_empty());
    assert_eq!(tar.header("warren-export-bytes"), None, "nobody asked");
    let sized = world.get(&format!("/v1/snapshots/{last}/export?path=/home&size=true")).expect(200);
    assert_eq!(sized.header("warren-export-bytes"), Some(sized.body.len().to_string().as_str()));
    let patch = world.get(&format!("/v1/snapshots/{last}/export?format=patch&since={start}")).expect(200);
    assert_eq!(patch.header("content-type"), Some("text/x-patch"));
    assert_eq!(patch.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn what_cannot_be_exported_is_named() {
    let world = World::new();
    world.write(FILE, "x");
    let path = format!("/v1/snapshots/{}/export", world.snapshot());
    let cases = [
        ("?format=zip", "format"),
        ("?format=patch", "since"),
        ("?format=patch&since=X", "since"),
        ("?format=tar&since=snap-00000000-0000-4000-8000-000000000000", "since"),
        ("?format=history&path=/", "path"),
        ("?path=/../etc", "path"),
        ("?path=etc", "path"),
    ];
    for (query, field) in cases {
        let answer = world.get(&format!("{path}{query}"));
        assert_eq!(refusal(&answer), refused(422, "invalid_value", field), "{query}");
    }
    let stranger = world.server.key("stranger", Scope::Use);
    let foreign = world.server.stranger("GET", &path).key(&stranger).send().expect(404);
    assert_eq!(foreign.code(), "snapshot_not_found");
}

#[test]
fn garbage_is_not_imported_and_leaves_nothing() {
    let world = World::new();
    let import = |query: &str, body: &[u8]| {
        world.server.call("POST", &format!("/v1/snapshots/import{query}")).body(body).send()
    };
    for body in [b"".as_slice(), b"garbage", &[0; 10_000]] {
        assert_eq!(refusal(&import("?format=history", body)).1, "invalid_value");
        assert_eq!(refusal(&import("?format=tar&template=host", body)).1, "invalid_value");
    }
    let cases = [
        ("?format=zip", "format"),
        ("?format=tar", "template"),
        ("?format=tar&template=../x", "template"),
        ("?template=host", "template"),
        ("?name=", "name"),
    ];
    for (query, field) in cases {
        assert_eq!(refusal(&import(query, b"x")), refused(422, "invalid_value", field), "{query}");
    }
    let missing = import("?format=tar&template=no-such-one", b"x");
    assert!(["template_not_found", "invalid_value"].contains(&missing.code().as_str()));
    assert_eq!(world.get("/v1/snapshots").expect(200).json()["items"], json!([]));
}

#[test]
fn an_archive_that_is_too_long_or_breaks_off_is_refused() {
    let world = World::on(TestServer::with(|config| config.http.max_upload.0 = 1000));
    let path = "/v1/snapshots/import";
    let long = world.server.call("POST", path).body(vec![0; 1001]).send().expect(413);
    assert_eq!(long.code(), "payload_too_large");
    let call = world.server.call("POST", path).header("Content-Length", "500");
    let mut stream = call.open();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    drop(stream.read_to_end(&mut bytes));
    assert!(bytes.is_empty() || String::from_utf8_lossy(&bytes).starts_with("HTTP/1.1 400"));
    assert_eq!(world.get("/v1/snapshots").expect(200).json()["items"], json!([]));
}

#[test]
fn a_store_that_fails_says_nothing_of_itself() {
    let world = World::new();
    world.write(FILE, "x");
    let path = format!("/v1/snapshots/{}/export", world.snapshot());
    let layers = world.server.isolation.layers();
    for (kind, status, code) in [
        (LayerErrorKind::Damaged, 409, "snapshot_damaged"),
        (LayerErrorKind::Full, 503, "disk_low"),
        (LayerErrorKind::Host, 500, "internal"),
    ] {
        layers.fail_next("export", kind);
        assert_eq!(world.get(&path).expect(status).code(), code);
    }
    world.get(&path).expect(200);
}
