use std::io::{Read as _, Write as _};

use super::{Site, expect_told};
use crate::support::Answer;

/// Sends these very bytes.
fn raw(site: &Site, bytes: &str) -> Vec<u8> {
    let mut stream = site.server.connect();
    drop(stream.write_all(bytes.as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    answer
}

#[test]
fn a_request_has_one_host_and_one_length() {
    let site = Site::start();
    site.make_public();
    let host = site.host();
    for (headers, body) in [
        (format!("Host: {host}\r\nHost: localhost\r\n"), ""),
        (format!("Host: {host}\r\nContent-Length: 1\r\nContent-Length: 2\r\n"), "ab"),
        (format!("Host: {host}\r\nTransfer-Encoding: identity, chunked, x\r\n"), ""),
        (format!("Host : {host}\r\n"), ""),
    ] {
        let answer = raw(&site, &format!("POST / HTTP/1.1\r\n{headers}Connection: close\r\n\r\n{body}"));
        assert_eq!(Answer::parse(&answer).status, 400, "{headers}");
    }
    let absolute =
        raw(&site, &format!("GET http://{host}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    assert_eq!(Answer::parse(&absolute).status, 400);
    assert_eq!(site.application.requests(), 0);
}

#[test]
fn no_second_request_hides_in_a_body() {
    let site = Site::start();
    site.make_public();
    let host = site.host();
    let hidden = format!("0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let both = format!(
        "POST /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{hidden}",
        hidden.len()
    );
    assert!(raw(&site, &both).starts_with(b"HTTP/1.1 400"));
    let bare = format!("POST /echo HTTP/1.1\nHost: {host}\nContent-Length: 1\nConnection: close\n\nx");
    assert!(raw(&site, &bare).starts_with(b"HTTP/1.1 400"));
    assert_eq!(site.application.requests(), 0);
}

#[test]
fn routing_has_one_source() {
    let site = Site::start();
    site.make_public();
    let host = site.host();
    for header in ["X-Forwarded-Host", "X-Original-URL", "X-Rewrite-URL", "Forwarded", "X-Host"] {
        // The API answers: no other header leads to a port.
        let answer = site.server.stranger("GET", "/nothing").header(header, &host).send();
        assert_eq!(answer.code(), "route_not_found");
        site.stranger("GET", "/").header(header, "evil.example").send().expect(200);
        let seen = site.application.last().headers;
        assert!(seen.values().all(|value| !value.contains("evil")) || header == "X-Host", "{seen:?}");
    }
    let disagreeing = site.stranger("GET", "/").header("Warren-Sandbox-Id", &site.sandbox);
    expect_told(&disagreeing.header("Warren-Sandbox-Port", "1").send(), 400, "different ports");
}

#[test]
fn hosts_that_only_look_like_a_port_lead_nowhere() {
    let site = Site::start();
    let (id, key) = (&site.sandbox, &site.server.admin);
    for host in [
        format!("0-{id}.localhost"),
        format!("65536-{id}.localhost"),
        format!("80@x-{id}.localhost"),
        format!("{}.{}", site.host(), "localhost"),
        format!("80-{id}.80-{id}.localhost"),
        format!("80-{id}0.localhost"),
        format!("80-{}.localhost", "a".repeat(60)),
        format!("80-{id}.localhost:80@evil.example"),
    ] {
        let answer = site.server.visitor("GET", "/", &host).key(key).pass();
        assert!(matches!(answer.status, 400 | 404 | 502), "{host}: {}", answer.status);
    }
    for host in ["127.0.0.1:80", &"a".repeat(255), "[::1]", "0x7f.1", "evil.example"] {
        let answer = site.server.visitor("GET", "/nothing", host).key(key).pass();
        assert_eq!(answer.status, 404, "{host}");
    }
    assert_eq!(site.application.requests(), 0);
    let mixed = site.host().to_uppercase();
    assert_eq!(site.server.visitor("GET", "/", &mixed).key(key).pass().status, 200);
    assert_eq!(site.application.last().headers["host"], site.host());
}

#[test]
fn what_an_application_says_is_data_within_limits() {
    let site = Site::start();
    let redirect = site.call("GET", "/redirect").send().expect(302);
    assert_eq!(redirect.header("location"), Some("http://169.254.169.254/latest"));
    let cookies = site.call("GET", "/cookies").send().expect(200);
    assert_eq!(cookies.header("set-cookie"), Some("a=1; Path=/"));
    for path in ["/endless-head", "/garbage", "/hangup"] {
        expect_told(&site.call("GET", path).send(), 502, "could be passed on");
    }
    site.call("GET", "/").send().expect(200);
}

#[test]
fn methods_that_are_about_proxies_are_not_passed_on() {
    let site = Site::start();
    site.make_public();
    expect_told(&site.stranger("TRACE", "/").send(), 405, "not passed on");
    let connect =
        raw(&site, &format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\n\r\n", site.host()));
    assert!(matches!(Answer::parse(&connect).status, 400 | 405));
    assert_eq!(site.application.requests(), 0);
}
