//! Many connections of somebody who means no good, all of them from the client's own address, which
//! is the worst case.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use warren_server::config::Config;

use crate::support::{Answer, PATIENCE, SOON, TestServer, until_closed};

/// So long that nothing but room made for others can close a connection.
fn patient(config: &mut Config) {
    config.http.header_timeout = Duration::from_secs(600);
    config.http.idle_timeout = Duration::from_secs(600);
}

/// Both ends of each connection are this process's.
fn allow_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// How long somebody with a key and somebody without wait for their answers, each on a new
/// connection.
fn waited(server: &TestServer) -> Duration {
    let began = Instant::now();
    server.call("GET", "/v1/sandboxes").send().expect(200);
    let keyed = began.elapsed();
    let began = Instant::now();
    server.stranger("GET", "/v1/health").send().expect(200);
    keyed.max(began.elapsed())
}

/// Opens so many connections, says something on each, and asks in between whether others are
/// served.
fn crowd(server: &TestServer, count: usize, say: impl Fn(&mut TcpStream)) -> (Vec<TcpStream>, Duration) {
    let (mut open, mut longest) = (Vec::new(), Duration::ZERO);
    for number in 0..count {
        let mut stream = server.connect();
        say(&mut stream);
        open.push(stream);
        if number % 50 == 49 {
            longest = longest.max(waited(server));
        }
    }
    (open, longest)
}

#[test]
fn over_a_thousand_connections_without_a_key_keep_nobody_out() {
    allow_descriptors();
    let server = TestServer::with(patient);
    let keep_alive =
        format!("GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", server.admin);
    let mut kept = server.connect();
    kept.write_all(keep_alive.as_bytes()).unwrap();
    assert!(kept.read(&mut [0; 4096]).unwrap() > 0);

    let (silent, first) = crowd(&server, 1200, |_| {});
    let (halves, second) = crowd(&server, 600, |stream| {
        drop(stream.write_all(b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX: "));
    });
    let (resting, third) = crowd(&server, 600, |stream| {
        // It may be one that was closed meanwhile.
        drop(stream.write_all(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"));
        drop(stream.read(&mut [0; 4096]));
    });
    let (slow, fourth) = crowd(&server, 300, |stream| drop(stream.write_all(b"G")));
    for round in 1..4 {
        for mut stream in &slow {
            drop(stream.write_all(&b"GET /"[round..=round]));
        }
        assert!(waited(&server) < SOON);
    }
    let longest = [first, second, third, fourth].into_iter().max().unwrap();
    println!("the longest anybody waited: {longest:?}");
    assert!(longest < SOON, "{longest:?}");

    kept.write_all(keep_alive.as_bytes()).unwrap();
    let mut answer = [0; 12];
    kept.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[9..], b"200", "who has shown a key keeps the connection");
    drop((silent, halves, resting, slow));
}

#[test]
fn answers_that_nobody_takes_keep_nobody_out() {
    allow_descriptors();
    let server = TestServer::with(patient);
    // The document is longer than what fits on the way, so each of these is under way until it is
    // cut.
    let (greedy, longest) = crowd(&server, 600, |stream| {
        let ask = b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
        drop(stream.write_all(&ask));
    });
    assert!(longest < SOON, "{longest:?}");
    drop(greedy);
}

#[test]
fn a_connection_too_many_takes_the_place_of_one_that_says_nothing() {
    let server = TestServer::with(|config| {
        patient(config);
        config.http.max_connections = 4;
        config.http.max_connections_per_address = 2;
    });
    let mut oldest = server.connect();
    let mut next = server.connect();
    let mut third = server.call("GET", "/v1/sandboxes").open();
    let mut bytes = Vec::new();
    third.read_to_end(&mut bytes).unwrap();
    Answer::parse(&bytes).expect(200);
    assert!(until_closed(&mut oldest) < PATIENCE);
    next.set_nonblocking(true).unwrap();
    assert_eq!(next.read(&mut [0; 1]).map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
}
