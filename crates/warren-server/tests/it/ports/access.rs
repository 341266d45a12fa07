use serde_json::json;
use warren_core::Scope;

use super::{Site, expect_told};
use crate::support::Call;

const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml");

#[test]
fn a_port_is_private_until_its_owner_says_otherwise() {
    let site = Site::start();
    expect_told(&site.stranger("GET", "/").send(), 403, "private");
    assert_eq!(site.application.requests(), 0);
    for (name, value) in
        [("X-API-Key", site.server.admin.clone()), ("Authorization", format!("Bearer {}", site.server.admin))]
    {
        site.stranger("GET", "/").header(name, &value).send().expect(200);
        let seen = site.application.last().headers;
        assert!(!seen.contains_key(&name.to_lowercase()), "{seen:?}");
    }
    site.call("GET", "/").send().expect(200);
    site.make_public();
    site.stranger("GET", "/").send().expect(200);
    site.server.call("PUT", &site.path("")).json(&json!({"public": false})).send().expect(200);
    expect_told(&site.stranger("GET", "/").send(), 403, "private");
}

#[test]
fn a_key_opens_its_owners_ports_only_and_only_if_it_may_do_something() {
    let site = Site::start();
    let with = |key: &str| site.stranger("GET", "/").header("X-API-Key", key).send();
    with(&site.server.key("default", Scope::Use)).expect(200);
    expect_told(&with(&site.server.key("default", Scope::Read)), 403, "scope");
    // Another owner's sandbox is answered like none.
    expect_told(&with(&site.server.key("other", Scope::Use)), 502, "was not found");
    let acting = site.stranger("GET", "/").header("X-API-Key", &site.server.admin);
    expect_told(&acting.header("X-Warren-Owner", "other").send(), 502, "was not found");
    expect_told(&with(&format!("wrn_{}", "0".repeat(40))), 401, "API key");
    expect_told(&with("wrn_"), 401, "API key");
    // The token is for those who may use the port.
    let path = site.path("");
    site.server.stranger("GET", &path).key(&site.server.key("default", Scope::Read)).send().expect(403);
    site.server.stranger("GET", &path).key(&site.server.key("other", Scope::Use)).send().expect(404);
}

#[test]
fn what_is_not_ours_in_the_same_headers_is_the_applications() {
    let site = Site::start();
    for (name, value) in [
        ("Authorization", "Basic dXNlcjo="),
        ("Authorization", "Bearer its-own"),
        ("X-API-Key", "its-own"),
        ("Cookie", "session=1; theme=dark"),
    ] {
        site.call("GET", "/").header(name, value).send().expect(200);
        assert_eq!(site.application.last().headers[&name.to_lowercase()], value);
    }
    expect_told(&site.stranger("GET", "/").header("Authorization", "Bearer its-own").send(), 403, "private");
}

#[test]
fn what_is_shown_must_be_right_whatever_else_is() {
    let site = Site::start();
    site.make_public();
    let wrong_key = format!("wrn_{}", "0".repeat(40));
    let link = site.link(&json!({}));
    let linked = |call: Call| call.send();
    expect_told(&linked(site.stranger("GET", &link).header("X-API-Key", &wrong_key)), 401, "API key");
    expect_told(&linked(site.stranger("GET", &link).header("Warren-Traffic-Token", "wrong")), 403, "token");
    expect_told(&site.call("GET", "/?warren-link=wrong").send(), 401, "link");
    expect_told(&site.call("GET", &format!("{link}&warren-link=x")).send(), 401, "link");
    expect_told(&site.call("GET", "/").header("Warren-Traffic-Token", &site.token()).send(), 403, "token");
    expect_told(&site.call("GET", "/").header("X-API-Key", &wrong_key).send(), 401, "API key");
    assert_eq!(site.application.requests(), 0);
}

#[test]
fn a_token_is_for_one_port_of_one_sandbox() {
    let site = Site::start();
    let token = site.token();
    let other = site.server.visitor("GET", "/", &site.host_of(1)).header("Warren-Traffic-Token", &token);
    expect_told(&other.pass(), 403, "token");
    for wrong in ["", "x", &token[1..], &token.to_uppercase(), &format!("{token}=")] {
        expect_told(&site.stranger("GET", "/").header("Warren-Traffic-Token", wrong).send(), 403, "token");
    }
}

#[test]
fn a_link_opens_a_port_for_programs_as_it_is() {
    let site = Site::start();
    let link = site.link(&json!({"expires_in_s": 60}));
    assert_eq!(site.stranger("POST", &format!("{link}&a=b")).body("x").send().expect(200).body, b"hello");
    assert_eq!(site.application.last().line, "POST /?a=b HTTP/1.1");
    site.server.clock.advance_s(59);
    site.stranger("GET", &link).send().expect(200);
    site.server.clock.advance_s(1);
    expect_told(&site.stranger("GET", &link).send(), 401, "time is over");
}

#[test]
fn a_link_becomes_a_cookie_for_people() {
    let site = Site::start();
    let link = site.link(&json!({"path": "/app", "expires_in_s": 60}));
    let welcome =
        site.stranger("GET", &format!("{link}&tab=2")).header(BROWSER.0, BROWSER.1).send().expect(303);
    assert_eq!(welcome.header("location"), Some("/app?tab=2"));
    let cookie = welcome.header("set-cookie").unwrap().to_owned();
    for part in ["Path=/app", "Max-Age=60", "HttpOnly", "SameSite=Lax"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.to_lowercase().contains("domain") && !cookie.contains("Secure"), "{cookie}");
    assert_eq!(site.application.requests(), 0);
    let pair = cookie.split(';').next().unwrap();
    let with =
        |method: &str, path: &str| site.stranger(method, path).header("Cookie", &format!("a=1; {pair}; b=2"));
    with("GET", "/app/style.css").send().expect(200);
    assert_eq!(site.application.last().headers["cookie"], "a=1; b=2");
    expect_told(&with("GET", "/").send(), 401, "link");
    expect_told(&with("GET", "/app/../secret").send(), 401, "link");
    // Nobody else's page may use it, and it is of no use elsewhere.
    with("POST", "/app").header("Origin", &format!("http://{}", site.host())).send().expect(200);
    expect_told(&with("POST", "/app").header("Origin", "http://evil.localhost").send(), 403, "Another site");
    let other = site.server.visitor("GET", "/app", &site.host_of(1)).header("Cookie", pair);
    expect_told(&other.pass(), 401, "link");
    site.server.clock.advance_s(60);
    expect_told(&with("GET", "/app").send(), 401, "link");
}

#[test]
fn a_link_may_only_read() {
    let site = Site::start();
    let link = site.link(&json!({"methods": "read"}));
    site.stranger("GET", &link).send().expect(200);
    expect_told(&site.stranger("POST", &link).body("x").send(), 401, "link");
    let upgrade = site.stranger("GET", &link).without("Connection").header("Connection", "Upgrade");
    expect_told(&upgrade.header("Upgrade", "websocket").header("Connection", "close").send(), 401, "link");
}

#[test]
fn an_old_cookie_is_in_nobodys_way() {
    let site = Site::start();
    let stale = |call: Call| call.header("Cookie", "warren-port=1.stale");
    expect_told(&stale(site.stranger("GET", "/")).send(), 401, "link");
    stale(site.call("GET", "/")).send().expect(200);
    stale(site.stranger("GET", &site.link(&json!({})))).send().expect(200);
    site.make_public();
    stale(site.stranger("GET", "/")).send().expect(200);
    assert!(!site.application.last().headers.contains_key("cookie"));
}

#[test]
fn links_that_cannot_be_are_refused_by_field() {
    let site = Site::start();
    for (body, field) in [
        (json!({"expires_in_s": 0}), "expires_in_s"),
        (json!({"expires_in_s": 2_592_001}), "expires_in_s"),
        (json!({"path": "app"}), "path"),
        (json!({"path": "//evil.example"}), "path"),
        (json!({"path": "/a?b"}), "path"),
        (json!({"path": "/a;b"}), "path"),
    ] {
        let answer = site.server.call("POST", &site.path("/link")).json(&body).send().expect(422).json();
        assert_eq!(answer["field"], field);
    }
    for port in ["0", "65536", "80@x", "x", "080", "-1"] {
        site.server.call("GET", &format!("/v1/sandboxes/{}/ports/{port}", site.sandbox)).send().expect(422);
    }
}

#[test]
fn who_guesses_too_often_is_told_to_wait() {
    let site = Site::with(|config| config.auth.max_failures = 3);
    let guess = || site.stranger("GET", "/").header("Warren-Traffic-Token", "guess").send().status;
    assert_eq!([guess(), guess(), guess(), guess()], [403, 403, 403, 429]);
    site.call("GET", "/").send().expect(200);
}
