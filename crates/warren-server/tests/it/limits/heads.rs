//! Heads that somebody else could read in another way than this server.

use std::io::{Read as _, Write as _};

use serde_json::json;

use crate::support::{TestServer, until_closed};

/// All that is answered until the server closes, which it must.
fn told(server: &TestServer, bytes: &[u8]) -> String {
    let mut stream = server.connect();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A server that has said all it wants may reset what it did not read.
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_head_that_is_not_exactly_one_is_refused_and_the_connection_closed() {
    let server = TestServer::start();
    for request in [
        "GET /v1/health HTTP/1.1\nHost: x\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost: x\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost: x\r\n\n",
        "\nGET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost:\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        "GET http://y/v1/health HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost: x\r\nX: \0\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n",
        "POST /v1/health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /v1/health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST /v1/health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST /v1/health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        // What follows would be answered if the connection were still of use.
        let answer = told(&server, format!("{request}GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{request:?}: {answer}");
        assert!(!answer.contains("HTTP/1.1 200"), "{request:?}: {answer}");
    }
}

#[test]
fn a_request_that_hides_behind_another_is_found_too() {
    let server = TestServer::start();
    let key = format!("Authorization: Bearer {}", server.admin);
    let first =
        format!("POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\n{key}\r\nContent-Type: application/json\r\n");
    for (first, body) in [
        (format!("{first}Content-Length: 2\r\n\r\n"), "{}"),
        (format!("{first}Transfer-Encoding: chunked\r\n\r\n"), "2\r\n{}\r\n0\r\n\r\n"),
    ] {
        let answer = told(&server, format!("{first}{body}GET / HTTP/1.1\nHost: x\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        assert!(answer.contains("HTTP/1.1 400"), "{answer}");
    }
}

#[test]
fn chunks_with_extensions_or_other_ends_break_the_request_off() {
    let server = TestServer::start();
    let head = format!(
        "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        server.admin
    );
    for chunks in [
        "2;a=b\r\n{}\r\n0\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2\r\n{}\n0\r\n\r\n",
        "2\r\n{}\r\n0\r\nX: y\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
    ] {
        let answer = told(&server, format!("{head}{chunks}").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{chunks:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{chunks:?}: {answer}");
    }
}

#[test]
fn http2_without_an_authority_is_refused() {
    let server = TestServer::start();
    // GET, http, /: and nothing that names a host.
    let headers = [&[0, 0, 3, 1, 5, 0, 0, 0, 1][..], &[0x82, 0x86, 0x84]].concat();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut stream = server.connect();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&[&settings[..], &headers].concat()).unwrap();
    let mut seen = Vec::new();
    // `:status: 400` is number 12 of the static table.
    while !seen.windows(10).any(|window| window[3] == 1 && window[9] == 0x8c) {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "no answer: {seen:?}");
        seen.extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn what_is_right_is_served_in_whatever_pieces_it_comes() {
    let server = TestServer::start();
    let body = format!("\n\r\n{}\n", json!({"labels": {"a": "b"}}));
    let request = format!(
        "\r\nPOST /v1/sandboxes HTTP/1.1\r\nhost: {}\r\nauthorization:\tBearer {} \r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n{:x}\r\n{body}\r\n0\r\nX-Trailer: 1\r\n\r\n",
        server.address,
        server.admin,
        body.len()
    );
    let mut stream = server.connect();
    for piece in request.as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
    let mut old = server.connect();
    old.write_all(b"GET /v1/health HTTP/1.0\r\n\r\n").unwrap();
    let mut first = [0; 12];
    old.read_exact(&mut first).unwrap();
    assert_eq!(&first[9..], b"200");
    until_closed(&mut old);
}
