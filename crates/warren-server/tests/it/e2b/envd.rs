use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::made::Made;
use crate::support::TestServer;

#[test]
fn health_needs_no_token_and_a_sandbox_that_runs() {
    let server = TestServer::start();
    let made = Made::by(&server);
    let healthy = made.stranger(&server, "GET", "/health").pass().expect(204);
    assert_eq!(healthy.body, b"");
    let host = format!("49983-{}.localhost", made.id);
    server.visitor("GET", "/health", &host).pass().expect(204);
    made.control(&server, "DELETE", "").expect(204);
    let unknown = Made { id: "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(), token: made.token.clone() };
    for gone in [&made, &unknown] {
        let answer = gone.stranger(&server, "GET", "/health").pass().expect(502);
        let body = json!({"sandboxId": gone.id, "message": "The sandbox was not found", "code": 502});
        assert_eq!((answer.json(), answer.header("should-retry")), (body, Some("false")));
        gone.call(&server, "GET", "/files?path=/tmp/a").pass().expect(502);
    }
}

#[test]
fn a_paused_sandbox_is_not_found() {
    let server = TestServer::start();
    let made = Made::by(&server);
    made.control(&server, "POST", "/pause").expect(204);
    for path in ["/health", "/files?path=/tmp/a"] {
        let answer = made.call(&server, "GET", path).pass().expect(502).json();
        assert_eq!(answer["message"], "The sandbox was not found", "{path}");
    }
}

#[test]
fn nothing_but_health_is_told_without_the_sandboxs_own_token() {
    let server = TestServer::start();
    let (made, other) = (Made::by(&server), Made::by(&server));
    let routes = [
        ("GET", "/metrics"),
        ("GET", "/envs"),
        ("GET", "/files?path=/tmp/a"),
        ("POST", "/files?path=/tmp/a"),
        ("POST", "/files/compose"),
        ("POST", "/filesystem.Filesystem/Stat"),
        ("POST", "/process.Process/List"),
    ];
    for (method, path) in routes {
        let without = made.stranger(&server, method, path);
        let doubled = made.call(&server, method, path).header("X-Access-Token", &made.token);
        for call in [
            without.clone(),
            without.clone().header("X-Access-Token", &other.token),
            without.clone().header("X-Access-Token", "x"),
            without.clone().header("X-API-KEY", &server.admin),
            without.key(&server.admin),
            doubled,
        ] {
            let answer = call.body("{}").pass().expect(401);
            assert_eq!(answer.json()["code"], 401, "{method} {path}");
        }
    }
}

#[test]
fn routes_of_the_machinery_are_nobodys() {
    let server = TestServer::start();
    let made = Made::by(&server);
    for path in ["/init", "//init", "/x/../freeze", "/upgrade/"] {
        let answer = made.call(&server, "POST", path).body("{}").pass().expect(404).json();
        assert_eq!((&answer["sandboxId"], &answer["code"]), (&json!(made.id), &json!(404)), "{path}");
    }
    made.call(&server, "GET", "/nothing").pass().expect(404);
    made.call(&server, "DELETE", "/files").pass().expect(405);
    made.call(&server, "POST", "/filesystem.Filesystem/Nothing").json(&json!({})).pass().expect(404);
}

#[test]
fn pages_of_other_sites_may_ask() {
    let server = TestServer::start();
    let made = Made::by(&server);
    let asked = made.stranger(&server, "OPTIONS", "/files").header("Origin", "https://page.example");
    let asked = asked.header("Access-Control-Request-Method", "POST");
    let asked =
        asked.header("Access-Control-Request-Headers", "authorization, x-access-token").pass().expect(204);
    assert_eq!(asked.header("access-control-allow-origin"), Some("*"));
    assert_eq!(asked.header("access-control-allow-headers"), Some("authorization, x-access-token"));
    assert!(asked.header("access-control-allow-methods").unwrap().contains("POST"));
    let refused = made.stranger(&server, "GET", "/envs").pass().expect(401);
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
}

#[test]
fn figures_and_variables_are_told() {
    let server = TestServer::start();
    let made = Made::by(&server);
    let envs = made.call(&server, "GET", "/envs").pass().expect(200).json();
    assert_eq!((&envs["E2B_SANDBOX"], &envs["E2B_SANDBOX_ID"]), (&json!("true"), &json!(made.id)));
    let metrics = made.call(&server, "GET", "/metrics").pass().expect(200).json();
    for name in [
        "ts",
        "cpu_count",
        "cpu_used_pct",
        "mem_total",
        "mem_used",
        "mem_cache",
        "mem_total_mib",
        "mem_used_mib",
        "disk_used",
        "disk_total",
    ] {
        assert!(metrics[name].is_number(), "{name} in {metrics}");
    }
}

#[test]
fn a_user_whom_the_sandbox_does_not_know_is_refused() {
    let server = TestServer::start();
    let made = Made::by(&server);
    let as_user = |user: &str, path: &str| {
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}:")));
        made.call(&server, "POST", path).header("Authorization", &basic).json(&json!({"path": "/tmp"})).pass()
    };
    let stat = "/filesystem.Filesystem/Stat";
    as_user("root", stat).expect(200);
    let refused = as_user("nobody1", stat).expect(401).json();
    assert_eq!(refused, json!({"code": "unauthenticated", "message": "invalid username: 'nobody1'"}));
    let refused: Value =
        made.call(&server, "GET", "/files?path=/tmp/a&username=nobody1").pass().expect(401).json();
    assert_eq!(refused, json!({"code": 401, "message": "invalid username: 'nobody1'"}));
}
