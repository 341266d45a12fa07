use axum::body::Body;

use super::*;

fn target() -> Target {
    Target {
        sandbox: warren_core::SandboxId::from_random([1; 16]),
        port: 80,
        authority: "80-x.localhost:7777".to_owned(),
        own_host: true,
    }
}

fn sent(headers: &[(&str, &str)], upgrades: bool, host: Option<&str>) -> HeaderMap {
    let mut request = http::Request::builder().uri("http://80-x.localhost:7777/a?b=c");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
    let facts = RequestFacts {
        target: &target(),
        arrival: Arrival { address: Some([192, 0, 2, 1].into()), secure: false, ..Arrival::default() },
        secure: true,
        host: host.map(|host| HeaderValue::from_str(host).unwrap()),
        upgrades,
    };
    let parts = outgoing(parts, &facts);
    assert_eq!(parts.uri.to_string(), "/a?b=c");
    parts.headers
}

#[test]
fn nothing_about_a_connection_or_about_us_reaches_the_application() {
    let headers = sent(
        &[
            ("connection", "close, X-Own, x-forwarded-for"),
            ("x-own", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("proxy-authorization", "Basic x"),
            ("upgrade", "h2c"),
            ("warren-sandbox-id", "x"),
            ("warren-sandbox-port", "80"),
            ("warren-traffic-token", "x"),
            ("expect", "100-continue"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "evil.example"),
            ("x-original-url", "/admin"),
            ("forwarded", "for=203.0.113.9"),
            ("x-real-ip", "203.0.113.9"),
            ("accept", "*/*"),
        ],
        false,
        None,
    );
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]);
    assert_eq!(
        (&headers["x-forwarded-for"], &headers["x-forwarded-proto"]),
        (&"192.0.2.1".parse().unwrap(), &"https".parse().unwrap())
    );
    assert_eq!(headers["host"], "80-x.localhost:7777");
}

#[test]
fn an_upgrade_is_asked_for_again_and_a_host_may_be_masked() {
    let asked = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")];
    let headers = sent(&asked, true, Some("localhost:80"));
    assert_eq!(
        (&headers["connection"], &headers["upgrade"]),
        (&"Upgrade".parse().unwrap(), &"websocket".parse().unwrap())
    );
    assert_eq!(
        (&headers["host"], &headers["x-forwarded-host"]),
        (&"localhost:80".parse().unwrap(), &"80-x.localhost:7777".parse().unwrap())
    );
    assert!(!sent(&asked, false, None).contains_key("upgrade"));
}

#[test]
fn pieces_of_a_cookie_become_one() {
    assert_eq!(sent(&[("cookie", "a=1"), ("cookie", "b=2")], false, None)["cookie"], "a=1; b=2");
}

#[test]
fn a_cookie_is_for_the_host_that_set_it() {
    let returned = |cookie: &'static str| {
        let response = http::Response::builder().header("set-cookie", cookie).header("alt-svc", "h3=\":1\"");
        let (mut parts, ()) = response.body(()).unwrap().into_parts();
        returning(&mut parts);
        assert!(!parts.headers.contains_key("alt-svc"));
        parts.headers.get("set-cookie").map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(returned("a=1; Path=/; HttpOnly").as_deref(), Some("a=1; Path=/; HttpOnly"));
    assert_eq!(returned("a=domain=x; DOMAIN = localhost; Path=/").as_deref(), Some("a=domain=x; Path=/"));
    assert_eq!(returned("a=1;Domain=.preview.example;domain=x").as_deref(), Some("a=1"));
    assert_eq!(returned("warren-port=mine; Path=/"), None);
    assert_eq!(returned(" Warren-Port ; Path=/"), None);
}

#[test]
fn an_answer_with_two_lengths_is_told_from_others() {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("5"));
    assert!(!has_two_lengths(&headers));
    headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    assert!(has_two_lengths(&headers));
}
