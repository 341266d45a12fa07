//! Every route of every face, tried without a key, with keys that are worth nothing, with each
//! scope, and as another owner.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use warren_core::Scope;
use warren_server::{Access, Audience, Face, Route, faces};

use crate::routes::{Things, body as body_of_v1};
use crate::support::{Answer, Call, TestServer};

const CHAT: &str = "0b5ac4d6-6a0f-4d0e-9a54-5a3b1de2a001";

/// The values that paths are filled with: things of one owner, or of nobody.
struct Objects {
    v1: Things,
    /// A sandbox that was made through E2B.
    sandbox: String,
    /// The token of the sandbox.
    token: String,
    template: String,
    build: String,
    alias: String,
    chat: String,
}

impl Objects {
    fn of_owner(server: &TestServer) -> Self {
        let made = |path: &str, body: Value| server.call("POST", path).json(&body).pass().json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let sandbox = made("/e2b/v2/sandboxes", json!({"templateID": "base", "timeout": 300}));
        let build = made("/e2b/v3/templates", json!({"name": "mine"}));
        Self {
            v1: Things::of_owner(server),
            sandbox: text(&sandbox["sandboxID"]),
            token: text(&sandbox["envdAccessToken"]),
            template: text(&build["templateID"]),
            build: text(&build["buildID"]),
            alias: "mine".to_owned(),
            chat: CHAT.to_owned(),
        }
    }

    fn of_nobody() -> Self {
        Self {
            v1: Things::of_nobody(),
            sandbox: "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
            token: "0".repeat(64),
            template: "nobodys".to_owned(),
            build: "00000000-0000-4000-8000-000000000000".to_owned(),
            alias: "unheard-of".to_owned(),
            chat: CHAT.replace("0b5a", "ffff"),
        }
    }

    /// A request for the row, without anything that opens it.
    fn call(&self, server: &TestServer, face: &Face, route: &Route) -> Call {
        if face.name == "v1" {
            let call = server.stranger(route.method.as_str(), &self.v1.path(route));
            return match body_of_v1(route) {
                Some(body) => call.json(&body),
                None if route.method == "PUT" || route.operation == "import_snapshots" => call.body(*b"x"),
                None => call,
            };
        }
        let path = route
            .path
            .replace("{id}", &self.sandbox)
            .replace("{sandbox_id}", &self.sandbox)
            .replace("{template}", &self.template)
            .replace("{build}", &self.build)
            .replace("{alias}", &self.alias)
            .replace("{hash}", &"a".repeat(64))
            .replace("{tag}", "default")
            .replace("{chat_id}", &self.chat);
        assert!(!path.contains('{'), "tell this test how to fill {}", route.path);
        let call = server.stranger(route.method.as_str(), &format!("{}{path}", face.place));
        let call = match face.name {
            "envd" => call.header("E2b-Sandbox-Id", &self.sandbox).header("E2b-Sandbox-Port", "49983"),
            _ => call,
        };
        if matches!(route.method.as_str(), "GET" | "DELETE") { call } else { call.json(&json!({})) }
    }

    /// The answer without what tells two requests apart.
    fn essence(&self, answer: &Answer) -> (u16, String) {
        let text = match serde_json::from_slice(&answer.body) {
            Ok(Value::Object(mut body)) => {
                body.remove("request_id");
                Value::Object(body).to_string()
            }
            _ => String::from_utf8_lossy(&answer.body).into_owned(),
        };
        let names = [&self.sandbox, &self.template, &self.build, &self.alias, &self.chat];
        (answer.status, names.iter().fold(text, |text, name| text.replace(name.as_str(), "NAME")))
    }
}

fn is_refused(answer: &Answer) -> bool {
    matches!(answer.status, 401 | 403)
}

/// A server that is patient with strangers.
fn server() -> TestServer {
    TestServer::with(|config| config.auth.max_failures = u64::MAX)
}

/// A key that was good once.
fn revoked(server: &TestServer) -> String {
    let new = json!({"name": "gone", "scope": "admin"});
    let made = server.call("POST", "/v1/keys").json(&new).send().expect(201).json();
    let id = made["key_id"].as_str().unwrap();
    server.call("DELETE", &format!("/v1/keys/{id}")).send().expect(200);
    made["key"].as_str().unwrap().to_owned()
}

#[test]
fn no_row_of_any_face_serves_a_stranger_or_a_key_that_is_worth_nothing() {
    let server = server();
    let (nobody, live) = (Objects::of_nobody(), Objects::of_owner(&server));
    let gone = revoked(&server);
    for face in faces() {
        // Whether a sandbox is there is told before its token is looked at.
        let objects = if face.name == "envd" { &live } else { &nobody };
        for route in &face.routes {
            let call = objects.call(&server, &face, route);
            for (shown, key) in [
                ("no key", None),
                ("a wrong key", Some("0".repeat(40))),
                ("a revoked key", Some(gone.clone())),
            ] {
                let call = key.map_or_else(|| call.clone(), |key| call.clone().key(&key));
                let answer = call.pass();
                let refused = match route.access {
                    Access::Key(_) => answer.status == 401,
                    Access::Public => (answer.status == 401) == (shown != "no key"),
                    Access::Open => !is_refused(&answer),
                    Access::Token => is_refused(&answer),
                };
                assert!(refused, "{} {route:?} with {shown}: {}", face.name, answer.status);
            }
        }
    }
}

#[test]
fn every_row_of_every_face_serves_its_scope_and_none_below() {
    let server = server();
    let nobody = Objects::of_nobody();
    for scope in [Scope::Read, Scope::Use, Scope::Admin] {
        let key = server.key("default", scope);
        for face in faces() {
            for route in &face.routes {
                let Access::Key(needed) = route.access else { continue };
                let answer = nobody.call(&server, &face, route).key(&key).pass();
                let told = format!("{} {route:?} with {scope:?}: {}", face.name, answer.status);
                if scope < needed {
                    assert_eq!(answer.status, 403, "{told}");
                } else {
                    assert!(!is_refused(&answer), "{told}: {}", String::from_utf8_lossy(&answer.body));
                }
            }
        }
    }
}

#[test]
fn what_belongs_to_another_is_answered_like_what_does_not_exist_by_every_face() {
    let server = server();
    let (theirs, nobody) = (Objects::of_owner(&server), Objects::of_nobody());
    let stranger = server.key("stranger", Scope::Admin);
    let mut tried = 0;
    // Those of `/v1` are tried by `routes`, which knows its bodies.
    for face in faces().iter().filter(|face| face.name != "v1" && face.name != "envd") {
        for route in &face.routes {
            if route.audience != Audience::Owner || !route.path.contains('{') {
                continue;
            }
            let foreign = theirs.call(&server, face, route).key(&stranger).pass();
            let unknown = nobody.call(&server, face, route).key(&stranger).pass();
            let told = (theirs.essence(&foreign), nobody.essence(&unknown));
            assert_eq!(told.0, told.1, "{} {route:?}", face.name);
            assert!(!(200..300).contains(&foreign.status) || face.name == "chat", "{} {route:?}", face.name);
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
    server.call("GET", &format!("/e2b/sandboxes/{}", theirs.sandbox)).pass().expect(200);
    server.call("GET", &format!("/e2b/templates/{}", theirs.template)).pass().expect(200);
}

#[test]
fn a_sandbox_is_opened_by_its_own_token_alone() {
    let server = server();
    let (one, other) = (Objects::of_owner(&server), Objects::of_nobody());
    let face = faces().into_iter().find(|face| face.name == "envd").unwrap();
    for route in face.routes.iter().filter(|route| route.access == Access::Token) {
        let call = one.call(&server, &face, route);
        let own = call.clone().header("X-Access-Token", &one.token).pass();
        assert_ne!(own.status, 401, "{route:?}");
        let wrong = call.clone().header("X-Access-Token", &other.token).pass();
        let keyed = call.key(&server.admin).pass();
        assert_eq!((wrong.status, keyed.status), (401, 401), "{route:?}");
    }
}

#[test]
fn rows_have_names_of_their_own_and_say_what_they_do() {
    let mut names = BTreeSet::new();
    for face in faces() {
        let mut places = BTreeSet::new();
        for route in &face.routes {
            assert!(names.insert(route.operation), "{} repeats a name: {route:?}", face.name);
            assert!(places.insert((route.path, route.method.to_string())), "{} {route:?}", face.name);
            assert!(!route.docs.summary.is_empty(), "{} {route:?} has no summary", face.name);
        }
    }
}

#[test]
fn the_list_of_routes_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/routes.md");
    let mut now = "# Routes\n\nMade from the tables of all faces; `make bless` writes it. A scope is the least that a key must have.\n"
        .to_owned();
    for face in faces() {
        write!(now, "\n## {}\n\n| route | who | what |\n|---|---|---|\n", face.name).unwrap();
        for route in &face.routes {
            let who = match route.access {
                Access::Public | Access::Open => "everybody".to_owned(),
                Access::Token => "a token or a signature".to_owned(),
                Access::Key(scope) => format!("{scope:?}").to_lowercase(),
            };
            let place = format!("{} {}{}", route.method, face.place, route.path);
            writeln!(now, "| `{place}` | {who} | {} |", route.docs.summary).unwrap();
        }
    }
    if std::env::var_os("WARREN_BLESS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == now, "docs/routes.md is not current: run `make bless`, and read the difference");
}
