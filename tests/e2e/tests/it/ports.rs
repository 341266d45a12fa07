//! Ports of real sandboxes, through a real server: what a browser, a script and somebody who means
//! harm would do.

mod hostile;
mod reaching;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use warren_e2e::{Answer, TestServer, eventually, read_answer};

const APPLICATION: &str = include_str!("../../probes/application.py");

/// Starts the application in a sandbox, and waits until it answers.
#[track_caller]
fn start(server: &TestServer<'_>, id: &str, name: &str, port: u16) {
    let port_text = port.to_string();
    let words = ["exec", id, "--detach", "--", "python3", "-c", APPLICATION, name, &port_text];
    server.warren(words).ok();
    eventually(Duration::from_secs(60), "the application listens", || {
        ask(server, id, port, "/", &key(server)).status == 200
    });
}

fn host(server: &TestServer<'_>, id: &str, port: u16) -> String {
    let own = server.address().rsplit(':').next().expect("an address has a port");
    format!("{port}-{id}.localhost:{own}")
}

fn key(server: &TestServer<'_>) -> String {
    format!("x-api-key: {}\r\n", server.key())
}

/// A request to a port by its name, with these header lines.
fn ask(server: &TestServer<'_>, id: &str, port: u16, path: &str, headers: &str) -> Answer {
    let mut stream = server.connect();
    let host = host(server, id, port);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n")
        .expect("the request is taken");
    read_answer(stream)
}

fn told(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// A web socket to a port.
fn web_socket(server: &TestServer<'_>, id: &str, port: u16, headers: &str) -> TcpStream {
    let mut stream = server.connect();
    let host = host(server, id, port);
    write!(
        stream,
        "GET /ws HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
    .expect("the request is taken");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream
            .read_exact(&mut byte)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&head)));
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head is text");
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    stream
}

/// Sends a text of less than 126 bytes, and insists that it comes back.
#[track_caller]
fn echo(stream: &mut TcpStream, text: &str) {
    let mask = [7, 11, 13, 17];
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).expect("the text is short")];
    frame.extend(mask);
    frame.extend(text.bytes().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    stream.write_all(&frame).expect("it is taken");
    let mut back = vec![0; 2 + text.len()];
    stream.read_exact(&mut back).expect("it comes back");
    assert_eq!(&back[2..], text.as_bytes());
}
