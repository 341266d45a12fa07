//! Clients and sandboxes that mean no good: checks 71 and 73 to 76.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use warren_e2e::{Output, TestEnv, TestServer, eventually, probe, read_answer, resident_bytes};

#[test]
fn check_71_a_revoked_key_loses_what_it_has_open() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let made = server.warren(["keys", "create", "tester", "--json"]).ok().json();
    let (key, key_id) = (made["key"].as_str().unwrap(), made["key_id"].as_str().unwrap());
    let with_key = |words: &[&str]| {
        let mut command = server.command(words);
        command.env("WARREN_API_KEY", key);
        command
    };
    let command = with_key(&["exec", &id, "--", "sleep", "600"]).spawn().unwrap();
    let events = with_key(&["events", "--follow"]).spawn().unwrap();
    let log = with_key(&["logs", &id, "1", "--follow"]);
    eventually(Duration::from_secs(60), "the command runs", || {
        server.client().processes(&id).unwrap().items.len() == 1
    });
    let mut log = log;
    let log = log.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let revoked = Instant::now();
    server.warren(["keys", "revoke", key_id]).ok();
    let refused = server.ask_with("GET", "/v1/sandboxes", &[("x-api-key", key)], None);
    assert_eq!((refused.status, refused.code().as_str()), (401, "unauthorized"));
    let command = Output::from(command.wait_with_output().unwrap()).ended(125);
    drop(events.wait_with_output().unwrap());
    drop(log.wait_with_output().unwrap());
    assert!(revoked.elapsed() < Duration::from_secs(30), "{:?}", revoked.elapsed());
    assert!(command.errors().contains("key"), "{}", command.errors());
    assert_eq!(server.shell(&id, "pgrep -c sleep"), "1", "the process is its sandbox's, not the key's");
    server.finish();
}

/// Everything a server writes, after it was told secrets in every way there is.
#[test]
fn check_73_secrets_are_in_no_log_event_or_metric() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).set("log.level", "debug").start();
    let secret = "hunter2-is-secret";
    let id = server.warren(["create", "--env", &format!("TOKEN={secret}")]).ok().line();
    let given = format!("SECOND={secret}");
    server.warren(["exec", &id, "--env", &given, "--", "sh", "-c", "test $TOKEN = $SECOND"]).ok();
    server.warren_fed(secret.as_bytes(), ["cp", "-", &format!("{id}:/tmp/file")]).ok();
    let key = server.warren(["keys", "create", "other"]).ok().line();
    let wrong = "f".repeat(40);
    assert_eq!(server.ask_with("GET", "/v1/stats", &[("x-api-key", &wrong)], None).status, 401);
    assert_eq!(server.ask("GET", &format!("/v1/stats?key={}", server.key()), None).status, 422);
    let written = [
        server.log(),
        server.warren(["events", "--json"]).ok().text(),
        server.warren(["ls", "--json"]).ok().text(),
        server.warren(["keys", "ls", "--json"]).ok().text(),
        String::from_utf8_lossy(&server.ask("GET", "/metrics", None).body).into_owned(),
    ];
    let hex = |key: &str| key.trim_start_matches("wrn_").to_owned();
    for (place, text) in written.iter().enumerate() {
        assert!(!text.is_empty(), "place {place} is empty");
        for word in [secret, &hex(&key), &hex(server.key()), &wrong] {
            assert!(!text.contains(word), "`{word}` is in place {place}:\n{text}");
        }
    }
    server.finish();
}

#[test]
fn check_74_a_sandbox_does_not_reach_the_server() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let addresses = Output::from(std::process::Command::new("hostname").arg("-I").output().unwrap()).line();
    let (_, port) = server.address().split_once(':').unwrap();
    let body = format!(
        "import socket\nfor host in '127.0.0.1 ::1 {addresses}'.split():\n try:\n  socket.create_connection((host, {port}), 2)\n  \
         print('reached', host)\n except OSError: pass\nprint('done')"
    );
    let words = [vec!["exec".to_owned(), id.clone(), "--".to_owned()], probe(&body)].concat();
    assert_eq!(server.warren(words).ok().line(), "done");
    server.finish();
}

#[test]
fn check_75_endless_bodies_are_cut_and_cost_no_memory() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    server.ask("GET", "/v1/health", None);
    let before = resident_bytes(server.pid());
    for head in ["transfer-encoding: chunked", "content-length: 10737418240"] {
        let mut stream = server.connect();
        let key = server.key();
        let head = format!(
            "POST /v1/sandboxes HTTP/1.1\r\nhost: warren\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n{head}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let taken = pour(&mut stream, head.contains("chunked"));
        assert!(taken < 64 << 20, "{taken} bytes were taken");
        let answer = read_answer(stream);
        assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
    }
    let grown = resident_bytes(server.pid()).saturating_sub(before);
    assert!(grown < 32 << 20, "it grew by {grown} bytes");
    server.finish();
}

/// Sends a body until nobody takes it any more, and answers how much was taken.
fn pour(stream: &mut TcpStream, chunked: bool) -> usize {
    stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a socket has timeouts");
    let piece = vec![b' '; 1 << 20];
    let mut taken = 0;
    while taken < 200 << 20 {
        let sent = if chunked {
            stream
                .write_all(b"100000\r\n")
                .and_then(|()| stream.write_all(&piece))
                .and_then(|()| stream.write_all(b"\r\n"))
        } else {
            stream.write_all(&piece)
        };
        if sent.is_err() {
            break;
        }
        taken += piece.len();
    }
    taken
}

#[test]
fn check_76_clients_that_say_nothing_are_cut_and_hold_up_nobody() {
    const SILENT: usize = 300;
    let env = TestEnv::new();
    let server =
        TestServer::setup(&env).set("http.header_timeout", "3s").set("http.idle_timeout", "3s").start();
    let mut silent: Vec<TcpStream> = (0..SILENT).map(|_| server.connect()).collect();
    let opened = Instant::now();
    silent.iter_mut().step_by(2).for_each(|stream| stream.write_all(b"GET /v1/hea").unwrap());
    let id = server.create();
    assert_eq!(server.shell(&id, "echo served"), "served");
    assert!(opened.elapsed() < Duration::from_secs(30), "{:?}", opened.elapsed());
    for stream in &mut silent {
        // A last word is fine; what counts is the end. A client that had sent half a word may find
        // it reset.
        let mut farewell = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let end = stream.read_to_end(&mut farewell);
        let is_end = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(end.as_ref().err().is_none_or(is_end), "{end:?}");
    }
    assert!(opened.elapsed() < Duration::from_secs(60), "{:?}", opened.elapsed());
    assert_eq!(server.ask("POST", "/v1/sandboxes", Some(&json!({"memory_mib": "much"}))).status, 422);
    server.finish();
}
