use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use warren_core::Scope;

use crate::support::{Answer, Call, TestServer};

const PATH: &str = "/v1/sandboxes";

/// The answer to every stranger, without what differs between requests.
fn refusal(answer: &Answer) -> (u16, Option<String>, Option<String>, String) {
    let mut body = answer.json();
    body["request_id"] = json!(null);
    let header = |name| answer.header(name).map(str::to_owned);
    (answer.status, header("www-authenticate"), header("content-type"), body.to_string())
}

/// A server that never loses patience with strangers.
fn server() -> TestServer {
    TestServer::with(|config| config.auth.max_failures = u64::MAX)
}

/// Every way to come without a valid key.
fn wrong_ways(server: &TestServer) -> Vec<(&'static str, Call)> {
    let key = server.admin.trim_start_matches("wrn_").to_owned();
    let other = key.chars().rev().collect::<String>();
    let call = || server.stranger("GET", PATH);
    let bearer = |value: &str| call().header("Authorization", value);
    vec![
        ("no key", call()),
        ("an empty key", bearer("Bearer ")),
        ("an empty header", bearer("")),
        ("a wrong key", bearer(&format!("Bearer {other}"))),
        ("a truncated key", bearer(&format!("Bearer {}", &key[..39]))),
        ("a key with more", bearer(&format!("Bearer {key}0"))),
        ("another case", bearer(&format!("Bearer {}", key.to_uppercase()))),
        ("another scheme", bearer(&format!("Basic {key}"))),
        ("no scheme", bearer(&key)),
        ("another prefix", bearer(&format!("Bearer sk_{key}"))),
        (
            "a key in the query",
            server.stranger("GET", &format!("{PATH}?api_key={key}&key={key}&token={key}")),
        ),
        ("the header twice", call().key(&key).key(&key)),
        ("two different keys", call().key(&key).header("X-API-Key", &other)),
        ("a right and an empty one", call().key(&key).header("X-API-Key", "")),
        ("a wrong scheme beside a right key", bearer("Basic Zm9v").header("X-API-Key", &key)),
        ("an empty X-API-Key", call().header("X-API-Key", "")),
        ("a cookie", call().header("Cookie", &format!("key={key}"))),
    ]
}

#[test]
fn every_wrong_way_in_is_refused_in_the_same_words() {
    let server = server();
    let answers: BTreeSet<_> = wrong_ways(&server).iter().map(|(_, call)| refusal(&call.send())).collect();
    assert_eq!(answers.len(), 1, "{answers:#?}");
    let (status, scheme, kind, _) = answers.into_iter().next().unwrap();
    assert_eq!((status, scheme.as_deref()), (401, Some("Bearer")));
    assert_eq!(kind.as_deref(), Some("application/problem+json"));
}

#[test]
fn a_right_key_is_let_in_by_either_header_and_with_any_prefix() {
    let server = server();
    let bare = server.admin.trim_start_matches("wrn_").to_owned();
    for prefix in ["", "wrn_", "e2b_"] {
        server.stranger("GET", PATH).key(&format!("{prefix}{bare}")).send().expect(200);
        server.stranger("GET", PATH).header("X-API-Key", &format!("{prefix}{bare}")).send().expect(200);
    }
    server.call("GET", PATH).header("x-api-key", &bare).send().expect(200);
}

#[test]
fn a_wrong_key_takes_as_long_as_no_key() {
    let server = server();
    let time = |call: &Call| {
        let began = Instant::now();
        call.send().expect(401);
        began.elapsed().as_micros()
    };
    let (no_key, wrong_key) =
        (server.stranger("GET", PATH), server.stranger("GET", PATH).key(&"a".repeat(40)));
    // In turns, so that whatever else the machine does slows down both.
    let (mut none, mut wrong): (Vec<_>, Vec<_>) = (0..101).map(|_| (time(&no_key), time(&wrong_key))).unzip();
    let typical = |times: &mut Vec<u128>| {
        times.sort_unstable();
        times[times.len() / 4]
    };
    let (none, wrong) = (typical(&mut none), typical(&mut wrong));
    assert!(
        wrong < none * 2 + 1000 && none < wrong * 2 + 1000,
        "{none} µs without, {wrong} µs with a wrong key"
    );
}

#[test]
fn strangers_who_keep_trying_are_slowed_down_and_right_keys_are_not() {
    let server = TestServer::with(|config| {
        config.auth.max_failures = 20;
        config.auth.failure_window = Duration::from_secs(600);
    });
    let statuses: Vec<u16> =
        (0..30).map(|_| server.stranger("GET", PATH).key(&"0".repeat(40)).send().status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 20);
    let last = server.stranger("GET", PATH).send().expect(429);
    assert_eq!(last.code(), "too_many_attempts");
    assert!(last.header("retry-after").unwrap().parse::<u64>().unwrap() <= 600);
    server.call("GET", PATH).send().expect(200);
}

#[test]
fn guessed_ids_are_like_those_that_do_not_exist() {
    let server = server();
    let made = server.call("POST", PATH).json(&json!({})).send().expect(201).json();
    let id = made["sandbox_id"].as_str().unwrap().to_owned();
    let stranger = server.key("other", Scope::Admin);
    let without = |answer: Answer| {
        let mut body = answer.expect(404).json();
        body["request_id"] = json!(null);
        body["detail"] = json!(null);
        body.to_string()
    };
    let foreign = without(server.stranger("GET", &format!("{PATH}/{id}")).key(&stranger).send());
    let absent = format!("sbx{}", "a".repeat(26));
    assert_eq!(foreign, without(server.call("GET", &format!("{PATH}/{absent}")).send()));
    let begun = server.stranger("GET", &format!("{PATH}/{}", &id[..28])).key(&stranger).send();
    assert_eq!(foreign, without(begun));
    for guess in [id.to_uppercase(), format!("{id}a"), id.replace("sbx", "ѕbx"), "..".into()] {
        let guess: String = guess
            .bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }
            })
            .collect();
        let answer = server.call("GET", &format!("{PATH}/{guess}")).send();
        assert!(matches!(answer.status, 404 | 422), "{guess}: {}", answer.status);
    }
    server.call("GET", &format!("{PATH}/{id}")).send().expect(200);
}

#[test]
fn a_scope_allows_what_it_says_and_no_more() {
    let server = server();
    let read = server.key("default", Scope::Read);
    let usual = server.key("default", Scope::Use);
    server.stranger("GET", PATH).key(&read).send().expect(200);
    let refused = server.stranger("POST", PATH).key(&read).json(&json!({})).send().expect(403);
    assert_eq!(refused.code(), "forbidden");
    server.stranger("POST", PATH).key(&usual).json(&json!({})).send().expect(201);
    for (method, path) in [("GET", "/v1/keys"), ("GET", "/metrics"), ("POST", "/v1/recovery/accept-losses")] {
        server.stranger(method, path).key(&usual).send().expect(403);
    }
}

#[test]
fn only_an_administrator_acts_for_somebody_else() {
    let server = server();
    let usual = server.key("default", Scope::Use);
    server.call("POST", PATH).header("X-Warren-Owner", "guest").json(&json!({})).send().expect(201);
    let count = |call: Call| call.send().expect(200).json()["items"].as_array().unwrap().len();
    assert_eq!(count(server.call("GET", PATH)), 0);
    assert_eq!(count(server.call("GET", PATH).header("X-Warren-Owner", "guest")), 1);
    server.stranger("GET", PATH).key(&usual).header("X-Warren-Owner", "guest").send().expect(403);
    server.stranger("GET", PATH).key(&usual).header("X-Warren-Owner", "default").send().expect(200);
    server.call("GET", PATH).header("X-Warren-Owner", "NOT AN OWNER").send().expect(422);
    server.call("GET", PATH).header("X-Warren-Owner", "a").header("X-Warren-Owner", "b").send().expect(400);
}

#[test]
fn public_routes_need_no_key_but_refuse_a_wrong_one() {
    let server = server();
    assert_eq!(server.stranger("GET", "/v1/health").send().expect(200).json().as_object().unwrap().len(), 1);
    server.stranger("GET", "/v1/openapi.json").send().expect(200);
    server.stranger("GET", "/v1/health").key(&"0".repeat(40)).send().expect(401);
    assert!(server.call("GET", "/v1/health").send().expect(200).json().as_object().unwrap().len() > 1);
}

#[test]
fn unknown_routes_and_methods_are_problems_too() {
    let server = server();
    assert_eq!(server.call("GET", "/v2/nothing").send().expect(404).code(), "route_not_found");
    let wrong = server.call("PATCH", PATH).send().expect(405);
    assert_eq!(wrong.code(), "method_not_allowed");
    let request_id = wrong.header("x-request-id").unwrap();
    assert_eq!(wrong.json()["request_id"], request_id);
    let chosen = server.call("GET", PATH).header("X-Request-Id", "mine-1").send();
    assert_eq!(chosen.header("x-request-id"), Some("mine-1"));
}
