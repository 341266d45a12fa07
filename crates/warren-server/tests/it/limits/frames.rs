//! HTTP/2, spoken by hand: a polite client cannot be rude.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::resident_kib;
use crate::support::TestServer;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// `GET / http` with an authority of one letter, in the static table's numbers.
const REQUEST: [u8; 6] = [0x82, 0x86, 0x84, 0x41, 0x01, b'x'];

fn open(server: &TestServer) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// Reads frames until one of this kind comes; `None` if the connection ends before.
fn next(stream: &mut TcpStream, wanted: u8) -> Option<Vec<u8>> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let length = usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]])).unwrap();
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).ok()?;
        if head[3] == wanted {
            return Some(payload);
        }
    }
}

#[test]
fn http2_is_served_without_being_announced() {
    let server = TestServer::start();
    let mut stream = open(&server);
    stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &REQUEST)).unwrap();
    assert!(next(&mut stream, HEADERS).is_some());
}

#[test]
fn requests_that_are_reset_as_fast_as_they_come_end_the_connection() {
    let server = TestServer::start();
    let before = resident_kib();
    let mut stream = open(&server);
    let began = Instant::now();
    let mut sent: u32 = 0;
    while sent < 200_000 && began.elapsed() < Duration::from_secs(10) {
        let id = 2 * sent + 1;
        let request = frame(HEADERS, END_STREAM | END_HEADERS, id, &REQUEST);
        let reset = frame(RST_STREAM, 0, id, &8u32.to_be_bytes());
        if stream.write_all(&[request, reset].concat()).is_err() {
            break;
        }
        sent += 1;
    }
    let ended = next(&mut stream, GOAWAY).is_some() || stream.read(&mut [0; 1]).is_ok_and(|count| count == 0);
    assert!(ended || sent < 200_000, "{sent} resets were put up with");
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more after {sent} resets");
    server.call("GET", "/v1/sandboxes").send().expect(200);
}

#[test]
fn headers_without_end_are_refused() {
    let server = TestServer::start();
    let before = resident_kib();
    let mut stream = open(&server);
    stream.write_all(&frame(HEADERS, END_STREAM, 1, &REQUEST)).unwrap();
    // One header, `a: xxxx…`, never indexed, again and again.
    let field = [&[0x00, 0x01, b'a', 0x7f, 0x81, 0x1e][..], &[b'x'; 4000]].concat();
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&frame(CONTINUATION, 0, 1, &field)).is_ok() {
        sent += field.len();
    }
    assert!(sent < 64 << 20, "{sent} bytes of headers were taken");
    assert!(resident_kib().saturating_sub(before) < 32 << 10);
    server.call("GET", "/v1/sandboxes").send().expect(200);
}
