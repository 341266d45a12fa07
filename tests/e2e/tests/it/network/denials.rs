//! A denial says what it is, at once, and to whom it matters.

use std::collections::BTreeSet;
use std::time::Duration;

use warren_e2e::{Internet, TestEnv, eventually};

use super::{assert_closed, assert_open, create, finish, json, reach, serve};

#[test]
fn a_denied_request_is_told_the_rule_and_how_to_ask() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
    let page = server.shell(&id, "curl -s -m 5 -w '\\n%{http_code}' http://other.test/secret");
    assert!(page.ends_with("403"), "{page}");
    for part in ["other.test", "not in the allow list", "warren net allow", id.as_str()] {
        assert!(page.contains(part), "`{part}` is missing in: {page}");
    }
    let body = server.shell(&id, "curl -s -m 5 -H 'Accept: application/json' http://other.test/");
    let body: serde_json::Value =
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!((&body["host"], &body["code"]), (&"other.test".into(), &"network_denied".into()));
    let tls = server.shell(&id, "curl -sS -m 5 https://other.test/ 2>&1 || true");
    assert!(tls.contains("alert") || tls.contains("denied"), "{tls}");
    assert_closed(&server, &id, &["banner", "198.51.100.20", "2525"]);

    let log = server.warren(["net", "log", &id]).ok().text();
    assert!(
        log.contains("other.test") && log.contains("denied") && log.contains("not in the allow list"),
        "{log}"
    );
    let log = server.warren(["net", "log", &id, "--json"]).ok().text();
    let rows: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let denied: Vec<_> = rows.iter().filter(|row| row["verdict"] == "denied" && row["port"] == 443).collect();
    assert!(
        denied.iter().any(|row| row["process"].as_str().is_some_and(|name| name.contains("curl"))),
        "{denied:?}"
    );
    let events = server.warren(["events", "--json"]).ok().text();
    assert!(events.contains("network_denied"), "{events}");
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn what_is_allowed_for_a_while_is_closed_after_it() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "allow", "--allow", "web.test"]);
    assert_closed(&server, &id, &["http", "other.test", "80"]);
    server.warren(["net", "allow", &id, "other.test", "--for", "8s"]).ok();
    eventually(Duration::from_secs(60), "it is open", || {
        reach(&server, &id, &["http", "other.test", "80"]).0 == "open"
    });
    std::thread::sleep(Duration::from_secs(8));
    assert_closed(&server, &id, &["http", "other.test", "80"]);
    server.warren(["net", "allow", &id, "other.test"]).ok();
    assert_open(&server, &id, &["http", "other.test", "80"]);
    server.warren(["net", "deny", &id, "other.test"]).ok();
    assert_closed(&server, &id, &["http", "other.test", "80"]);
    assert_open(&server, &id, &["http", "web.test", "80"]);
    finish(server, &internet);
}

#[test]
fn somebody_is_asked_and_answers() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let id = create(&server, &["--net", "ask"]);
    let answered = |answer: &str, host: &str| {
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                server
                    .warren([
                        "exec",
                        &id,
                        "--",
                        "curl",
                        "-s",
                        "-m",
                        "20",
                        "-o",
                        "/dev/null",
                        "-w",
                        "%{http_code}",
                        &format!("http://{host}/"),
                    ])
                    .text()
            });
            let mut number = String::new();
            eventually(Duration::from_secs(60), "it waits for an answer", || {
                let asks = json(&server, &["net", "requests", &id, "--json"]);
                let asks = asks.as_array().or_else(|| asks["items"].as_array()).cloned().unwrap_or_default();
                let ask = asks.iter().find(|ask| ask["host"] == *host);
                number = ask.map(|ask| ask["number"].to_string()).unwrap_or_default();
                ask.is_some()
            });
            server.warren(["net", "answer", &id, &number, answer]).ok();
            asking.join().unwrap()
        })
    };
    assert_eq!(answered("allow", "web.test"), "200");
    assert_eq!(answered("deny", "other.test"), "403");
    assert_open(&server, &id, &["http", "web.test", "80"]);
    assert_closed(&server, &id, &["http", "other.test", "80"]);
    internet.assert_only(&["198.51.100.10", "192.0.2.53"]);
    finish(server, &internet);
}

#[test]
fn what_was_learnt_is_enough_and_no_more() {
    let env = TestEnv::new();
    let internet = Internet::new(&env);
    let server = serve(&env, &internet);
    let learn = |_| {
        let id = create(&server, &["--net", "learn"]);
        assert_open(&server, &id, &["http", "web.test", "80"]);
        assert_open(&server, &id, &["tls", "api.web.test", "443"]);
        assert_open(&server, &id, &["http", "198.51.100.20", "8080"]);
        assert_closed(&server, &id, &["http", "10.7.7.7", "80"]);
        let learnt = json(&server, &["net", "learn", &id, "--json"]);
        let rules = learnt["allow"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap().to_owned());
        rules.collect::<BTreeSet<_>>()
    };
    // A client that a busy machine keeps from speaking for a tenth of a second is known by its
    // address alone.
    let rules = (0..5).map(learn).find(|rules| rules.contains("api.web.test:443")).expect("it is learnt");
    assert_eq!(rules.iter().collect::<Vec<_>>(), ["198.51.100.20:8080", "api.web.test:443", "web.test:80"]);
    let mut flags = vec!["--net".to_owned(), "allow".to_owned()];
    flags.extend(rules.iter().flat_map(|rule| ["--allow".to_owned(), rule.clone()]));
    let again = create(&server, &flags.iter().map(String::as_str).collect::<Vec<_>>());
    assert_open(&server, &again, &["http", "web.test", "80"]);
    assert_open(&server, &again, &["tls", "api.web.test", "443"]);
    assert_open(&server, &again, &["http", "198.51.100.20", "8080"]);
    assert_closed(&server, &again, &["tls", "web.test", "443"]);
    finish(server, &internet);
}
