//! The network, on an Internet that the tests make of namespaces. Numbers are those of the list of
//! adversarial checks.

mod changes;
mod crash;
mod denials;
mod lateral;
mod many;
mod modes;
mod names;
mod secrets;
mod tools;
mod walls;
mod world;

use serde_json::Value;
use warren_e2e::{Internet, TestServer};

/// Tries to reach somebody and says what came of it: `open`, `closed` with the reason, or
/// `silence`. Nothing is waited for longer than three seconds, and a server that is silent for so
/// long has failed a test that wants a refusal at once.
const REACH: &str = r#"
import socket, ssl, sys, time
kind, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
began = time.monotonic()
def said(word):
    print(word, int((time.monotonic() - began) * 1000))
    sys.exit(0)
try:
    if kind == "udp":
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(3)
        s.connect((host, port)); s.send(b"hello"); s.recv(100); said("open")
    if kind == "ping":
        family, proto, echo = (socket.AF_INET6, 58, 128) if ":" in host else (socket.AF_INET, 1, 8)
        s = socket.socket(family, socket.SOCK_DGRAM, proto); s.settimeout(3)
        s.connect((host, 0)); s.send(bytes([echo, 0, 0, 0, 0, 1, 0, 1]) + b"hello"); s.recv(100); said("open")
    s = socket.create_connection((host, port), timeout=3)
    if kind == "banner":
        said("open" if s.recv(100).startswith(b"220") else "closed")
    if kind == "tls":
        context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
        name = sys.argv[4] if len(sys.argv) > 4 else host
        s = context.wrap_socket(s, server_hostname=name or None)
        s.send(b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (name or host).encode())
    else:
        name = sys.argv[4] if len(sys.argv) > 4 else host
        s.send(b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % name.encode())
    answer = s.recv(100)
    said("open" if b" 200 " in answer else "denied" if b" 403 " in answer else "closed")
except (socket.timeout, TimeoutError):
    said("silence")
except Exception as error:
    said("closed")
"#;

/// The result, and after how many milliseconds it came.
#[track_caller]
fn reach(server: &TestServer<'_>, id: &str, what: &[&str]) -> (String, u64) {
    let mut words = vec!["exec", id, "--", "python3", "-c", REACH];
    words.extend(what);
    if what.len() == 2 {
        words.push("0");
    }
    let line = server.warren(words).ok().line();
    let (word, took) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
    (word.to_owned(), took.parse().expect("a number of milliseconds"))
}

#[track_caller]
pub(crate) fn assert_open(server: &TestServer<'_>, id: &str, what: &[&str]) {
    let (word, took) = reach(server, id, what);
    assert_eq!(word, "open", "{what:?} after {took} ms\n{}", server.log());
}

/// It is refused, and at once.
#[track_caller]
fn assert_closed(server: &TestServer<'_>, id: &str, what: &[&str]) {
    // A busy machine may hold up one of them.
    let at_once = (0..5).any(|_| {
        let (word, took) = reach(server, id, what);
        assert!(word == "closed" || word == "denied", "{what:?}: {word} after {took} ms");
        took < 1500
    });
    assert!(at_once, "{what:?} is refused, and each time too late");
}

/// Nobody answers, whether with a refusal or not at all: what is sent to many is refused without a
/// word.
#[track_caller]
fn assert_unheard(server: &TestServer<'_>, id: &str, what: &[&str]) {
    let (word, took) = reach(server, id, what);
    assert_ne!(word, "open", "{what:?} after {took} ms");
}

/// A server on the machine of this Internet.
pub(crate) fn serve<'env>(env: &'env warren_e2e::TestEnv, internet: &'env Internet) -> TestServer<'env> {
    TestServer::setup(env).inside(internet).set("network.default", "public").start()
}

/// As [`serve`], with one backend alone.
fn serve_behind<'env>(
    env: &'env warren_e2e::TestEnv,
    internet: &'env Internet,
    wall: &str,
) -> TestServer<'env> {
    let setup = TestServer::setup(env).inside(internet).set("network.default", "public");
    setup.set("backends.enabled", &format!("[{wall}]")).start()
}

#[track_caller]
pub(crate) fn create(server: &TestServer<'_>, flags: &[&str]) -> String {
    let words: Vec<&str> = std::iter::once("create").chain(flags.iter().copied()).collect();
    server.warren(words).ok().line()
}

#[track_caller]
fn json(server: &TestServer<'_>, words: &[&str]) -> Value {
    let text = server.warren(words).ok().text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
}

/// Ends a server, and insists that nothing is left of its links and rules.
#[track_caller]
pub(crate) fn finish(server: TestServer<'_>, internet: &Internet) {
    server.finish();
    internet.assert_clean();
}
