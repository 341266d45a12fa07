use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::frame::{
    Frame,
    coding::{Data, OpCode},
};
use tungstenite::{Message, WebSocket};
use warren_core::Scope;

use crate::support::{PATIENCE, SOON, TestServer};

type Socket = WebSocket<TcpStream>;

/// A server with one sandbox, and the sandbox's path.
fn sandbox() -> (TestServer, String) {
    let server = TestServer::start();
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}", made["sandbox_id"].as_str().unwrap());
    (server, path)
}

fn handshake(server: &TestServer, path: &str, key: &str) -> Result<Socket, u16> {
    let mut request = format!("ws://{}{path}/stream", server.address).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request.headers_mut().insert("sec-websocket-protocol", "warren.v1".parse().unwrap());
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    match tungstenite::client(request, stream) {
        Ok((socket, response)) => {
            assert_eq!(response.headers()["sec-websocket-protocol"], "warren.v1");
            Ok(socket)
        }
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
            Err(response.status().as_u16())
        }
        Err(error) => panic!("{error}"),
    }
}

fn open(server: &TestServer, path: &str, opening: &Value) -> Socket {
    let mut socket = handshake(server, path, &server.admin).unwrap();
    socket.send(Message::text(opening.to_string())).unwrap();
    socket
}

/// The next message that is not about keeping the connection.
fn next(socket: &mut Socket) -> Message {
    loop {
        match socket.read().unwrap() {
            Message::Ping(_) | Message::Pong(_) => {}
            message => return message,
        }
    }
}

fn notice(socket: &mut Socket) -> Value {
    match next(socket) {
        Message::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("no notice but {other:?}"),
    }
}

fn closed_with(socket: &mut Socket) -> CloseCode {
    loop {
        if let Message::Close(frame) = next(socket) {
            return frame.expect("a reason").code;
        }
    }
}

#[test]
fn a_process_is_started_fed_and_followed() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["cat"]}}));
    let started = notice(&mut socket);
    assert_eq!((&started["type"], &started["position"]), (&json!("started"), &json!(0)));
    socket.send(Message::binary(&b"\xff\x00hello"[..])).unwrap();
    assert_eq!(next(&mut socket), Message::binary(&b"\x01\xff\x00hello"[..]));
    socket.send(Message::text(r#"{"type": "stdin_close"}"#)).unwrap();
    let exited = notice(&mut socket);
    assert_eq!((&exited["type"], &exited["exit_code"]), (&json!("exited"), &json!(0)));
    assert_eq!(closed_with(&mut socket), CloseCode::Normal);
}

#[test]
fn errors_are_told_apart_from_output() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["fail"]}}));
    notice(&mut socket);
    assert_eq!(next(&mut socket), Message::binary(&b"\x02failed\n"[..]));
    assert_eq!(notice(&mut socket)["exit_code"], 3);
}

#[test]
fn a_client_that_lost_its_connection_comes_back_where_it_was() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["cat"], "tag": "talk"}}));
    let process = notice(&mut socket)["process_id"].clone();
    socket.send(Message::binary(&b"before"[..])).unwrap();
    next(&mut socket);
    drop(socket);
    let mut socket = open(&server, &path, &json!({"attach": {"process": process.to_string(), "from": 3}}));
    assert_eq!(notice(&mut socket)["position"], 3);
    assert_eq!(next(&mut socket), Message::binary(&b"\x01ore"[..]));
    socket.send(Message::binary(&b"after"[..])).unwrap();
    assert_eq!(next(&mut socket), Message::binary(&b"\x01after"[..]));
    let mut third = open(&server, &path, &json!({"attach": {"process": "tag:talk", "from": 6}}));
    notice(&mut third);
    assert_eq!(next(&mut third), Message::binary(&b"\x01after"[..]));
}

#[test]
fn signals_reach_the_process() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["sleep", "60"]}}));
    notice(&mut socket);
    socket.send(Message::text(r#"{"type": "signal", "signal": "INT"}"#)).unwrap();
    let exited = notice(&mut socket);
    assert_eq!((&exited["cause"], &exited["signal"]), (&json!("signalled"), &json!(2)));
}

#[test]
fn who_may_not_is_refused_before_the_upgrade() {
    let (server, path) = sandbox();
    let status = |key: &str| handshake(&server, &path, key).unwrap_err();
    assert_eq!(status(&"0".repeat(40)), 401);
    assert_eq!(status(&server.key("other", Scope::Admin)), 404);
    assert_eq!(status(&server.key("default", Scope::Read)), 403);
    let plain = server.call("GET", &format!("{path}/stream")).send().expect(400);
    assert_eq!(plain.code(), "invalid_request");
}

#[test]
fn an_opening_that_cannot_be_used_is_told_and_closed() {
    let (server, path) = sandbox();
    for (opening, code) in [
        ("nonsense", "invalid_request"),
        ("{}", "invalid_request"),
        (r#"{"start": {"command": []}}"#, "invalid_value"),
        (r#"{"start": {"comand": "true"}}"#, "invalid_request"),
        (r#"{"attach": {"process": "7"}}"#, "process_not_found"),
        (r#"{"attach": {"process": "x y"}}"#, "process_not_found"),
    ] {
        let mut socket = handshake(&server, &path, &server.admin).unwrap();
        socket.send(Message::text(opening)).unwrap();
        let told = notice(&mut socket);
        assert_eq!((&told["type"], &told["code"]), (&json!("error"), &json!(code)), "{opening}");
        assert_eq!(closed_with(&mut socket), CloseCode::Policy, "{opening}");
    }
    let mut socket = handshake(&server, &path, &server.admin).unwrap();
    socket.send(Message::binary(&b"x"[..])).unwrap();
    assert_eq!(closed_with(&mut socket), CloseCode::Policy);
}

#[test]
fn messages_against_the_protocol_close_with_the_right_code() {
    let (server, path) = sandbox();
    let begun = || {
        let mut socket = open(&server, &path, &json!({"start": {"command": ["sleep", "60"]}}));
        notice(&mut socket);
        socket
    };
    let mut socket = begun();
    socket.send(Message::binary(vec![0; (1 << 20) + 1])).ok();
    assert_eq!(closed_with(&mut socket), CloseCode::Size);

    let mut socket = begun();
    let text = Frame::message(&b"\xff\xfe"[..], OpCode::Data(Data::Text), true);
    socket.send(Message::Frame(text)).unwrap();
    assert_eq!(closed_with(&mut socket), CloseCode::Invalid);

    let mut socket = begun();
    let reserved = Frame::message(&b"x"[..], OpCode::Data(Data::Continue), true);
    socket.send(Message::Frame(reserved)).unwrap();
    assert_eq!(closed_with(&mut socket), CloseCode::Protocol);

    let mut socket = begun();
    socket.send(Message::text(r#"{"type": "dance"}"#)).unwrap();
    assert_eq!(notice(&mut socket)["code"], "invalid_request");
    assert_eq!(closed_with(&mut socket), CloseCode::Policy);
}

#[test]
fn endless_fragments_are_cut_off() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["sleep", "60"]}}));
    notice(&mut socket);
    let piece = vec![0; 200_000];
    for number in 0..20 {
        let kind = if number == 0 { Data::Binary } else { Data::Continue };
        if socket.send(Message::Frame(Frame::message(piece.clone(), OpCode::Data(kind), false))).is_err() {
            break;
        }
    }
    assert_eq!(closed_with(&mut socket), CloseCode::Size);
}

#[test]
fn a_process_that_reads_nothing_can_still_be_signalled() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["sleep", "60"]}}));
    notice(&mut socket);
    for _ in 0..3 {
        socket.send(Message::binary(vec![0; 500_000])).unwrap();
    }
    socket.send(Message::text(r#"{"type": "signal", "signal": 15}"#)).unwrap();
    assert_eq!(notice(&mut socket)["signal"], 15);
}

#[test]
fn a_sandbox_that_ends_is_told() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["sleep", "60"]}}));
    notice(&mut socket);
    server.call("DELETE", &path).send().expect(200);
    assert_eq!(notice(&mut socket)["code"], "sandbox_ended");
    closed_with(&mut socket);
}

#[test]
fn a_server_that_ends_says_good_bye() {
    let (server, path) = sandbox();
    let mut socket = open(&server, &path, &json!({"start": {"command": ["sleep", "60"]}}));
    notice(&mut socket);
    let began = Instant::now();
    server.begin_shutdown();
    assert_eq!(closed_with(&mut socket), CloseCode::Away);
    assert!(began.elapsed() < SOON);
}
