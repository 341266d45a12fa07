//! Figures and logs of sandboxes.

use serde_json::{Value, json};
use warren_core::{SandboxId, Scope};

use crate::support::{Call, TestServer, eventually};

fn ask(server: &TestServer, path: &str) -> Call {
    server.stranger("GET", path).header("X-API-KEY", &server.admin)
}

fn make(server: &TestServer) -> SandboxId {
    let call = server.stranger("POST", "/e2b/v2/sandboxes").header("X-API-KEY", &server.admin);
    let made = call.json(&json!({"templateID": "base", "timeout": 600})).pass().expect(201).json();
    made["sandboxID"].as_str().unwrap().parse().unwrap()
}

fn metrics(server: &TestServer, id: &SandboxId, query: &str) -> Vec<Value> {
    let answer = ask(server, &format!("/e2b/sandboxes/{id}/metrics{query}")).pass().expect(200).json();
    answer.as_array().unwrap().clone()
}

#[test]
fn what_a_sandbox_uses_is_told_at_once_and_kept() {
    let server = TestServer::start();
    let id = make(&server);
    server.isolation.change_usage(&id, |usage| {
        usage.memory_bytes = 300 << 20;
        usage.memory_cache_bytes = 100 << 20;
        usage.disk_bytes = 7 << 20;
    });
    let latest = || metrics(&server, &id, "").last().cloned().unwrap();
    // Somebody may have looked before.
    eventually("the new figures are seen", || latest()["memCache"] == 100 << 20);
    let metric = latest();
    assert_eq!((&metric["memUsed"], &metric["diskUsed"]), (&json!(200 << 20), &json!(7 << 20)));
    let info = ask(&server, &format!("/e2b/sandboxes/{id}")).pass().expect(200).json();
    assert_eq!(metric["cpuCount"], info["cpuCount"]);
    assert_eq!(metric["memTotal"].as_u64().unwrap() >> 20, info["memoryMB"].as_u64().unwrap());
    assert_eq!(metric["diskTotal"].as_u64().unwrap() >> 20, info["diskSizeMB"].as_u64().unwrap());
    assert!(metric["cpuUsedPct"].is_number() && metric["timestamp"].is_string());
    let at = metric["timestampUnix"].as_u64().unwrap();
    assert!(!metrics(&server, &id, &format!("?start={at}&end={at}")).is_empty());
    assert!(metrics(&server, &id, &format!("?start={}", at + 1_000_000)).is_empty());
    assert!(metrics(&server, &id, "?end=1").is_empty());
    for wrong in ["?start=x", "?start=2&end=1", "?end=-1"] {
        ask(&server, &format!("/e2b/sandboxes/{id}/metrics{wrong}")).pass().expect(400);
    }
}

#[test]
fn the_last_figures_of_several_sandboxes_are_told_to_their_owner() {
    let server = TestServer::start();
    let (one, two) = (make(&server), make(&server));
    let path = format!("/e2b/sandboxes/metrics?sandbox_ids={one},{two},sbxaaaaaaaaaaaaaaaaaaaaaaaaaa,odd");
    let told = ask(&server, &path).pass().expect(200).json();
    let sandboxes = told["sandboxes"].as_object().unwrap();
    assert_eq!(sandboxes.len(), 2, "{told}");
    assert!(sandboxes[one.as_str()]["memTotal"].is_u64() && sandboxes[two.as_str()]["memTotal"].is_u64());
    let other = server.key("other", Scope::Admin);
    let theirs = server.stranger("GET", &path).header("X-API-KEY", &other).pass().expect(200).json();
    assert_eq!(theirs, json!({"sandboxes": {}}));
    let many = vec![one.as_str(); 101].join(",");
    ask(&server, &format!("/e2b/sandboxes/metrics?sandbox_ids={many}")).pass().expect(400);
}

#[test]
fn figures_of_a_sandbox_that_is_gone_are_gone() {
    let server = TestServer::start();
    let id = make(&server);
    metrics(&server, &id, "");
    let path = format!("/e2b/sandboxes/{id}/metrics");
    let other = server.key("other", Scope::Admin);
    server.stranger("GET", &path).header("X-API-KEY", &other).pass().expect(404);
    let kill = server.stranger("DELETE", &format!("/e2b/sandboxes/{id}"));
    kill.header("X-API-KEY", &server.admin).pass().expect(204);
    let told = ask(&server, &path).pass().expect(404).json();
    assert_eq!(told["code"], 404);
}

#[test]
fn what_happened_in_a_sandbox_is_a_log() {
    let server = TestServer::start();
    let (id, other) = (make(&server), make(&server));
    for sandbox in [&id, &other] {
        let path = format!("/v1/sandboxes/{sandbox}/exec");
        server.call("POST", &path).json(&json!({"command": format!("echo {sandbox}")})).send().expect(200);
    }
    let logs = |query: &str| -> Vec<Value> {
        let told = ask(&server, &format!("/e2b/v2/sandboxes/{id}/logs{query}")).pass().expect(200).json();
        told["logs"].as_array().unwrap().clone()
    };
    let messages = |entries: &[Value]| -> Vec<String> {
        entries.iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    };
    let all = logs("");
    let text = messages(&all).join("\n");
    assert!(text.contains(&format!("echo {id}")) && !text.contains(other.as_str()), "{text}");
    assert!(all.iter().all(|entry| entry["timestamp"].is_string() && entry["fields"].is_object()));
    let mut back = messages(&logs("?direction=backward"));
    back.reverse();
    assert_eq!(back, messages(&all));
    assert_eq!(messages(&logs("?limit=1")), messages(&all[..1]));
    assert_eq!(messages(&logs("?direction=backward&limit=1")), messages(&all[all.len() - 1..]));
    assert_eq!(logs("?search=no+such+words").len() + logs("?level=error").len(), 0);
    assert!(logs("?search=started").len() < all.len() && !logs("?search=started").is_empty());
    assert!(logs("?cursor=99999999999999").is_empty());
    let lines = ask(&server, &format!("/e2b/sandboxes/{id}/logs")).pass().expect(200).json();
    assert_eq!(lines["logEntries"].as_array().unwrap().len(), all.len());
    assert_eq!(lines["logs"][0]["line"], all[0]["message"]);
    for wrong in ["?direction=up", "?level=loud", "?limit=0", "?limit=1001", "?cursor=x"] {
        ask(&server, &format!("/e2b/v2/sandboxes/{id}/logs{wrong}")).pass().expect(400);
    }
    let stranger = server.key("other", Scope::Admin);
    let theirs = server.stranger("GET", &format!("/e2b/v2/sandboxes/{id}/logs"));
    theirs.header("X-API-KEY", &stranger).pass().expect(404);
}

#[test]
fn an_owner_is_a_team() {
    let server = TestServer::start();
    let teams = ask(&server, "/e2b/teams").pass().expect(200).json();
    let team = json!({"teamID": "default", "name": "default", "apiKey": "", "isDefault": true});
    assert_eq!(teams, json!([team]));
    server.stranger("GET", "/e2b/teams").pass().expect(401);
}
