//! Where sandboxes may go, over the interface: policies, grants, the log, requests, what was
//! learned.

use std::io::BufReader;

use serde_json::{Value, json};
use warren_core::network::Protocol;
use warren_core::{NetworkEntry, NetworkVerdict, SandboxId, Scope};

use crate::events::next_event;
use crate::golden::assert_golden;
use crate::support::{Answer, TestServer};

const NOBODY: &str = "/v1/sandboxes/sbxaaaaaaaaaaaaaaaaaaaaaaaaaa/network";

struct Bench {
    server: TestServer,
    id: SandboxId,
    path: String,
}

impl Bench {
    fn with(network: &Value) -> Self {
        let server = TestServer::start();
        let made = server.call("POST", "/v1/sandboxes").json(&json!({"network": network})).send();
        let id: SandboxId = made.expect(201).json()["sandbox_id"].as_str().unwrap().parse().unwrap();
        let path = format!("/v1/sandboxes/{id}/network");
        Self { server, id, path }
    }

    fn get(&self, rest: &str) -> Answer {
        self.server.call("GET", &format!("{}{rest}", self.path)).send()
    }

    fn put(&self, body: &Value) -> Answer {
        self.server.call("PUT", &self.path).json(body).send()
    }

    fn post(&self, rest: &str, body: &Value) -> Answer {
        self.server.call("POST", &format!("{}{rest}", self.path)).json(body).send()
    }

    /// The sandbox tries to reach a host.
    fn tries(&self, verdict: NetworkVerdict, host: &str) {
        let entry = NetworkEntry {
            verdict,
            protocol: Protocol::Tcp,
            host: Some(host.to_owned()),
            address: Some("192.0.2.7".parse().unwrap()),
            port: 443,
            rule: "not in the allow list".to_owned(),
            process: Some("curl".to_owned()),
            count: 1,
        };
        self.server.networks.act(&self.id, entry);
    }
}

#[test]
fn a_policy_is_a_word_or_an_object_and_is_answered_as_an_object() {
    let bench = Bench::with(&json!("none"));
    let now = bench.get("").expect(200).json();
    assert_eq!(
        (&now["policy"]["mode"], &now["addresses"], &now["pending"]),
        (&json!("none"), &json!([]), &json!(0))
    );
    assert!(now.get("usage").is_none(), "{now}");
    let policy = json!({
        "mode": "allow", "allow": ["Example.COM.", "*.example.org:443", "192.0.2.0/24"], "deny": ["a.example.org"],
        "limits": {"connections": 7},
    });
    let bench = Bench::with(&policy);
    assert_golden("network", bench.get("").expect(200).json());
    let sandbox = bench.server.call("GET", &format!("/v1/sandboxes/{}", bench.id)).send().expect(200).json();
    assert_eq!(sandbox["network"], bench.get("").json()["policy"]);
    let held = bench.server.networks.policies(&bench.id).unwrap();
    assert_eq!((held.len(), held[0].allow.len(), held[0].limits.connections), (1, 3, 7));
}

#[test]
fn a_sandbox_that_does_not_say_gets_the_default() {
    let server = TestServer::start();
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    assert_eq!(made["network"]["mode"], "public", "this machine can");
    let server = TestServer::with(|config| {
        config.network.default =
            warren_server::config::DefaultNetwork::Policy(warren_core::NetworkPolicy::none());
    });
    let made = server.call("POST", "/v1/sandboxes").json(&json!({})).send().expect(201).json();
    assert_eq!(made["network"]["mode"], "none");
}

#[test]
fn a_wrong_policy_is_refused_by_the_name_of_its_field() {
    let bench = Bench::with(&json!("public"));
    let cases = [
        (json!("open"), "network"),
        (json!(7), "network"),
        (json!({}), "network.mode"),
        (json!({"mode": "open"}), "network.mode"),
        (json!({"mode": "allow", "allows": []}), "network.allows"),
        (json!({"mode": "allow", "allow": ["ok.example", "a b"]}), "network.allow[1]"),
        (json!({"mode": "allow", "allow": ["192.0.2.1/8"]}), "network.allow[0]"),
        (json!({"mode": "allow", "allow": ["10.0.0.0/8"]}), "network.allow"),
        (json!({"mode": "public", "allow": ["a.example"]}), "network.allow"),
        (json!({"mode": "none", "deny": ["a.example"]}), "network.deny"),
        (json!({"mode": "public", "deny": ["*x"]}), "network.deny[0]"),
        (json!({"mode": "public", "secrets": ["a b"]}), "network.secrets[0]"),
        (json!({"mode": "public", "secrets": ["nobody-has-it"]}), "network.secrets"),
        (json!({"mode": "public", "limits": {"connections": 0}}), "network.limits.connections"),
        (json!({"mode": "public", "limits": {"connections": 60_000}}), "network.limits.connections"),
        (json!({"mode": "public", "limits": {"speed": 1}}), "network.limits.speed"),
        (json!({"mode": "public", "limits": []}), "network.limits"),
    ];
    for (policy, field) in cases {
        let create = bench.server.call("POST", "/v1/sandboxes").json(&json!({"network": policy})).send();
        let problem = create.expect(422).json();
        assert_eq!(problem["field"], field, "{policy}: {problem}");
        let own = field.strip_prefix("network.");
        let problem = bench.put(&policy).expect(422).json();
        assert_eq!(problem["field"].as_str(), own, "{policy}: {problem}");
    }
    assert_eq!(bench.get("").json()["policy"]["mode"], "public", "nothing has changed");
}

#[test]
fn where_a_new_session_asks_for_it_the_field_says_so() {
    let server = TestServer::start();
    let body = json!({"client": "a", "sandbox": {"network": {"mode": "allow", "allow": ["a b"]}}});
    let problem = server.call("POST", "/v1/sessions").json(&body).send().expect(422).json();
    assert_eq!(problem["field"], "sandbox.network.allow[0]");
}

#[test]
fn a_policy_is_replaced_at_once() {
    let bench = Bench::with(&json!("public"));
    let now = bench.put(&json!({"mode": "allow", "allow": ["a.example"]})).expect(200).json();
    assert_eq!((&now["policy"]["mode"], &now["policy"]["allow"]), (&json!("allow"), &json!(["a.example"])));
    assert_eq!(bench.server.networks.policies(&bench.id).unwrap()[0].allow.len(), 1);
    let closed = bench.put(&json!("none")).expect(200).json();
    assert_eq!(closed["policy"]["mode"], "none");
    let events =
        bench.server.call("GET", &format!("/v1/events?sandbox={}", bench.id)).send().expect(200).json();
    let words: Vec<&str> =
        events["items"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(words.iter().filter(|word| **word == "network_changed").count(), 2, "{words:?}");
}

#[test]
fn rules_are_added_for_good_or_for_a_while() {
    let bench = Bench::with(&json!({"mode": "allow", "allow": ["a.example"]}));
    let now = bench
        .post("/allow", &json!({"rules": ["b.example", "192.0.2.7:22"], "for_s": 600}))
        .expect(200)
        .json();
    let grants = now["policy"]["grants"].as_array().unwrap();
    assert_eq!(grants.len(), 2);
    assert_eq!((&grants[0]["rule"], &grants[0]["effect"]), (&json!("b.example"), &json!("allow")));
    assert!(grants[0]["until"].as_str().unwrap().ends_with('Z') && grants[0]["by"] == "test", "{grants:?}");
    let now = bench.post("/deny", &json!({"rules": ["c.a.example"]})).expect(200).json();
    let last = now["policy"]["grants"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["effect"], last.get("until")), (&json!("deny"), None));
    let cases = [
        (json!({"rules": []}), "rules"),
        (json!({"rules": vec!["a.example"; 65]}), "rules"),
        (json!({"rules": ["a.example", "a b"]}), "rules[1]"),
        (json!({"rules": ["a.example"], "for_s": 0}), "for_s"),
        (json!({"rules": ["a.example"], "for_s": 1_000_000_000}), "for_s"),
        (json!({"rules": ["a.example"], "for": 1}), "for"),
        (json!({}), "rules"),
    ];
    for (body, field) in cases {
        for action in ["/allow", "/deny"] {
            let problem = bench.post(action, &body).expect(422).json();
            assert_eq!(problem["field"], field, "{body}: {problem}");
        }
    }
    let problem = bench.post("/allow", &json!({"rules": ["10.0.0.0/8"]})).expect(422).json();
    assert_eq!(problem["field"], "rules");
    assert!(problem["detail"].as_str().unwrap().starts_with("`10.0.0.0/8` is closed"), "{problem}");
    let closed = Bench::with(&json!("none"));
    let problem = closed.post("/allow", &json!({"rules": ["a.example"]})).expect(422).json();
    assert_eq!(problem["field"], "rules");
}

#[test]
fn what_a_sandbox_did_is_told_by_page() {
    let bench = Bench::with(&json!({"mode": "allow", "allow": ["a.example"]}));
    bench.tries(NetworkVerdict::Allowed, "a.example");
    bench.tries(NetworkVerdict::Denied, "b.example");
    let log = bench.get("/log").expect(200).json();
    let items = log["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!((&items[0]["verdict"], &items[1]["verdict"]), (&json!("allowed"), &json!("denied")));
    assert_eq!((&items[1]["host"], &items[1]["port"]), (&json!("b.example"), &json!(443)));
    assert_eq!((&items[1]["process"], &items[1]["rule"]), (&json!("curl"), &json!("not in the allow list")));
    let first = bench.get("/log?limit=1").expect(200).json();
    let rest = bench.get(&format!("/log?after={}", first["next_after"])).expect(200).json();
    assert_eq!((first["items"].as_array().unwrap().len(), rest["items"].as_array().unwrap().len()), (1, 1));
    assert_eq!(rest["next_after"], log["next_after"]);
    let end = bench.get(&format!("/log?after={}", log["next_after"])).expect(200).json();
    assert_eq!(end, json!({"items": [], "next_after": log["next_after"]}));
    for (query, field) in [("limit=0", "limit"), ("limit=1001", "limit"), ("after=x", "after")] {
        assert_eq!(bench.get(&format!("/log?{query}")).expect(422).json()["field"], field);
    }
}

#[test]
fn what_a_sandbox_does_is_told_as_it_happens() {
    let bench = Bench::with(&json!("public"));
    bench.tries(NetworkVerdict::Allowed, "a.example");
    let call = bench.server.call("GET", &format!("{}/log?after=0", bench.path));
    let mut stream = BufReader::new(call.header("Accept", "text/event-stream").open());
    let (first, name, data) = next_event(&mut stream).unwrap();
    assert_eq!((name.as_str(), &data["host"]), ("entry", &json!("a.example")));
    bench.tries(NetworkVerdict::Denied, "b.example");
    let (_, _, data) = next_event(&mut stream).unwrap();
    assert_eq!(data["host"], "b.example");
    let again = bench.server.call("GET", &format!("{}/log", bench.path)).header("Last-Event-ID", &first);
    let mut stream = BufReader::new(again.header("Accept", "text/event-stream").open());
    assert_eq!(next_event(&mut stream).unwrap().2["host"], "b.example", "it goes on after what was seen");
}

#[test]
fn what_waits_is_answered_once() {
    let bench = Bench::with(&json!({"mode": "ask", "allow": ["a.example"]}));
    assert_eq!(bench.get("/requests").expect(200).json(), json!({"items": []}));
    bench.tries(NetworkVerdict::Asked, "b.example");
    bench.tries(NetworkVerdict::Asked, "b.example");
    assert_eq!(bench.get("").json()["pending"], 1);
    let asks = bench.get("/requests").expect(200).json();
    let ask = &asks["items"][0];
    assert_eq!(
        (&ask["host"], &ask["count"], &ask["rule"]),
        (&json!("b.example"), &json!(2), &json!("b.example:443"))
    );
    let one = format!("/requests/{}", ask["number"]);
    for (body, field) in [
        (json!({}), "answer"),
        (json!({"answer": "maybe"}), "answer"),
        (json!({"answer": "allow", "for_s": 0}), "for_s"),
        (json!({"answer": "allow", "always": true}), "always"),
    ] {
        assert_eq!(bench.post(&one, &body).expect(422).json()["field"], field, "{body}");
    }
    let now = bench.post(&one, &json!({"answer": "allow", "for_s": 60})).expect(200).json();
    assert_eq!((&now["pending"], &now["policy"]["grants"][0]["rule"]), (&json!(0), &json!("b.example:443")));
    for number in
        [one.as_str(), "/requests/7", "/requests/x", "/requests/-1", "/requests/99999999999999999999"]
    {
        let refused = bench.post(number, &json!({"answer": "deny"})).expect(404);
        assert_eq!(refused.code(), "network_request_not_found", "{number}");
    }
}

#[test]
fn what_was_learned_can_be_given_back() {
    let bench = Bench::with(&json!("learn"));
    bench.tries(NetworkVerdict::Allowed, "a.example");
    bench.tries(NetworkVerdict::Allowed, "b.example");
    let learned = bench.get("/learned").expect(200).json();
    assert_eq!(learned, json!({"mode": "allow", "allow": ["a.example:443", "b.example:443"]}));
    let now = bench.put(&learned).expect(200).json();
    assert_eq!(now["policy"]["allow"], learned["allow"]);
}

#[test]
fn a_machine_without_networks_says_so() {
    let bench = Bench::with(&json!("public"));
    bench.server.networks.break_down("nftables is missing");
    let refused =
        bench.server.call("POST", "/v1/sandboxes").json(&json!({"network": "public"})).send().expect(422);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("nftables is missing"), "{detail}");
    bench.server.call("POST", "/v1/sandboxes").json(&json!({"network": "none"})).send().expect(201);
    let health = bench.server.call("GET", "/v1/health").send().expect(200).json();
    assert_eq!(health["no_network"], "nftables is missing");
    let refused = bench.put(&json!("learn")).expect(422);
    assert_eq!(refused.code(), "network_unavailable");
}

#[test]
fn a_host_that_fails_is_no_fault_of_the_caller() {
    let bench = Bench::with(&json!("public"));
    bench.server.networks.fail_next("attach");
    let failed = bench.server.call("POST", "/v1/sandboxes").json(&json!({"network": "public"})).send();
    assert_eq!(failed.expect(503).code(), "start_failed");
}

#[test]
fn whoever_may_only_read_changes_nothing_and_strangers_see_nothing() {
    let bench = Bench::with(&json!({"mode": "ask", "allow": ["a.example"]}));
    let reader = bench.server.key("default", Scope::Read);
    bench.server.stranger("GET", &bench.path).key(&reader).send().expect(200);
    let changes = [
        ("PUT", String::new(), json!("none")),
        ("POST", "/allow".to_owned(), json!({"rules": ["b.example"]})),
        ("POST", "/deny".to_owned(), json!({"rules": ["b.example"]})),
        ("POST", "/requests/1".to_owned(), json!({"answer": "allow"})),
    ];
    let stranger = bench.server.key("stranger", Scope::Use);
    for (method, rest, body) in &changes {
        let call = |path: &str| bench.server.stranger(method, &format!("{path}{rest}")).json(body);
        call(&bench.path).key(&reader).send().expect(403);
        assert_eq!(call(&bench.path).key(&stranger).send().expect(404).code(), "sandbox_not_found");
        assert_eq!(call(NOBODY).key(&stranger).send().expect(404).code(), "sandbox_not_found");
    }
    for rest in ["", "/log", "/requests", "/learned"] {
        let path = format!("{}{rest}", bench.path);
        bench.server.stranger("GET", &path).key(&stranger).send().expect(404);
        let follow = bench.server.stranger("GET", &path).key(&stranger).header("Accept", "text/event-stream");
        follow.send().expect(404);
    }
    assert_eq!(bench.get("").json()["policy"]["grants"], json!([]));
}

#[test]
fn links_are_counted() {
    let bench = Bench::with(&json!({"mode": "ask", "allow": ["a.example"]}));
    bench.tries(NetworkVerdict::Asked, "b.example");
    let text = String::from_utf8(bench.server.call("GET", "/metrics").send().expect(200).body).unwrap();
    for line in [
        "warren_network_available 1",
        r#"warren_network_links{mode="ask"} 1"#,
        r#"warren_network_links{mode="public"} 0"#,
        "warren_network_pending_requests 1",
        r#"warren_network_bytes_total{direction="sent"} 0"#,
        "warren_network_denied_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    let usage =
        bench.server.call("GET", &format!("/v1/sandboxes/{}/usage", bench.id)).send().expect(200).json();
    assert_eq!(usage["network"]["sent_bytes"], 0, "{usage}");
}
