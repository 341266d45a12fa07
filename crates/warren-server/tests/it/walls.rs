//! Backends, tiers and moves over HTTP.

use serde_json::{Value, json};
use warren_core::Scope;
use warren_testkit::Standing;

use crate::support::{PATIENCE, TestServer};

const SANDBOXES: &str = "/v1/sandboxes";

fn made(server: &TestServer, body: &Value) -> Value {
    server.call("POST", SANDBOXES).json(body).send().expect(201).json()
}

fn path(sandbox: &Value, end: &str) -> String {
    format!("{SANDBOXES}/{}{end}", sandbox["sandbox_id"].as_str().unwrap())
}

#[test]
fn backends_are_listed_with_tier_abilities_and_what_is_wrong() {
    let server = TestServer::walled();
    let key = server.key("somebody", Scope::Read);
    let list = server.stranger("GET", "/v1/backends").key(&key).send().expect(200).json();
    let items = list["items"].as_array().unwrap();
    let brief: Vec<_> = items
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["on"] == json!(true), row["healthy"] == json!(true)))
        .collect();
    let expected =
        [("fake", true, true), ("wall", true, true), ("vault", true, false), ("native", false, false)];
    assert_eq!(brief[..4], expected, "{list}");
    assert_eq!((&items[0]["tier"], &items[1]["tier"]), (&json!("namespaces"), &json!("user_kernel")));
    let able = json!({
        "snapshots": "sealed", "memory_snapshots": true, "roots": ["layers"], "network": "namespace",
        "host_mounts": true, "disk_quota": "project", "freeze": true, "outlives_server": true,
    });
    assert_eq!(items[0]["capabilities"], able);
    assert_eq!(items[2]["problems"], json!(["its program is not there"]));
    assert!(items[2].get("tier").is_none() && items[2].get("capabilities").is_none());
    server.stranger("GET", "/v1/backends").send().expect(401);
    let health = server.call("GET", "/v1/health").send().expect(200).json();
    assert_eq!(health["backends"], json!({"fake": true, "wall": true, "vault": false}));
    assert_eq!(health["status"], json!("warning"));
}

#[test]
fn a_tier_chooses_and_what_does_not_fit_is_told_by_field_and_backend() {
    let server = TestServer::walled();
    let sandbox = made(&server, &json!({"tier": "user_kernel"}));
    assert_eq!((&sandbox["backend"], &sandbox["wall"]), (&json!("wall"), &json!({"tier": "user_kernel"})));
    assert!(made(&server, &json!({})).get("wall").is_none(), "nothing was asked for");
    for (body, field, told) in [
        (json!({"tier": "vm"}), "tier", "fake: its tier is `namespaces`, and `vm` is asked for"),
        (json!({"backend": "vault"}), "backend", "vault: it could not be opened: its program is not there"),
        (json!({"backend": "fake", "tier": "user_kernel"}), "backend", "`user_kernel` is asked for"),
        (json!({"backend": "nowhere"}), "backend", "there is no backend of that name here, but fake, wall"),
    ] {
        let problem = server.call("POST", SANDBOXES).json(&body).send().expect(422);
        assert_eq!(
            (problem.code(), problem.field()),
            ("nothing_fits".to_owned(), field.to_owned()),
            "{body}"
        );
        let detail = problem.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(told), "{detail}");
    }
    for body in [json!({"tier": "gvisor"}), json!({"tier": 3}), json!({"backend": ""})] {
        let problem = server.call("POST", SANDBOXES).json(&body).send();
        assert!([400, 422].contains(&problem.status), "{body}: {}", problem.status);
        let field = body.as_object().unwrap().keys().next().unwrap().clone();
        assert_eq!(problem.field(), field, "{body}");
    }
    let body = json!({"client": "me", "sandbox": {"tier": "user_kernel"}});
    let session = server.call("POST", "/v1/sessions").json(&body).send().expect(201).json();
    assert_eq!(session["sandbox"]["backend"], json!("wall"));
    for (body, field) in [
        (json!({"client": "me", "sandbox": {"tier": "vm"}}), "sandbox.tier"),
        (json!({"client": "me", "sandbox": {"backend": "nowhere"}}), "sandbox.backend"),
        (json!({"client": "me", "sandbox": {}, "backend": "nowhere"}), "backend"),
    ] {
        let problem = server.call("POST", "/v1/sessions").json(&body).send().expect(422);
        assert_eq!((problem.code().as_str(), problem.field().as_str()), ("nothing_fits", field), "{body}");
    }
}

#[test]
fn a_sandbox_is_moved_and_the_answer_says_from_where_to_where() {
    let server = TestServer::walled();
    let sandbox = made(&server, &json!({"name": "web"}));
    let to = |body: Value| server.call("POST", &path(&sandbox, "/move")).json(&body).send();
    let moved = to(json!({"tier": "user_kernel"})).expect(200).json();
    assert_eq!((&moved["from"], &moved["to"]), (&json!("fake"), &json!("wall")));
    assert_eq!((&moved["sandbox"]["name"], &moved["sandbox"]["backend"]), (&json!("web"), &json!("wall")));
    assert!(moved["took_ms"].as_f64().unwrap() > 0.0);
    let id = sandbox["sandbox_id"].as_str().unwrap().parse().unwrap();
    let wall = server.wall.as_ref().unwrap();
    assert_eq!((server.isolation.standing(&id), wall.standing(&id)), (None, Some(Standing::Running)));
    let journal = server.call("GET", &path(&sandbox, "/journal")).send().expect(200).json();
    let entry = &journal["items"][0];
    assert_eq!(
        (&entry["action"], &entry["from"], &entry["to"]),
        (&json!("move"), &json!("fake"), &json!("wall"))
    );
    for (body, status, field) in [
        (json!({}), 422, "backend"),
        (json!({"backend": ""}), 422, "backend"),
        (json!({"backend": "vault"}), 422, "backend"),
        (json!({"tier": "vm"}), 422, "tier"),
        (json!({"where": "wall"}), 422, "where"),
    ] {
        let problem = to(body.clone());
        assert_eq!((problem.status, problem.field()), (status, field.to_owned()), "{body}");
    }
    let reader = server.key("default", Scope::Read);
    let body = json!({"backend": "fake"});
    server.stranger("POST", &path(&sandbox, "/move")).key(&reader).json(&body).send().expect(403);
    let other = server.key("other", Scope::Admin);
    server.stranger("POST", &path(&sandbox, "/move")).key(&other).json(&body).send().expect(404);
    to(body).expect(200);
}

#[test]
fn a_sandbox_whose_backend_is_away_says_so_and_is_kept() {
    let server = TestServer::walled();
    let sandbox = made(&server, &json!({"backend": "wall"}));
    server.wall.as_ref().unwrap().go_away();
    let exec = json!({"command": ["true"]});
    let problem = server.call("POST", &path(&sandbox, "/exec")).json(&exec).send().expect(503);
    assert_eq!(problem.code(), "backend_unavailable");
    // The call that noticed it last is told too, so the rest of the text may change at any time.
    let says_so = |shown: &Value| {
        let why = shown["unreachable"].as_str().unwrap_or_default();
        assert!(why.starts_with("the backend `wall` is away"), "{shown}");
    };
    says_so(&server.call("GET", &path(&sandbox, "")).send().expect(200).json());
    says_so(&server.call("GET", SANDBOXES).send().expect(200).json()["items"][0]);
    server.wall.as_ref().unwrap().come_back();
    let began = std::time::Instant::now();
    while server.call("POST", &path(&sandbox, "/exec")).json(&exec).send().status != 200 {
        assert!(began.elapsed() < PATIENCE, "it comes back by itself");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
