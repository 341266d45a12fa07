mod bodies;
mod crowds;
mod frames;
mod heads;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use warren_server::config::Config;
use warren_testkit::Call as Port;

use crate::support::{Answer, SOON, TestServer, eventually, until_closed};

/// Short times, so that tests of them are short.
fn hurried(config: &mut Config) {
    config.http.header_timeout = Duration::from_secs(1);
    config.http.idle_timeout = Duration::from_secs(1);
    config.http.read_timeout = Duration::from_secs(1);
    config.http.request_timeout = Duration::from_secs(3);
}

/// This process's memory. The server is in it.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn hundreds_of_slow_senders_do_not_keep_others_from_being_served() {
    let server = TestServer::with(|config| {
        hurried(config);
        config.http.header_timeout = Duration::from_secs(3);
        config.http.request_timeout = Duration::from_secs(60);
    });
    let mut slow: Vec<TcpStream> = (0..500).map(|_| server.connect()).collect();
    let began = Instant::now();
    for round in 0..4 {
        for stream in &mut slow {
            drop(stream.write_all(&b"GET /v1/health HTTP/1.1\r\nX: "[round..=round]));
        }
        server.call("GET", "/v1/sandboxes").send().expect(200);
        std::thread::sleep(Duration::from_millis(200));
    }
    for stream in &mut slow {
        until_closed(stream);
    }
    assert!(began.elapsed() < 2 * SOON, "{:?}", began.elapsed());
    server.call("GET", "/v1/sandboxes").send().expect(200);
}

#[test]
fn whoever_says_nothing_is_closed() {
    let server = TestServer::with(hurried);
    let mut silent = server.connect();
    let mut hesitant = server.connect();
    hesitant.write_all(b"PRI * HTTP/2.0\r\n").unwrap();
    assert!(until_closed(&mut silent) < SOON);
    assert!(until_closed(&mut hesitant) < SOON);
}

#[test]
fn a_connection_that_is_kept_but_not_used_is_closed_later_than_one_that_begins_a_request() {
    let server = TestServer::with(|config| {
        hurried(config);
        config.http.idle_timeout = Duration::from_secs(6);
    });
    let used = || {
        let mut kept = server.connect();
        kept.write_all(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = [0; 4096];
        assert!(kept.read(&mut answer).unwrap() > 0);
        kept
    };
    let (mut idle, mut beginning) = (used(), used());
    beginning.write_all(b"GET /v1/").unwrap();
    until_closed(&mut beginning);
    idle.set_nonblocking(true).unwrap();
    let read = idle.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::WouldBlock), "it is still open");
    idle.set_nonblocking(false).unwrap();
    assert!(until_closed(&mut idle) < SOON);
}

#[test]
fn bombs_of_headers_are_refused() {
    let server = TestServer::start();
    let many = (0..500)
        .fold(server.call("GET", "/v1/sandboxes"), |call, number| call.header(&format!("X-{number}"), "1"));
    assert_eq!(many.send().status, 431);
    let long = server.call("GET", "/v1/sandboxes").header("X-Long", &"a".repeat(1 << 20)).send();
    assert_eq!(long.status, 431);
    let path = server.call("GET", &format!("/{}", "a".repeat(1 << 20))).send();
    assert!(matches!(path.status, 414 | 431), "{}", path.status);
    server.call("GET", "/v1/sandboxes").send().expect(200);
}

#[test]
fn requests_that_could_be_read_in_two_ways_are_refused() {
    let server = TestServer::start();
    for head in [
        "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity, chunkedx\r\n\r\n0\r\n\r\n",
        "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET /v1/health\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes));
        let refused =
            bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 400") || bytes.starts_with(b"HTTP/1.1 401");
        assert!(refused, "{head:?}: {}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn an_answer_that_does_not_come_is_given_up() {
    let server = TestServer::with(|config| config.http.request_timeout = Duration::from_secs(3));
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}/stop", made["sandbox_id"].as_str().unwrap());
    let hold = server.isolation.hold(Port::Halt);
    let answer = server.call("POST", &path).send().expect(504);
    assert_eq!(answer.code(), "timed_out");
    drop(hold);
    server.call("GET", "/v1/sandboxes").send().expect(200);
}

#[test]
fn a_shutdown_finishes_requests_ends_streams_and_accepts_nothing_new() {
    let server = TestServer::start();
    let hold = server.isolation.hold(Port::Create);
    let mut slow = server.call("POST", "/v1/sandboxes").json(&json!({})).open();
    let mut stream = server.call("GET", "/v1/events").header("Accept", "text/event-stream").open();
    stream.read_exact(&mut [0; 12]).unwrap();
    eventually("a sandbox is being made", || server.isolation.held(Port::Create) > 0);
    server.begin_shutdown();
    assert!(until_closed(&mut stream) < SOON);
    eventually("no connection is accepted", || TcpStream::connect(server.address).is_err());
    drop(hold);
    let mut bytes = Vec::new();
    slow.read_to_end(&mut bytes).unwrap();
    Answer::parse(&bytes).expect(201);
}
