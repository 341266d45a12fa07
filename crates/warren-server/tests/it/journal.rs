//! Everything that writes to a sandbox's files is in its journal, whichever face it came through.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::e2b::Made;
use crate::support::{Answer, TestServer};
use crate::travel::World;

/// The entries of a sandbox, the newest first.
fn entries(server: &TestServer, id: &str) -> Vec<Value> {
    let journal = server.call("GET", &format!("/v1/sandboxes/{id}/journal?count=true")).send();
    journal.expect(200).json()["items"].as_array().unwrap().clone()
}

/// The newest entry, once it is over and the state after it is known.
fn newest(server: &TestServer, id: &str) -> Value {
    newest_that(server, id, |entry| !entry["ended_at"].is_null() && !entry["after_id"].is_null())
}

/// Of a sandbox whose states nobody captures unasked.
fn newest_ended(server: &TestServer, id: &str) -> Value {
    newest_that(server, id, |entry| !entry["ended_at"].is_null())
}

fn newest_that(server: &TestServer, id: &str, is: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let entry = entries(server, id).first().cloned().unwrap_or_default();
        if is(&entry) {
            return entry;
        }
        assert!(Instant::now() < until, "{entry}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn assert_files(entry: &Value, by: &str, operation: &str, path: &str) {
    assert_eq!((&entry["action"], &entry["operation"]), (&json!("files"), &json!(operation)), "{entry}");
    assert_eq!((&entry["path"], &entry["by"]), (&json!(path), &json!(by)), "{entry}");
}

fn blamed(server: &TestServer, id: &str, path: &str) -> Vec<Value> {
    let blame =
        server.call("GET", &format!("/v1/sandboxes/{id}/blame?path={path}")).send().expect(200).json();
    blame["items"].as_array().unwrap().iter().map(|entry| entry["number"].clone()).collect()
}

fn undo(server: &TestServer, id: &str) {
    server.call("POST", &format!("/v1/sandboxes/{id}/undo")).json(&json!({})).send().expect(200);
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o640);
        header.set_size(content.len() as u64);
        // Written as it is: the builder itself refuses names that lead elsewhere.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap()
}

fn unpack(world: &World, path: &str, bytes: &[u8]) -> Answer {
    let target = format!("/v1/sandboxes/{}/files/archive?path={path}", world.id);
    world.server.call("PUT", &target).body(bytes).send()
}

#[test]
fn each_file_call_is_an_entry() {
    let world = World::new();
    let (server, id) = (&world.server, world.id.as_str());
    world.write("/home/user/f", "content");
    let entry = newest(server, id);
    assert_files(&entry, "test", "write", "/home/user/f");
    assert_eq!(entry["bytes"], 7);
    assert!(entry["changed"].as_u64().unwrap() >= 1, "{entry}");
    world.ask("files/mkdir", &json!({"path": "/home/user/d"})).expect(204);
    assert_files(&newest(server, id), "test", "make_directory", "/home/user/d");
    world.ask("files/move", &json!({"from": "/home/user/f", "to": "/home/user/d/f"})).expect(204);
    let entry = newest(server, id);
    assert_files(&entry, "test", "rename", "/home/user/f");
    assert_eq!(entry["to"], "/home/user/d/f");
    assert_eq!(blamed(server, id, "/home/user/d/f"), [3]);
    world.ask("files/chmod", &json!({"path": "/home/user/d/f", "mode": "0600"})).expect(204);
    assert_files(&newest(server, id), "test", "set_permissions", "/home/user/d/f");
    let remove = format!("/v1/sandboxes/{id}/files?path=/home/user/d&recursive=true");
    server.call("DELETE", &remove).send().expect(204);
    assert_files(&newest(server, id), "test", "remove", "/home/user/d");
    undo(server, id);
    assert_eq!(world.read("/home/user/d/f").as_deref(), Some("content"));
    server.call("DELETE", &format!("/v1/sandboxes/{id}/files?path=/none")).send().expect(404);
    let entry = newest(server, id);
    assert_files(&entry, "test", "remove", "/none");
    assert!(entry["detail"].as_str().unwrap().contains("/none"), "{entry}");
}

#[test]
fn an_archive_is_unpacked_as_one_entry_and_one_undo() {
    let world = World::new();
    let (server, id) = (&world.server, world.id.as_str());
    world.write("/home/user/there/a", "before");
    let bytes = archive(&[("a", b"after"), ("./deep/er/b", b"new")]);
    let unpacked = unpack(&world, "/home/user/there", &bytes).expect(200).json();
    assert_eq!(unpacked, json!({"files": 2, "bytes": 8, "left_out": 0}));
    assert_eq!(world.read("/home/user/there/deep/er/b").as_deref(), Some("new"));
    let entry = newest(server, id);
    assert_files(&entry, "test", "unpack", "/home/user/there");
    assert_eq!((&entry["number"], &entry["files"], &entry["bytes"]), (&json!(2), &json!(2), &json!(8)));
    assert_eq!(blamed(server, id, "/home/user/there/a"), [2]);
    undo(server, id);
    assert_eq!(world.read("/home/user/there/a").as_deref(), Some("before"));
    assert_eq!(world.read("/home/user/there/deep/er/b"), None);
}

#[test]
fn an_archive_that_cannot_be_used_says_so_in_the_journal_too() {
    let world = World::new();
    let wrong = unpack(&world, "/home/user/d", &[7; 2000]).expect(400);
    assert_eq!(wrong.code(), "invalid_request");
    assert!(newest(&world.server, &world.id)["detail"].as_str().unwrap().contains("broken off"));
    let elsewhere = archive(&[("../x", b"")]);
    assert_eq!(unpack(&world, "/home/user/d", &elsewhere).expect(400).code(), "invalid_request");
    assert_eq!(world.read("/home/user/x"), None);
    let cut = archive(&[("a", &[7; 5000])]);
    unpack(&world, "/home/user/d", &cut[..2000]).expect(400);
    assert_eq!(world.read("/home/user/d/a"), None);
}

#[test]
fn an_upload_that_breaks_off_is_an_entry_that_says_so() {
    let world = World::new();
    let target = format!("/v1/sandboxes/{}/files?path=/tmp/f", world.id);
    let mut open = world.server.call("PUT", &target).header("Content-Length", "1000").open();
    open.write_all(b"half").unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while entries(&world.server, &world.id).is_empty() {
        assert!(Instant::now() < until);
    }
    drop(open);
    let entry = newest(&world.server, &world.id);
    assert_files(&entry, "test", "write", "/tmp/f");
    assert!(entry["detail"].as_str().unwrap().contains("broken off"), "{entry}");
    assert_eq!(world.read("/tmp/f"), None);
}

#[test]
fn what_e2bs_clients_write_is_in_the_journal() {
    let server = TestServer::start();
    let made = Made::by(&server);
    let rpc = |method: &str, message: Value| {
        made.rpc(&server, &format!("filesystem.Filesystem/{method}"), &message)
    };
    let upload = made.call(&server, "POST", "/files?path=/home/user/f");
    let upload = upload.header("Content-Type", "application/octet-stream").header("X-Metadata-Kind", "text");
    upload.body("content").pass().expect(200);
    assert_files(&newest_ended(&server, &made.id), "e2b", "write", "/home/user/f");
    rpc("MakeDir", json!({"path": "/home/user/a/b"})).expect(200);
    let entry = newest_ended(&server, &made.id);
    assert_files(&entry, "e2b", "make_directory", "/home/user/a/b");
    assert!(entry["detail"].is_null(), "what failed on the way was part of it: {entry}");
    rpc("Move", json!({"source": "/home/user/f", "destination": "/home/user/new/f"})).expect(200);
    assert_files(&newest_ended(&server, &made.id), "e2b", "rename", "/home/user/f");
    let snapshots = format!("/v1/sandboxes/{}/snapshots", made.id);
    server.call("POST", &snapshots).json(&json!({})).send().expect(201);
    assert_eq!(blamed(&server, &made.id, "/home/user/new/f"), [3, 2, 1], "nothing was captured between them");
    rpc("Remove", json!({"path": "/home/user/new"})).expect(200);
    assert_files(&newest_ended(&server, &made.id), "e2b", "remove", "/home/user/new");
    assert_eq!(entries(&server, &made.id).len(), 4, "one each");
    undo(&server, &made.id);
    let read = made.call(&server, "GET", "/files?path=/home/user/new/f").pass().expect(200);
    assert_eq!(read.body, b"content");
}

#[test]
fn the_files_of_one_form_are_one_entry() {
    let server = TestServer::start();
    let made = Made::by(&server);
    let part = |name: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\ntext\r\n")
    };
    let body = format!("{}{}--x--\r\n", part("/home/user/a"), part("/home/user/b"));
    let post = made.call(&server, "POST", "/files");
    post.header("Content-Type", "multipart/form-data; boundary=x").body(body).pass().expect(200);
    let entry = newest_ended(&server, &made.id);
    assert_files(&entry, "e2b", "write", "/home/user/a");
    assert_eq!((&entry["number"], &entry["files"], &entry["bytes"]), (&json!(1), &json!(2), &json!(8)));
}
