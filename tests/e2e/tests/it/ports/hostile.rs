use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, TestServer, resident_bytes};

use super::{ask, echo, host, key, start, told, web_socket};

/// The cost of this many idle web sockets is bounded.
const IDLE: usize = 500;
const MOST_BYTES: u64 = 20 << 20;

#[test]
fn check_63_nothing_of_ours_listens_where_the_proxy_leads() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let listening = "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\"' | wc -l";
    assert_eq!(server.shell(&id, listening), "0", "the agent has no port");
    for port in [1, 22, 80, 7777, 65535] {
        let answer = ask(&server, &id, port, "/latest/meta-data/", &key(&server));
        assert_eq!(answer.status, 502, "{port}");
    }
    // The server answers this one itself, and asks for the sandbox's own token.
    assert_eq!(ask(&server, &id, 49983, "/files?path=/etc/passwd", &key(&server)).status, 401);
    // The server's own port on the host is not the sandbox's.
    let own = server.address().rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(ask(&server, &id, own, "/v1/health", &key(&server)).status, 502);
    server.finish();
}

#[test]
fn check_68_a_token_is_for_its_sandbox_and_its_port() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let (first, second) = (server.create(), server.create());
    start(&server, &first, "first", 8000);
    start(&server, &second, "second", 8000);
    start(&server, &first, "other", 8001);
    let shown = server.warren(["port", &first, "8000", "--json"]).ok().json();
    let token = format!("warren-traffic-token: {}\r\n", shown["token"].as_str().unwrap());
    assert_eq!(told(&ask(&server, &first, 8000, "/", &token))["name"], "first");
    for (id, port) in [(&second, 8000), (&first, 8001)] {
        assert_eq!(ask(&server, id, port, "/", &token).status, 403);
    }
    server.warren(["rm", &first]).ok();
    assert_eq!(ask(&server, &first, 8000, "/", &token).status, 502, "it is gone");
    server.finish();
}

#[test]
fn checks_69_and_70_a_link_is_whole_and_nothing_wrong_stands_beside_it() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    start(&server, &id, "one", 8000);
    let link = server.warren(["port", &id, "8000", "--link", "1h", "--path", "/app"]).ok().line();
    let place = format!("http://{}", host(&server, &id, 8000));
    let path = link.strip_prefix(&place).unwrap().to_owned();
    assert_eq!(told(&ask(&server, &id, 8000, &path, ""))["line"], "GET /app HTTP/1.1");
    let (before, text) = path.split_once('=').unwrap();
    for at in (0..text.len()).step_by(7) {
        let mut wrong = text.to_owned().into_bytes();
        wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
        let wrong = format!("{before}={}", String::from_utf8(wrong).unwrap());
        assert_eq!(ask(&server, &id, 8000, &wrong, "").status, 401, "{wrong}");
    }
    assert_eq!(ask(&server, &id, 8000, &path.replace("/app?", "/?"), "").status, 401, "another path");
    let wrong = format!("authorization: Bearer wrn_{}\r\n", "0".repeat(40));
    assert_eq!(ask(&server, &id, 8000, &path, &wrong).status, 401, "a wrong key beside it");
    let short = server.warren(["port", &id, "8000", "--link", "1s"]).ok().line();
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(
        ask(&server, &id, 8000, short.strip_prefix(&place).unwrap(), "").status,
        401,
        "its time is over"
    );
    server.finish();
}

#[test]
fn checks_78_to_80_one_source_leads_to_one_port() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    start(&server, &id, "one", 8000);
    let (own, key) = (host(&server, &id, 8000), key(&server));
    let status = |host: &str, rest: &str| {
        let mut stream = server.connect();
        write!(stream, "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{key}{rest}\r\n").unwrap();
        warren_e2e::read_answer(stream).status
    };
    assert_eq!(status(&own, ""), 200);
    assert_eq!(status(&own.to_uppercase(), ""), 200);
    for (host, rest) in [
        (own.clone(), "host: localhost\r\n"),
        (own.clone(), "content-length: 0\r\ncontent-length: 1\r\n"),
        (own.clone(), "warren-sandbox-id: sbxaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nwarren-sandbox-port: 8000\r\n"),
        (own.replace("8000-", "0-"), ""),
        (own.replace("8000-", "65536-"), ""),
        (own.replace("8000-", "80@x-"), ""),
        (format!("{own}@127.0.0.1:80"), ""),
        (format!("x.{own}"), ""),
    ] {
        assert_eq!(status(&host, rest), 400, "{host} {rest}");
    }
    for rest in [format!("x-forwarded-host: {own}\r\n"), format!("x-original-url: http://{own}/\r\n")] {
        assert_eq!(status("localhost", &rest), 404, "the API answers");
    }
    server.finish();
}

#[test]
fn check_82_no_connection_is_used_for_another_sandbox() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let (first, second) = (server.create(), server.create());
    start(&server, &first, "first", 8000);
    start(&server, &second, "second", 8000);
    // On one connection of the client's, in turns.
    let mut stream = server.connect();
    let key = key(&server);
    let mut ask_on = |id: &str| {
        let host = host(&server, id, 8000);
        write!(stream, "GET / HTTP/1.1\r\nhost: {host}\r\n{key}\r\n").unwrap();
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        while !seen.ends_with(b"}") {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..count]);
        }
        String::from_utf8(seen).unwrap()
    };
    for _ in 0..5 {
        assert!(ask_on(&first).contains("\"name\": \"first\""));
        assert!(ask_on(&second).contains("\"name\": \"second\""));
    }
    server.warren(["stop", &first]).ok();
    assert!(ask_on(&first).contains("was not found"));
    server.warren(["resume", &first]).ok();
    start(&server, &first, "reborn", 8000);
    assert!(ask_on(&first).contains("\"name\": \"reborn\""));
    assert!(ask_on(&second).contains("\"name\": \"second\""));
    server.finish();
}

#[test]
fn who_speaks_slowly_is_cut_and_in_nobodys_way() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).set("http.header_timeout", "2s").start();
    let id = server.create();
    start(&server, &id, "one", 8000);
    let own = host(&server, &id, 8000);
    let mut slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = server.connect();
            write!(stream, "GET / HTTP/1.1\r\nhost: {own}\r\nx-slow: ").unwrap();
            stream
        })
        .collect();
    let began = Instant::now();
    assert_eq!(ask(&server, &id, 8000, "/", &key(&server)).status, 200);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    while began.elapsed() < Duration::from_secs(4) {
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b"x")));
        std::thread::sleep(Duration::from_millis(250));
    }
    for stream in &mut slow {
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
        assert!(!String::from_utf8_lossy(&rest).starts_with("HTTP/1.1 2"));
    }
    server.finish();
}

#[test]
fn idle_web_sockets_cost_little() {
    let env = TestEnv::alone();
    let server = TestServer::start(&env);
    let id = server.create();
    start(&server, &id, "one", 8000);
    for _ in 0..20 {
        echo(&mut web_socket(&server, &id, 8000, &key(&server)), "warm");
    }
    let before = resident_bytes(server.pid());
    let mut open: Vec<TcpStream> = (0..IDLE).map(|_| web_socket(&server, &id, 8000, &key(&server))).collect();
    open.iter_mut().for_each(|stream| echo(stream, "a message before the silence"));
    let after = resident_bytes(server.pid());
    assert!(
        after.saturating_sub(before) <= MOST_BYTES,
        "{before} bytes before and {after} after {IDLE} web sockets"
    );
    open.iter_mut().for_each(|stream| echo(stream, "and one after it"));
    drop(open);
    server.finish();
}
