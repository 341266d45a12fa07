use std::io::{Read as _, Write as _};

use warren_core::Scope;
use warren_wire::client::{Client, ClientError};

use super::Site;
use crate::support::until_closed;

fn client(site: &Site, key: &str) -> Client {
    Client::new(&format!("http://{}", site.server.address), key).unwrap()
}

#[test]
fn a_tunnel_is_the_port_byte_for_byte() {
    let site = Site::start();
    let mut stream =
        client(&site, &site.server.admin).connect_port(&site.sandbox, site.application.port).unwrap();
    stream.write_all(b"GET /once HTTP/1.1\r\n\r\n").unwrap();
    stream.end().unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nConnection: close") && answer.ends_with("once"),
        "{answer}"
    );
}

#[test]
fn a_tunnel_needs_a_key_that_may_and_somebody_who_listens() {
    let site = Site::start();
    let port = site.application.port;
    let code = |key: &str, sandbox: &str, port| match client(&site, key).connect_port(sandbox, port) {
        Err(ClientError::Refused(problem)) => problem.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(&site.server.key("default", Scope::Read), &site.sandbox, port), "forbidden");
    assert_eq!(code(&site.server.key("other", Scope::Use), &site.sandbox, port), "sandbox_not_found");
    assert_eq!(code("", &site.sandbox, port), "unauthorized");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(code(&site.server.admin, &site.sandbox, free), "port_closed");
    let plain = site.server.call("GET", &site.path("/connect")).send().expect(400);
    assert_eq!(plain.code(), "invalid_request");
}

#[test]
fn a_tunnel_ends_with_its_sandbox() {
    let site = Site::start();
    let mut stream =
        client(&site, &site.server.admin).connect_port(&site.sandbox, site.application.port).unwrap();
    site.server.call("DELETE", &format!("/v1/sandboxes/{}", site.sandbox)).send().expect(200);
    until_closed(&mut stream);
}
