use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{hurried, resident_kib};
use crate::support::{Answer, SOON, TestServer};

const PATH: &str = "/v1/sandboxes";

fn head(server: &TestServer, line: &str) -> String {
    format!(
        "POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{line}\r\n\r\n",
        server.admin
    )
}

#[test]
fn a_body_of_ten_gigabytes_is_cut_at_the_limit() {
    let server = TestServer::start();
    let before = resident_kib();
    let chunk = vec![b' '; 1 << 16];
    for (line, prefix, suffix) in
        [("Content-Length: 10737418240", "", ""), ("Transfer-Encoding: chunked", "10000\r\n", "\r\n")]
    {
        let mut stream = server.connect();
        stream.write_all(head(&server, line).as_bytes()).unwrap();
        let began = Instant::now();
        let mut sent = 0;
        while began.elapsed() < Duration::from_secs(10) && sent < 64 << 20 {
            let parts = [prefix.as_bytes(), &chunk, suffix.as_bytes()];
            if parts.iter().any(|part| stream.write_all(part).is_err()) {
                break;
            }
            sent += chunk.len();
        }
        assert!(sent < 32 << 20, "{line}: {sent} bytes were taken");
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        // A reset may overtake the answer: the body was not read.
        assert!(answer.is_empty() || Answer::parse(&answer).status == 413, "{line}");
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more");
    server.call("GET", PATH).send().expect(200);
}

#[test]
fn a_body_just_over_the_limit_is_told_so() {
    let server = TestServer::start();
    let body = json!({"template": "x".repeat(1 << 20)});
    assert_eq!(server.call("POST", PATH).json(&body).send().expect(413).code(), "payload_too_large");
}

#[test]
fn a_body_that_stops_or_trickles_is_cut() {
    let server = TestServer::with(hurried);
    let mut stopped = server.connect();
    stopped.write_all(head(&server, "Content-Length: 100").as_bytes()).unwrap();
    stopped.write_all(b"{\"template\"").unwrap();
    let mut answer = Vec::new();
    let began = Instant::now();
    stopped.read_to_end(&mut answer).unwrap();
    assert_eq!(Answer::parse(&answer).expect(408).code(), "request_timeout");
    assert!(began.elapsed() < SOON);

    let mut trickling = server.connect();
    trickling.write_all(head(&server, "Content-Length: 1000").as_bytes()).unwrap();
    let began = Instant::now();
    while trickling.write_all(b" ").is_ok() && began.elapsed() < 2 * SOON {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_body_longer_than_it_says_is_not_part_of_the_request() {
    let server = TestServer::start();
    let mut stream = server.connect();
    stream.write_all(head(&server, "Content-Length: 2").as_bytes()).unwrap();
    stream.write_all(b"{}GARBAGE AFTER THE BODY\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 201"), "{text}");
    assert!(text.contains("HTTP/1.1 400"), "what came after was taken for a request: {text}");
}

#[test]
fn hostile_json_is_refused_and_never_fails_the_server() {
    let server = TestServer::start();
    let bodies: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"{".to_vec(),
        b"nonsense".to_vec(),
        [b"[".repeat(100_000), b"]".repeat(100_000)].concat(),
        [b"{\"labels\":".repeat(50_000), b"1".to_vec()].concat(),
        b"{\"memory_mib\": 1e999}".to_vec(),
        b"{\"memory_mib\": 99999999999999999999999999999999}".to_vec(),
        b"{\"memory_mib\": -1}".to_vec(),
        b"{\"memory_mib\": 1.5}".to_vec(),
        b"{\"template\": \"\\ud800\"}".to_vec(),
        b"{\"template\": \"\xff\xfe\"}".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"{\"template\": \"a\", \"template\": \"b\"}".to_vec(),
        b"{\"template\": null, \"nothing\": 1}".to_vec(),
        b"{} {}".to_vec(),
        b"{}\0".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
    ];
    for body in bodies {
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = server.call("POST", PATH).header("Content-Type", "application/json").body(body).send();
        assert!(matches!(answer.status, 400 | 422), "{start}: {}", answer.status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{start}");
    }
    let wrong = server.call("POST", PATH).json(&json!({"memory_mib": "much"})).send().expect(422);
    assert_eq!(wrong.json()["field"], "memory_mib");
    let other = server.call("POST", PATH).header("Content-Type", "text/plain").body("{}").send().expect(415);
    assert_eq!(other.code(), "unsupported_media_type");
}
