use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use warren_core::{ByteSize, Scope};

use crate::support::{Answer, TestServer, until_read};

/// A server with one sandbox, and the path to its files.
fn files() -> (TestServer, String) {
    files_of(TestServer::start())
}

fn files_of(server: TestServer) -> (TestServer, String) {
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}/files", made["sandbox_id"].as_str().unwrap());
    (server, path)
}

fn put(server: &TestServer, path: &str, query: &str, bytes: &[u8]) -> Answer {
    server.call("PUT", &format!("{path}?{query}")).body(bytes).send()
}

fn get(server: &TestServer, path: &str, file: &str) -> Answer {
    server.call("GET", &format!("{path}?path={file}")).send()
}

fn post(server: &TestServer, path: &str, body: &Value) -> Answer {
    server.call("POST", path).json(body).send()
}

#[test]
fn a_file_comes_back_as_it_was_written() {
    let (server, path) = files();
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(5_000_001).collect();
    let written = put(&server, &path, "path=/tmp/a.bin", &bytes).expect(200).json();
    assert_eq!(written["bytes"], 5_000_001);
    let read = get(&server, &path, "/tmp/a.bin").expect(200);
    assert!(read.body == bytes, "{} bytes came back", read.body.len());
    assert_eq!(read.header("content-length"), Some("5000001"));
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    assert_eq!(read.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn an_empty_file_is_a_file() {
    let (server, path) = files();
    put(&server, &path, "path=/tmp/none", b"").expect(200);
    let read = get(&server, &path, "/tmp/none").expect(200);
    assert_eq!((read.header("content-length"), read.body.len()), (Some("0"), 0));
}

#[test]
fn parts_of_a_file_are_sent_as_the_standard_says() {
    let (server, path) = files();
    put(&server, &path, "path=/tmp/a", b"0123456789").expect(200);
    let part = |range: &str| server.call("GET", &format!("{path}?path=/tmp/a")).header("Range", range).send();
    for (range, text, told) in [
        ("bytes=0-3", "0123", "bytes 0-3/10"),
        ("bytes=4-", "456789", "bytes 4-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=8-100", "89", "bytes 8-9/10"),
        ("bytes=-100", "0123456789", "bytes 0-9/10"),
    ] {
        let answer = part(range).expect(206);
        assert_eq!(
            (String::from_utf8_lossy(&answer.body).as_ref(), answer.header("content-range")),
            (text, Some(told))
        );
        assert_eq!(answer.header("content-length"), Some(text.len().to_string().as_str()), "{range}");
    }
    for range in ["bytes=10-", "bytes=-0", "bytes=99-100"] {
        let answer = part(range).expect(416);
        assert_eq!(
            (answer.header("content-range"), answer.code().as_str()),
            (Some("bytes */10"), "range_not_satisfiable")
        );
    }
    for range in ["bytes=5-2", "lines=1-2", "bytes=0-1,4-5", "nonsense"] {
        assert_eq!(part(range).expect(200).body, b"0123456789", "{range}");
    }
    let conditional = server.call("GET", &format!("{path}?path=/tmp/a")).header("Range", "bytes=0-1");
    conditional.header("If-Range", "\"x\"").send().expect(200);
}

#[test]
fn a_head_tells_the_size() {
    let (server, path) = files();
    put(&server, &path, "path=/tmp/a", b"0123456789").expect(200);
    let head = server.call("HEAD", &format!("{path}?path=/tmp/a")).send().expect(200);
    assert_eq!((head.header("content-length"), head.body.len()), (Some("10"), 0));
    server.call("HEAD", &format!("{path}?path=/tmp/b")).send().expect(404);
}

#[test]
fn a_file_can_be_appended_to() {
    let (server, path) = files();
    put(&server, &path, "path=/tmp/log", b"one\n").expect(200);
    put(&server, &path, "path=/tmp/log&append=true", b"two\n").expect(200);
    assert_eq!(get(&server, &path, "/tmp/log").expect(200).body, b"one\ntwo\n");
}

#[test]
fn what_is_wrong_with_a_request_is_named() {
    let (server, path) = files();
    for (query, field) in [
        ("", "path"),
        ("path=", "path"),
        ("path=a%00b", "path"),
        ("path=/tmp/a&mode=9", "mode"),
        ("path=/tmp/a&append=1", "append"),
        ("path=/tmp/a&user=", "user"),
        ("path=/tmp/a&paht=1", "paht"),
        ("path=/tmp/a&path=/tmp/b", "path"),
    ] {
        let refused = put(&server, &path, query, b"x").expect(422).json();
        assert_eq!(refused["field"], field, "{query}");
    }
    assert_eq!(get(&server, &path, "/tmp/missing").expect(404).code(), "path_not_found");
    assert_eq!(get(&server, &path, "/tmp").expect(409).code(), "wrong_kind");
}

#[test]
fn another_owners_files_are_not_there() {
    let (server, path) = files();
    put(&server, &path, "path=/tmp/a", b"secret").expect(200);
    let (key, reader) = (server.key("other", Scope::Admin), server.key("default", Scope::Read));
    for (method, rest) in [("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/stat"), ("GET", "/list")] {
        let call = server.stranger(method, &format!("{path}{rest}?path=/tmp/a")).key(&key);
        assert_eq!(call.body("x").send().expect(404).code(), "sandbox_not_found", "{method} {rest}");
    }
    server.stranger("GET", &format!("{path}?path=/tmp/a")).key(&reader).send().expect(200);
    server.stranger("PUT", &format!("{path}?path=/tmp/a")).key(&reader).body("x").send().expect(403);
    assert_eq!(get(&server, &path, "/tmp/a").expect(200).body, b"secret");
}

#[test]
fn files_over_the_limit_are_refused_before_and_while_they_arrive() {
    let (server, path) = files_of(TestServer::with(|config| config.http.max_upload = ByteSize(1000)));
    put(&server, &path, "path=/tmp/a", b"previous").expect(200);
    assert_eq!(put(&server, &path, "path=/tmp/a", &[0; 1001]).expect(413).code(), "payload_too_large");
    let mut stream = server.connect();
    write!(
        stream,
        "PUT {path}?path=/tmp/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.admin
    )
    .unwrap();
    for _ in 0..20 {
        if stream
            .write_all(b"64\r\n")
            .and_then(|()| stream.write_all(&[b'x'; 100]))
            .and_then(|()| stream.write_all(b"\r\n"))
            .is_err()
        {
            break;
        }
    }
    stream.write_all(b"0\r\n\r\n").ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    Answer::parse(&answer).expect(413);
    put(&server, &path, "path=/tmp/b", &[0; 1000]).expect(200);
    assert_eq!(get(&server, &path, "/tmp/a").expect(200).body, b"previous");
}

#[test]
fn an_upload_that_breaks_off_leaves_the_file_as_it_was() {
    let (server, path) = files();
    put(&server, &path, "path=/tmp/a", b"previous").expect(200);
    for framing in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
        let mut stream = server.connect();
        write!(
            stream,
            "PUT {path}?path=/tmp/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n{framing}\r\n\r\n400\r\n{}",
            server.admin,
            "x".repeat(1024)
        )
        .unwrap();
        until_read(&stream);
        drop(stream);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(get(&server, &path, "/tmp/a").expect(200).body, b"previous", "{framing}");
    }
}

#[test]
fn trees_are_made_listed_moved_and_removed() {
    let (server, path) = files();
    post(&server, &format!("{path}/mkdir"), &json!({"path": "/work/deep/er", "parents": true})).expect(204);
    put(&server, &path, "path=/work/deep/a&parents=true", b"12").expect(200);
    let list = server.call("GET", &format!("{path}/list?path=/work&depth=3")).send().expect(200).json();
    let paths: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["path"].as_str().unwrap()).collect();
    for expected in ["/work/deep", "/work/deep/a", "/work/deep/er"] {
        assert!(paths.contains(&expected), "{paths:?}");
    }
    let short =
        server.call("GET", &format!("{path}/list?path=/work&depth=3&limit=1")).send().expect(200).json();
    assert_eq!((short["items"].as_array().unwrap().len(), &short["truncated"]), (1, &json!(true)));
    post(&server, &format!("{path}/move"), &json!({"from": "/work/deep/a", "to": "/work/b"})).expect(204);
    post(&server, &format!("{path}/chmod"), &json!({"path": "/work/b", "mode": "0600"})).expect(204);
    let stat = server.call("GET", &format!("{path}/stat?path=/work/b")).send().expect(200).json();
    assert_eq!(
        (&stat["size_bytes"], &stat["mode"], &stat["type"]),
        (&json!(2), &json!("0600"), &json!("file"))
    );
    let full = server.call("DELETE", &format!("{path}?path=/work")).send();
    assert!(full.status == 409 || full.status == 502, "{}", full.status);
    server.call("DELETE", &format!("{path}?path=/work&recursive=true")).send().expect(204);
    server.call("GET", &format!("{path}/stat?path=/work")).send().expect(404);
}
