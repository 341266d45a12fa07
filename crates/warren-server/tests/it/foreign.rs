//! Pages of other sites, in the browser of somebody who runs a server without keys; and bodies that
//! any page can send.

use serde_json::json;

use crate::support::{Call, TestServer};

fn open() -> TestServer {
    TestServer::with(|config| config.auth.enabled = false)
}

/// A call to each face that does something.
fn calls(server: &TestServer) -> Vec<Call> {
    let json = |method, path| server.stranger(method, path).json(&json!({}));
    vec![
        json("POST", "/v1/sandboxes"),
        json("POST", "/e2b/sandboxes"),
        json("POST", "/api/v1/create"),
        server.stranger("GET", "/v1/sandboxes"),
        server.stranger("GET", "/v1/keys"),
        server.stranger("GET", "/e2b/v2/sandboxes"),
        server.stranger("DELETE", "/api/v1/sandboxes/0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a001"),
    ]
}

#[test]
fn without_keys_a_page_of_elsewhere_gets_nothing_from_any_face() {
    let server = open();
    let own = server.address.to_string();
    for call in calls(&server) {
        assert_ne!(call.clone().pass().status, 403, "{call:?}");
        for (name, value) in [
            ("Origin", "http://evil.example".to_owned()),
            ("Origin", "null".to_owned()),
            (
                "Origin",
                format!("http://8000-sbxaaaaaaaaaaaaaaaaaaaaaaaaaa.localhost:{}", server.address.port()),
            ),
            ("Sec-Fetch-Site", "cross-site".to_owned()),
            ("Sec-Fetch-Site", "same-site".to_owned()),
        ] {
            let answer = call.clone().header(name, &value).pass();
            assert_eq!(answer.status, 403, "{name}: {value}: {call:?}");
        }
        let rebound = call.clone().without("Host").header("Host", "evil.example:7777").pass();
        assert_eq!(rebound.status, 403, "{call:?}");
        let own_page =
            call.header("Origin", &format!("http://{own}")).header("Sec-Fetch-Site", "same-origin");
        assert_ne!(own_page.pass().status, 403);
    }
    let made = server.stranger("GET", "/v1/sandboxes").send().expect(200).json();
    let told = server.stranger("GET", "/v1/sandboxes").header("Origin", "http://evil.example").send();
    assert_eq!((told.code().as_str(), told.json()["field"].as_str()), ("foreign_request", Some("Origin")));
    assert!(made["items"].as_array().unwrap().len() <= 6, "only the calls of its own made any: {made}");
}

#[test]
fn without_keys_a_foreign_page_opens_no_web_socket() {
    let server = open();
    let id = server.stranger("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    let path = format!("/v1/sandboxes/{}/exec/stream", id["sandbox_id"].as_str().unwrap());
    let socket = |origin: &str| {
        let call = server.stranger("GET", &path).without("Connection");
        call.header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("Origin", origin)
    };
    assert_eq!(socket("http://evil.example").pass().status, 403);
    let mut own = socket(&format!("http://{}", server.address)).open();
    let mut first = [0; 12];
    std::io::Read::read_exact(&mut own, &mut first).unwrap();
    assert_ne!(&first[9..], b"403");
}

#[test]
fn with_keys_nothing_depends_on_where_a_request_comes_from() {
    let server = TestServer::start();
    let call = server.call("GET", "/v1/sandboxes").header("Origin", "http://evil.example");
    call.header("Sec-Fetch-Site", "cross-site")
        .without("Host")
        .header("Host", "any.example")
        .send()
        .expect(200);
}

#[test]
fn a_link_from_elsewhere_may_be_followed() {
    let server = open();
    let call = server.stranger("GET", "/v1/health").header("Sec-Fetch-Site", "cross-site");
    call.header("Sec-Fetch-Mode", "navigate").header("Sec-Fetch-Dest", "document").send().expect(200);
}

#[test]
fn a_body_that_is_not_said_to_be_json_is_refused_on_every_face() {
    let server = TestServer::start();
    for path in
        ["/v1/sandboxes", "/e2b/sandboxes", "/e2b/v2/sandboxes", "/e2b/v3/templates", "/api/v1/create"]
    {
        for kind in
            [Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("multipart/form-data"), None]
        {
            let call = server.call("POST", path).body("{}");
            let call = kind.map(|kind| call.clone().header("Content-Type", kind)).unwrap_or(call);
            let answer = call.pass();
            assert_eq!(answer.status, 415, "{path} {kind:?}: {}", String::from_utf8_lossy(&answer.body));
            assert!(String::from_utf8_lossy(&answer.body).contains("Content-Type"), "{path} {kind:?}");
        }
    }
    assert!(
        server.call("GET", "/v1/sandboxes").send().expect(200).json()["items"].as_array().unwrap().is_empty()
    );
}
