use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use warren_core::Scope;

use crate::support::{Answer, PATIENCE, TestServer};

/// A server that keeps what clients send for builds in a directory of the test's own.
struct World {
    server: TestServer,
    key: String,
    _data: TempDir,
}

/// A build that was begun.
struct Begun {
    template: String,
    build: String,
}

impl World {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = TestServer::with(|config| config.server.data_dir = data.path().to_owned());
        let key = server.key("alice", Scope::Use);
        Self { server, key, _data: data }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.call_as(&self.key, method, path, body)
    }

    fn call_as(&self, key: &str, method: &str, path: &str, body: &Value) -> Answer {
        let call = self.server.stranger(method, &format!("/e2b{path}")).header("X-API-KEY", key);
        if body.is_null() { call.pass() } else { call.json(body).pass() }
    }

    fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).expect(200).json()
    }

    fn begin(&self, name: &str, body: &Value) -> Begun {
        let asked = self.call("POST", "/v3/templates", &json!({"name": name})).expect(202).json();
        let text = |name: &str| asked[name].as_str().unwrap().to_owned();
        let (template, build) = (text("templateID"), text("buildID"));
        self.call("POST", &format!("/v2/templates/{template}/builds/{build}"), body).expect(202);
        Begun { template, build }
    }

    fn status(&self, begun: &Begun) -> Value {
        self.get(&format!("/templates/{}/builds/{}/status", begun.template, begun.build))
    }

    /// The state of a build.
    fn outcome(&self, begun: &Begun) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status(begun);
            if ["ready", "error"].contains(&status["status"].as_str().unwrap()) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{status}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Builds what must succeed.
    fn build(&self, name: &str, steps: &Value) -> Begun {
        let begun = self.begin(name, &json!({"fromTemplate": "base", "steps": steps}));
        let status = self.outcome(&begun);
        assert_eq!(status["status"], "ready", "{status}");
        begun
    }

    fn sandbox(&self, template: &str) -> Answer {
        self.call("POST", "/v2/sandboxes", &json!({"templateID": template, "timeout": 60}))
    }

    fn made(&self, template: &str) -> String {
        self.sandbox(template).expect(201).json()["sandboxID"].as_str().unwrap().to_owned()
    }

    /// The output of a command in a sandbox.
    fn run(&self, sandbox: &str, command: &[&str]) -> String {
        let call = self.server.stranger("POST", &format!("/v1/sandboxes/{sandbox}/exec")).key(&self.key);
        let answer = call.json(&json!({"command": command})).send().expect(200).json();
        answer["stdout"].as_str().unwrap().to_owned()
    }

    fn sandboxes(&self) -> Vec<Value> {
        let call = self.server.stranger("GET", "/v1/sandboxes").key(&self.key);
        call.send().expect(200).json()["items"].as_array().unwrap().clone()
    }

    /// Waits for something that happens in the background.
    fn until(&self, what: &str, happened: impl Fn() -> bool) {
        let began = Instant::now();
        while !happened() {
            assert!(began.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn run(command: &str) -> Value {
    json!({"type": "RUN", "args": [command]})
}

fn messages(status: &Value) -> Vec<String> {
    let entries = status["logEntries"].as_array().unwrap();
    entries.iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_template_is_built_of_steps_and_used() {
    let world = World::new();
    let steps = json!([
        run("write /made/by built"),
        {"type": "ENV", "args": ["COLOUR", "red", "BOTH", "dark-$COLOUR"]},
        {"type": "WORKDIR", "args": ["/app"]},
        {"type": "USER", "args": ["bob", "true"]},
        run("echo it works"),
    ]);
    let begun = world.build("My-App", &steps);
    let status = world.outcome(&begun);
    assert!(messages(&status).contains(&"it works".to_owned()), "{status}");
    assert!(messages(&status).contains(&"[1/5] RUN write /made/by built".to_owned()), "{status}");
    assert_eq!((&status["logs"], &status["buildID"]), (&json!([]), &json!(begun.build)));
    for name in ["my-app", "alice/my-app", "my-app:default", begun.template.as_str()] {
        let id = world.made(name);
        assert_eq!(world.run(&id, &["read", "/made/by"]), "built", "{name}");
        let env = world.run(&id, &["env"]);
        assert!(env.contains("COLOUR=red\n") && env.contains("BOTH=dark-red\n"), "{env}");
    }
    let answer = world.sandbox("my-app").expect(201).json();
    assert_eq!((&answer["templateID"], &answer["alias"]), (&json!(begun.template), &json!("my-app")));
    let first = &world.sandboxes()[0];
    assert_eq!((&first["user"], &first["workdir"]), (&json!("bob"), &json!("/app")), "{first}");
}

#[test]
fn the_sandbox_of_a_build_is_hidden_and_goes() {
    let world = World::new();
    let begun = world.begin("app", &json!({"fromTemplate": "base", "steps": [run("sleep 3600")]}));
    let step = "[1/1] RUN sleep 3600".to_owned();
    world.until("the step runs", || messages(&world.status(&begun)).contains(&step));
    let id = world.sandboxes()[0]["sandbox_id"].as_str().unwrap().to_owned();
    assert_eq!(world.get("/v2/sandboxes"), json!([]));
    world.call("GET", &format!("/sandboxes/{id}"), &Value::Null).expect(404);
    assert!(["building", "waiting"].contains(&world.status(&begun)["status"].as_str().unwrap()));
    let stop = world.server.stranger("DELETE", &format!("/v1/sandboxes/{id}")).key(&world.key);
    stop.send().expect(200);
    let status = world.outcome(&begun);
    assert_eq!((&status["status"], &status["reason"]["step"]), (&json!("error"), &json!("1")), "{status}");
    assert!(world.sandboxes().is_empty());
    world.build("app", &json!([]));
    world.until("the sandbox of the build goes", || world.sandboxes().is_empty());
}

#[test]
fn a_template_survives_the_sandbox_that_it_was_built_in() {
    let world = World::new();
    world.build("app", &json!([run("write /kept yes")]));
    world.until("the sandbox of the build goes", || world.sandboxes().is_empty());
    let first = world.made("app");
    assert_eq!(world.run(&first, &["read", "/kept"]), "yes");
    assert_eq!(world.run(&first, &["write", "/kept", "changed"]), "");
    let second = world.made("app");
    assert_eq!(world.run(&second, &["read", "/kept"]), "yes", "each begins with the template");
}

#[test]
fn a_failing_step_is_named_with_its_command() {
    let world = World::new();
    let begun = world
        .begin("app", &json!({"fromTemplate": "base", "steps": [run("true"), run("fail"), run("true")]}));
    let status = world.outcome(&begun);
    assert_eq!((&status["status"], &status["reason"]["step"]), (&json!("error"), &json!("2")), "{status}");
    assert_eq!(status["reason"]["message"], "failed to run command 'fail': exit status 3");
    assert!(messages(&status).contains(&"failed".to_owned()), "what it wrote is told: {status}");
    let told = world.sandbox("app").expect(404).json();
    assert_eq!(told["code"], 404);
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("template 'app' with tag 'default' not found"), "{message}");
    assert!(message.contains("its last build failed: failed to run command 'fail'"), "{message}");
    let message = world.sandbox("nobody-has-it").expect(404).json()["message"].to_string();
    assert!(message.contains("template 'nobody-has-it' not found"), "{message}");
    world.until("nothing is left", || world.sandboxes().is_empty());
}

#[test]
fn steps_that_were_done_before_are_not_done_again() {
    let world = World::new();
    let steps = json!([run("write /a 1"), {"type": "ENV", "args": ["A", "1"]}, run("write /b 2")]);
    world.build("one", &steps);
    let cached = |status: &Value| messages(status).iter().filter(|line| line.starts_with("CACHED")).count();
    let longer = json!([steps[0], steps[1], steps[2], run("write /c 3")]);
    let again = world.build("two", &longer);
    assert_eq!(cached(&world.outcome(&again)), 3);
    let id = world.made("two");
    assert_eq!((world.run(&id, &["read", "/a"]), world.run(&id, &["read", "/c"])), ("1".into(), "3".into()));
    assert!(world.run(&id, &["env"]).contains("A=1\n"));
    let other = world.build("three", &json!([steps[0], run("write /b 3")]));
    assert_eq!(cached(&world.outcome(&other)), 1);
    let mut forced = steps.clone();
    forced[1]["force"] = json!(true);
    assert_eq!(cached(&world.outcome(&world.build("four", &forced))), 1);
    let body = json!({"fromTemplate": "base", "steps": steps, "force": true});
    assert_eq!(cached(&world.outcome(&world.begin("five", &body))), 0);
    let on_top = json!({"fromTemplate": "one", "steps": [run("write /d 4")]});
    world.outcome(&world.begin("six", &on_top));
    let id = world.made("six");
    assert_eq!((world.run(&id, &["read", "/b"]), world.run(&id, &["read", "/d"])), ("2".into(), "4".into()));
}

#[test]
fn files_are_sent_to_a_signed_address_and_copied() {
    let world = World::new();
    let hash = "ab".repeat(32);
    let asked =
        world.call("POST", "/v3/templates", &json!({"name": "app:v1", "tags": ["v2"]})).expect(202).json();
    assert_eq!(asked["tags"], json!(["v1", "v2"]));
    let (template, build) = (asked["templateID"].as_str().unwrap(), asked["buildID"].as_str().unwrap());
    let place = format!("/templates/{template}/files/{hash}");
    let upload = world.call("GET", &place, &Value::Null).expect(201).json();
    assert_eq!(upload["present"], false);
    let url = upload["url"].as_str().unwrap();
    let origin = format!("http://{}", world.server.address);
    let path = url.strip_prefix(&origin).unwrap_or_else(|| panic!("{url}"));
    assert!(path.starts_with("/e2b/templates/"), "{path}");
    let put = |path: &str, body: &[u8]| world.server.stranger("PUT", path).body(body).pass();
    put(path, b"the files").expect(200);
    assert_eq!(world.call("GET", &place, &Value::Null).expect(201).json()["present"], true);
    for forged in [
        path.replace("owner=alice", "owner=bob"),
        path.replace("until=", "until=9"),
        path.replace(&hash, &"cd".repeat(32)),
        path.replace("signature=", "signature=0"),
        place.clone(),
    ] {
        let path = if forged.starts_with("/e2b") { forged } else { format!("/e2b{forged}") };
        put(&path, b"evil").expect(403);
    }
    world.server.clock.advance_ms(3 * 3_600_000);
    put(path, b"late").expect(403);
    let copy = json!({"type": "COPY", "args": ["src", "data/", "", ""], "filesHash": hash});
    let steps = json!([{"type": "WORKDIR", "args": ["/srv"]}, copy]);
    let body = json!({"fromImage": "e2bdev/base:latest", "steps": steps});
    world.call("POST", &format!("/v2/templates/{template}/builds/{build}"), &body).expect(202);
    let begun = Begun { template: template.to_owned(), build: build.to_owned() };
    let status = world.outcome(&begun);
    assert_eq!(status["status"], "ready", "{status}");
    let id = world.made("app:v2");
    assert_eq!(world.run(&id, &["read", "/srv/data/"]), "the files");
    world.sandbox("app").expect(404);
}

#[test]
fn files_that_were_not_sent_fail_the_build() {
    let world = World::new();
    let copy = json!({"type": "COPY", "args": ["src", "/data"], "filesHash": "ab".repeat(32)});
    let begun = world.begin("app", &json!({"fromTemplate": "base", "steps": [copy]}));
    let status = world.outcome(&begun);
    assert_eq!((&status["status"], &status["reason"]["step"]), (&json!("error"), &json!("1")));
    assert!(status["reason"]["message"].as_str().unwrap().contains("send them again"), "{status}");
}

#[test]
fn what_cannot_be_built_is_refused_at_once() {
    let world = World::new();
    let asked = world.call("POST", "/v3/templates", &json!({"name": "app"})).expect(202).json();
    let path = format!(
        "/v2/templates/{}/builds/{}",
        asked["templateID"].as_str().unwrap(),
        asked["buildID"].as_str().unwrap()
    );
    let refused = |body: Value, status: u16, why: &str| {
        let answer = world.call("POST", &path, &body).expect(status).json();
        assert_eq!(answer["code"], status);
        assert!(answer["message"].as_str().unwrap().contains(why), "{answer}");
    };
    refused(json!({"fromImage": "ubuntu:22.04"}), 400, "warren template pull ubuntu:22.04");
    refused(json!({"fromTemplate": "nobody-has-it"}), 404, "template 'nobody-has-it' not found");
    refused(json!({"fromTemplate": "bob/app"}), 404, "template 'app' not found");
    refused(json!({"steps": []}), 400, "fromTemplate");
    refused(json!({"fromTemplate": "base", "fromImage": "base"}), 400, "either");
    refused(json!({"fromTemplate": "base", "steps": [{"type": "ADD"}]}), 400, "steps[0]");
    world.call("POST", "/v3/templates", &json!({})).expect(400);
    for name in ["a/b/c", "bob/app", "app:", ":v1", "a b", "app:00000000-0000-4000-8000-000000000000"] {
        world.call("POST", "/v3/templates", &json!({"name": name})).expect(400);
    }
    world.call("POST", "/v3/templates", &json!({"name": "app", "tags": [":v1"]})).expect(400);
    // It has not begun, and can still be.
    world.call("POST", &path, &json!({"fromTemplate": "base"})).expect(202);
    world.call("POST", &path, &json!({"fromTemplate": "base"})).expect(409);
}

#[test]
fn tags_name_builds_and_move() {
    let world = World::new();
    let first = world.build("app", &json!([run("write /v 1")]));
    let body = json!({"target": "app", "tags": ["v1", "stable"]});
    let tagged = world.call("POST", "/templates/tags", &body).expect(201).json();
    assert_eq!((&tagged["buildID"], &tagged["tags"]), (&json!(first.build), &json!(["v1", "stable"])));
    world.build("app", &json!([run("write /v 2")]));
    let read = |name: &str| world.run(&world.made(name), &["read", "/v"]);
    assert_eq!((read("app"), read("app:v1"), read("alice/app:stable")), ("2".into(), "1".into(), "1".into()));
    let tags = world.get(&format!("/templates/{}/tags", first.template));
    let names: Vec<_> = tags.as_array().unwrap().iter().map(|tag| tag["tag"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "stable", "v1"]);
    assert_eq!(world.get("/templates/app/tags/count"), json!({"total": 3}));
    assert_eq!(
        world.get("/templates/app/tags/exists?tag=V1"),
        json!({"exists": true, "normalizedTag": "v1"})
    );
    let groups = world.get("/templates/app/tags/groups?search=st");
    assert_eq!(groups["tags"][0]["assignments"][0]["buildId"], json!(first.build), "{groups}");
    assert_eq!(world.get("/templates/app/tags/v1/assignments")["data"][0]["buildId"], json!(first.build));
    world.call("DELETE", "/templates/tags", &json!({"name": "app", "tags": ["v1"]})).expect(204);
    world.call("DELETE", "/templates/tags", &json!({"name": "app", "tags": ["v1"]})).expect(404);
    world.sandbox("app:v1").expect(404);
    world.call("POST", "/templates/tags", &json!({"target": "app:none", "tags": ["x"]})).expect(404);
    for tag in [":x", "x:", "", "00000000-0000-4000-8000-000000000000"] {
        world.call("POST", "/templates/tags", &json!({"target": "app", "tags": [tag]})).expect(400);
    }
}

#[test]
fn templates_are_listed_and_deleted() {
    let world = World::new();
    assert_eq!(world.get("/templates"), json!([]));
    let one = world.build("one", &json!([]));
    world.server.clock.advance_ms(1000);
    let two = world.build("two", &json!([]));
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|row| row["templateID"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&world.get("/templates")), [two.template.as_str(), one.template.as_str()]);
    let page = world.call("GET", "/v2/templates?limit=1", &Value::Null).expect(200);
    assert_eq!(ids(&page.json()), [two.template.as_str()]);
    let token = page.header("x-next-token").unwrap();
    let rest =
        world.call("GET", &format!("/v2/templates?limit=1&nextToken={token}"), &Value::Null).expect(200);
    assert_eq!((ids(&rest.json()), rest.header("x-next-token")), (vec![one.template.clone()], None));
    let whole = world.get("/templates/one");
    assert_eq!((&whole["names"], &whole["aliases"]), (&json!(["alice/one"]), &json!(["one"])));
    assert_eq!((&whole["buildStatus"], &whole["buildCount"]), (&json!("ready"), &json!(1)));
    assert_eq!(whole["builds"][0]["buildID"], json!(one.build));
    assert!(ids(&world.get("/default-templates")).contains(&"host".to_owned()));
    assert_eq!(world.get("/templates/aliases/one")["templateID"], json!(one.template));
    assert_eq!(world.get("/templates/aliases/base"), json!({"templateID": "base", "public": true}));
    world.call("GET", "/templates/aliases/three", &Value::Null).expect(404);
    let updated = world.call("PATCH", "/v2/templates/one", &json!({"public": false})).expect(200).json();
    assert_eq!(updated, json!({"names": ["alice/one"]}));
    world.call("PATCH", "/v2/templates/one", &json!({"public": true})).expect(400);
    let lives = world.made("one");
    world.call("DELETE", "/templates/alice%2Fone%3Adefault", &Value::Null).expect(204);
    world.call("DELETE", &format!("/templates/{}", one.template), &Value::Null).expect(404);
    world.sandbox("one").expect(404);
    assert_eq!(world.run(&lives, &["echo", "on"]), "on\n", "what was made of it goes on");
}

#[test]
fn owners_know_nothing_of_one_another() {
    let world = World::new();
    let begun = world.build("app", &json!([run("write /secret 1")]));
    let bob = world.server.key("bob", Scope::Use);
    let ask = |method: &str, path: &str, body: Value| world.call_as(&bob, method, path, &body);
    assert_eq!(ask("GET", "/templates", Value::Null).expect(200).json(), json!([]));
    let made = |name: &str| ask("POST", "/v2/sandboxes", json!({"templateID": name, "timeout": 60}));
    let missing = made("no-such-template").expect(404).json()["message"].as_str().unwrap().to_owned();
    for name in ["app", "alice/app", begun.template.as_str()] {
        let message = made(name).expect(404).json()["message"].as_str().unwrap().to_owned();
        let plain = name.rsplit('/').next().unwrap();
        assert!(missing.replace("no-such-template", plain).starts_with(&message), "{message}");
    }
    for path in [
        "",
        "/tags",
        "/tags/count",
        "/files/0000000000000000000000000000000000000000000000000000000000000000",
    ] {
        ask("GET", &format!("/templates/{}{path}", begun.template), Value::Null).expect(404);
    }
    let status = format!("/templates/{}/builds/{}/status", begun.template, begun.build);
    ask("GET", &status, Value::Null).expect(404);
    ask("GET", "/templates/aliases/app", Value::Null).expect(404);
    ask("DELETE", "/templates/app", Value::Null).expect(404);
    ask("DELETE", "/templates/alice%2Fapp", Value::Null).expect(404);
    ask("POST", "/templates/tags", json!({"target": "alice/app", "tags": ["x"]})).expect(404);
    ask(
        "POST",
        &format!("/v2/templates/{}/builds/{}", begun.template, begun.build),
        json!({"fromTemplate": "base"}),
    )
    .expect(404);
    world.server.stranger("GET", "/e2b/templates").pass().expect(401);
    assert_eq!(world.get("/templates").as_array().unwrap().len(), 1);
}

#[test]
fn a_start_command_runs_in_every_sandbox_and_is_waited_for() {
    let world = World::new();
    let body = json!({"fromTemplate": "base", "startCmd": "listen 8000", "readyCmd": "true"});
    let status = world.outcome(&world.begin("web", &body));
    assert_eq!(status["status"], "ready", "{status}");
    let begun = world.begin("more", &json!({"fromTemplate": "web", "steps": [run("true")]}));
    assert_eq!(world.outcome(&begun)["status"], "ready");
    for name in ["web", "more"] {
        let id = world.made(name);
        let call = world.server.stranger("GET", &format!("/v1/sandboxes/{id}/processes")).key(&world.key);
        let list = call.send().expect(200).json().to_string();
        assert!(list.contains("listen 8000"), "{name}: {list}");
    }
    let never = json!({"fromTemplate": "base", "startCmd": "not-a-program", "readyCmd": "true"});
    world.outcome(&world.begin("odd", &never));
    world.made("odd");
}

#[test]
fn a_snapshot_is_a_template_and_outlives_its_sandbox() {
    let world = World::new();
    let source = world.made("base");
    world.run(&source, &["write", "/work", "done"]);
    let take =
        |body: Value| world.call("POST", &format!("/sandboxes/{source}/snapshots"), &body).expect(201).json();
    let (unnamed, named) = (take(json!({})), take(json!({"name": "saved"})));
    assert_eq!(
        (&named["snapshotID"], &named["names"]),
        (&json!("alice/saved:default"), &json!(["alice/saved:default"]))
    );
    assert_eq!(unnamed["names"], json!([]));
    world.call("DELETE", &format!("/sandboxes/{source}"), &Value::Null).expect(204);
    let listed = world.get(&format!("/snapshots?sandboxID={source}"));
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    for snapshot in [&unnamed, &named] {
        let id = world.made(snapshot["snapshotID"].as_str().unwrap());
        assert_eq!(world.run(&id, &["read", "/work"]), "done");
    }
    let on_top = world.begin("more", &json!({"fromTemplate": "saved", "steps": [run("write /more 1")]}));
    assert_eq!(world.outcome(&on_top)["status"], "ready");
    assert_eq!(world.run(&world.made("more"), &["read", "/work"]), "done");
    let path = named["snapshotID"].as_str().unwrap().replace('/', "%2F").replace(':', "%3A");
    world.call("DELETE", &format!("/templates/{path}"), &Value::Null).expect(204);
    world.call("DELETE", &format!("/templates/{path}"), &Value::Null).expect(404);
    world.sandbox("saved").expect(404);
    assert_eq!(world.run(&world.made("more"), &["read", "/work"]), "done", "what was built on it stays");
}

#[test]
fn a_log_is_read_in_parts() {
    let world = World::new();
    let begun = world.build("app", &json!([run("yes 250")]));
    let path = format!("/templates/{}/builds/{}", begun.template, begun.build);
    let (mut offset, mut lines) = (0, Vec::new());
    loop {
        let status = world.get(&format!("{path}/status?logsOffset={offset}"));
        let part = messages(&status);
        assert!(part.len() <= 100);
        if part.is_empty() {
            break;
        }
        offset += part.len();
        lines.extend(part);
    }
    assert_eq!(lines.iter().filter(|line| *line == "y").count(), 250);
    let last = world.get(&format!("{path}/logs?direction=backward&limit=1"));
    assert_eq!(last["logs"][0]["message"], "Build finished", "{last}");
    assert_eq!(world.get(&format!("{path}/logs?level=error")), json!({"logs": []}));
    world.call("GET", &format!("{path}/logs?level=loud"), &Value::Null).expect(400);
}
