use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use warren_core::{ByteSize, Clock as _};
use warren_e2b::signature::{Operation, sign};

use super::made::Made;
use crate::support::{Answer, Call, TestServer};

/// A server with one sandbox.
fn sandbox() -> (TestServer, Made) {
    let server = TestServer::start();
    let made = Made::by(&server);
    (server, made)
}

fn bare(call: Call, bytes: impl Into<Vec<u8>>) -> Answer {
    call.header("Content-Type", "application/octet-stream").body(bytes).pass()
}

/// A form with parts: name, file name if it has one, and content.
fn form(call: Call, parts: &[(&str, Option<&str>, &[u8])]) -> Answer {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        write!(body, "--x-y\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n").unwrap();
        body.extend_from_slice(b"Content-Type: text/plain\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--x-y--\r\n");
    call.header("Content-Type", "multipart/form-data; boundary=x-y").body(body).pass()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn a_form_stores_one_file_where_the_query_says() {
    let (server, made) = sandbox();
    let post = |query: &str| made.call(&server, "POST", &format!("/files?{query}"));
    let stored = form(post("path=hello.txt"), &[("file", Some("other.txt"), b"Hello")]).expect(200).json();
    assert_eq!(stored, json!([{"path": "/root/hello.txt", "name": "hello.txt", "type": "file"}]));
    form(post("path=~/deep/er/x"), &[("note", None, b"ignored"), ("file", None, b"no name")]).expect(200);
    let read = |path: &str| made.call(&server, "GET", &format!("/files?path={path}")).pass().expect(200);
    assert_eq!(
        (read("/root/hello.txt").body, read("deep/er/x").body),
        (b"Hello".to_vec(), b"no name".to_vec())
    );
}

#[test]
fn a_form_without_a_path_stores_every_file_where_it_says() {
    let (server, made) = sandbox();
    let post = || made.call(&server, "POST", "/files");
    let parts: [(&str, Option<&str>, &[u8]); 2] =
        [("file", Some("/tmp/m1.txt"), b"one"), ("file", Some("d/m2.txt"), b"two")];
    let stored = form(post(), &parts).expect(200).json();
    let paths: Vec<&Value> = stored.as_array().unwrap().iter().map(|one| &one["path"]).collect();
    assert_eq!(paths, ["/tmp/m1.txt", "/root/d/m2.txt"]);
    for wrong in [
        &[("file", Some("a"), &b"1"[..]), ("file", Some("./a"), b"2")][..],
        &[("file", Some("/root/b"), b"1"), ("file", Some("b"), b"2")],
        &[("file", None, b"1")],
        &[("file", Some("~other/b"), b"1")],
    ] {
        assert_eq!(form(post(), wrong).expect(400).json()["code"], 400);
    }
}

#[test]
fn bare_bytes_come_back_as_they_were() {
    let (server, made) = sandbox();
    let bytes: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
    bare(made.call(&server, "POST", "/files?path=/tmp/a.bin"), bytes.clone()).expect(200);
    let read = made.call(&server, "GET", "/files?path=/tmp/a.bin").pass().expect(200);
    assert!(read.body == bytes, "{} bytes came back", read.body.len());
    assert_eq!(read.header("content-length"), Some("2400000"));
    assert_eq!(read.header("content-disposition"), Some("inline; filename*=UTF-8''a.bin"));
    assert_eq!(
        (read.header("vary"), read.header("x-content-type-options")),
        (Some("Accept-Encoding"), Some("nosniff"))
    );
    bare(made.call(&server, "POST", "/files?path=/tmp/none"), b"").expect(200);
    let empty = made.call(&server, "GET", "/files?path=/tmp/none").pass().expect(200);
    assert_eq!((empty.header("content-length"), empty.body.len()), (Some("0"), 0));
    assert_eq!(bare(made.call(&server, "POST", "/files"), b"x").expect(400).json()["code"], 400);
}

#[test]
fn bodies_may_be_packed_both_ways() {
    let (server, made) = sandbox();
    let bytes = b"all work and no play ".repeat(10_000);
    let post = |path: &str| {
        made.call(&server, "POST", &format!("/files?path={path}")).header("Content-Encoding", "gzip")
    };
    bare(post("/tmp/a"), packed(&bytes)).expect(200);
    let get =
        |accept: &str| made.call(&server, "GET", "/files?path=/tmp/a").header("Accept-Encoding", accept);
    assert_eq!(get("gzip, deflate").pass().expect(200).body, bytes);
    let answer = get("gzip").pass().expect(200);
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert!(answer.body.len() < bytes.len() / 10, "{}", answer.body.len());
    let mut unpacked = Vec::new();
    GzDecoder::new(&answer.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, bytes);
    let part = get("gzip").header("Range", "bytes=4-7").pass().expect(206);
    assert_eq!((part.body.as_slice(), part.header("content-encoding")), (&b"work"[..], None));
    get("identity;q=0").pass().expect(406);
    bare(post("/tmp/b"), b"not packed at all").expect(400);
    let odd = made.call(&server, "POST", "/files?path=/tmp/b").header("Content-Encoding", "br");
    bare(odd, b"x").expect(400);
}

#[test]
fn what_cannot_be_read_has_the_status_that_clients_know() {
    let (server, made) = sandbox();
    let get = |query: &str| made.call(&server, "GET", &format!("/files?{query}")).pass();
    assert_eq!(get("path=/tmp/missing").expect(404).json()["code"], 404);
    assert_eq!(get("path=/tmp").expect(400).json()["code"], 400);
    get("path=~other/x").expect(400);
    get("path=a%00b").expect(400);
    get("").expect(400);
    let directory = bare(made.call(&server, "POST", "/files?path=/tmp"), b"x").expect(400);
    assert_eq!(directory.json()["code"], 400);
    let text = made.call(&server, "POST", "/files?path=/tmp/a").header("Content-Type", "text/plain");
    text.body("x").pass().expect(400);
}

#[test]
fn a_file_that_the_client_has_is_not_sent_again() {
    let (server, made) = sandbox();
    bare(made.call(&server, "POST", "/files?path=/tmp/a"), b"0123456789").expect(200);
    let get = || made.call(&server, "GET", "/files?path=/tmp/a");
    let modified = get().pass().expect(200).header("last-modified").unwrap().to_owned();
    assert_eq!(get().header("If-Modified-Since", &modified).pass().expect(304).body, b"");
    get().header("If-Modified-Since", "Thu, 01 Jan 1970 00:00:01 GMT").pass().expect(200);
    let answer = get().header("Range", "bytes=-3").pass().expect(206);
    assert_eq!((answer.body.as_slice(), answer.header("content-range")), (&b"789"[..], Some("bytes 7-9/10")));
    assert_eq!(
        get().header("Range", "bytes=10-").pass().expect(416).header("content-range"),
        Some("bytes */10")
    );
}

#[test]
fn metadata_is_kept_with_a_file_until_the_next_upload() {
    let (server, made) = sandbox();
    let post = || made.call(&server, "POST", "/files?path=/tmp/a");
    let stored =
        bare(post().header("X-Metadata-Kind", "Report").header("X-Metadata-b", "2"), b"x").expect(200).json();
    let entry =
        json!({"path": "/tmp/a", "name": "a", "type": "file", "metadata": {"kind": "Report", "b": "2"}});
    assert_eq!(stored, json!([entry]));
    let stat = |made: &Made| {
        made.rpc(&server, "filesystem.Filesystem/Stat", &json!({"path": "/tmp/a"})).expect(200).json()
    };
    assert_eq!(stat(&made)["entry"]["metadata"], json!({"kind": "Report", "b": "2"}));
    assert_eq!(
        bare(post(), b"y").expect(200).json(),
        json!([{"path": "/tmp/a", "name": "a", "type": "file"}])
    );
    assert_eq!(stat(&made)["entry"].get("metadata"), None);
    bare(post().header("X-Metadata-k", &"v".repeat(5000)), b"x").expect(400);
}

#[test]
fn a_signature_opens_one_path_for_one_purpose() {
    let (server, made) = sandbox();
    bare(made.call(&server, "POST", "/files?path=a.txt&username=user"), b"signed").expect(200);
    let now = i64::try_from(server.clock.unix_ms() / 1000).unwrap();
    let signed = |operation, path: &str, user: &str, expires: Option<i64>| {
        let signature = escaped(&sign(path, operation, user, &made.token, expires));
        let expires = expires.map(|at| format!("&signature_expiration={at}")).unwrap_or_default();
        format!("/files?path={path}&username={user}&signature={signature}{expires}")
    };
    let get = |url: &str| made.stranger(&server, "GET", url).pass();
    assert_eq!(get(&signed(Operation::Read, "a.txt", "user", None)).expect(200).body, b"signed");
    get(&signed(Operation::Read, "a.txt", "user", Some(now + 60))).expect(200);
    let over = get(&signed(Operation::Read, "a.txt", "user", Some(now - 60))).expect(401).json();
    assert_eq!(over, json!({"code": 401, "message": "signature is already expired"}));
    for wrong in [
        signed(Operation::Write, "a.txt", "user", None),
        signed(Operation::Read, "a.txt", "user", None).replace("a.txt", "b.txt"),
        signed(Operation::Read, "a.txt", "user", None).replace("=user", "=root"),
        signed(Operation::Read, "a.txt", "user", Some(now + 60))
            .replace(&(now + 60).to_string(), &(now + 61).to_string()),
    ] {
        assert_eq!(get(&wrong).expect(401).json()["message"], "invalid signature", "{wrong}");
    }
    get("/files?path=a.txt").expect(401);
    get("/files?path=a.txt&signature=v1_x&signature_expiration=soon").expect(400);
    let url = signed(Operation::Write, "b.txt", "user", None);
    bare(made.stranger(&server, "POST", &url), b"new").expect(200);
    let wrong = made.stranger(&server, "GET", &signed(Operation::Read, "a.txt", "user", None));
    wrong.header("X-Access-Token", "x").pass().expect(401);
}

#[test]
fn a_signature_finds_its_sandbox_where_the_url_names_none() {
    let (server, made) = sandbox();
    let other = Made::by(&server);
    for (one, text) in [(&made, "one"), (&other, "other")] {
        let signature = escaped(&sign("", Operation::Write, "", &one.token, None));
        let call = server.stranger("POST", &format!("/files?signature={signature}"));
        form(call, &[("file", Some("a.txt"), text.as_bytes())]).expect(200);
        let signature = escaped(&sign("a.txt", Operation::Read, "", &one.token, None));
        let read =
            server.stranger("GET", &format!("/files?path=a.txt&signature={signature}")).pass().expect(200);
        assert_eq!(read.body, text.as_bytes());
    }
    let nobodys = server.stranger("GET", "/files?path=a.txt&signature=v1_AAAA").pass().expect(401);
    assert_eq!(nobodys.json(), json!({"code": 401, "message": "invalid signature"}));
    server.stranger("GET", "/files?path=a.txt").pass().expect(404);
}

#[test]
fn files_are_put_together() {
    let (server, made) = sandbox();
    for (path, text) in [("p1", "one "), ("p2", "two "), ("p3", "three")] {
        bare(made.call(&server, "POST", &format!("/files?path={path}")), text).expect(200);
    }
    let compose = |body: Value| made.call(&server, "POST", "/files/compose").json(&body).pass();
    let order = json!({"source_paths": ["p1", "p2", "p3"], "destination": "whole/all.txt"});
    let stored = compose(order.clone()).expect(200).json();
    assert_eq!(stored, json!({"path": "/root/whole/all.txt", "name": "all.txt", "type": "file"}));
    let get = |path: &str| made.call(&server, "GET", &format!("/files?path={path}")).pass();
    assert_eq!(get("whole/all.txt").expect(200).body, b"one two three");
    get("p1").expect(404);
    compose(order).expect(404);
    assert_eq!(get("whole/all.txt").expect(200).body, b"one two three", "a failed order changes nothing");
    compose(json!({"source_paths": [], "destination": "x"})).expect(400);
    compose(json!({"source_paths": ["whole/all.txt"], "destination": "whole/all.txt"})).expect(400);
    compose(json!({"destination": "x"})).expect(400);
}

#[test]
fn uploads_over_the_limit_are_refused() {
    let server = TestServer::with(|config| config.http.max_upload = ByteSize(1000));
    let made = Made::by(&server);
    let post = || made.call(&server, "POST", "/files?path=/tmp/a");
    bare(post(), vec![0; 1001]).expect(413);
    bare(post().header("Content-Encoding", "gzip"), packed(&[0; 1001])).expect(413);
    form(post(), &[("file", None, &[0; 1001])]).expect(413);
    bare(post(), vec![0; 1000]).expect(200);
}
