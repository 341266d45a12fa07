//! `warren` as a client: what a stranger types, and what scripts rely on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;
use warren_e2e::{TestEnv, TestServer, eventually};

/// Well formed, and nobody's.
const UNKNOWN: &str = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[test]
fn a_sandbox_is_made_used_looked_at_and_removed() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let made = server.warren(["create", "--ttl", "10m", "--label", "task=tests", "--json"]).ok().json();
    let id = made["sandbox_id"].as_str().unwrap();
    assert!(made["session_id"].as_str().unwrap().starts_with("sess-"));
    assert_eq!((&made["status"], &made["limits"]["ttl_s"]), (&Value::from("ready"), &Value::from(600)));
    let exec = server.warren(["exec", id, "--", "sh", "-c", "echo out; echo err >&2; exit 7"]).ended(7);
    assert_eq!((exec.text().as_str(), exec.errors().as_str()), ("out\n", "err\n"));
    let whole = server.warren(["exec", id, "--json", "--", "sh", "-c", "echo out; exit 7"]).ended(7).json();
    assert_eq!((&whole["exit_code"], &whole["stdout"]), (&Value::from(7), &Value::from("out\n")));
    let fed = server.warren_fed(b"to be counted", ["exec", id, "--", "wc", "-c"]).ok();
    assert_eq!(fed.line(), "13");
    let listed = server.warren(["ls", "--json", "--label", "task=tests"]).ok().json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["sandbox_id"]), (1, &made["sandbox_id"]));
    assert_eq!(
        server.warren(["ls", "--json", "--label", "task=other"]).ok().json(),
        Value::Array(Vec::new())
    );
    assert!(server.warren(["ls"]).ok().text().contains("task=tests"));
    server.warren(["rm", id]).ok();
    server.warren(["rm", id]).ok();
    assert!(!server.warren(["ls"]).ok().text().contains(id));
    assert!(server.warren(["ls", "--all"]).ok().text().contains(id));
    let why = server.warren(["why", id, "--json"]).ok().json();
    assert_eq!((&why["cause"], &why["files_kept"]), (&Value::from("killed"), &Value::from(false)));
    server.finish();
}

#[test]
fn processes_are_listed_followed_and_ended() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let counting = "for i in 1 2 3; do echo line $i; sleep 0.1; done; exec sleep 600";
    let number =
        server.warren(["exec", &id, "--detach", "--tag", "job", "--", "sh", "-c", counting]).ok().line();
    let listed = server.warren(["ps", &id, "--json"]).ok().json();
    assert_eq!((&listed[0]["process_id"].to_string(), &listed[0]["tag"]), (&number, &Value::from("job")));
    eventually(Duration::from_secs(60), "all is written", || {
        server.warren(["logs", &id, "tag:job"]).ok().text() == "line 1\nline 2\nline 3\n"
    });
    let follower = server.command(["logs", &id, "--follow"]).spawn().unwrap();
    server.warren(["kill", &id, "tag:job"]).ok();
    let followed = warren_e2e::Output::from(follower.wait_with_output().unwrap()).ok();
    assert_eq!(followed.text(), "line 1\nline 2\nline 3\n");
    assert!(server.warren(["ps", &id]).ok().text().contains("exited 143"), "15 is the signal");
    server.warren(["kill", &id, "99"]).ended(125).says("warren ps");
    server.finish();
}

#[test]
fn files_and_directories_are_copied_both_ways() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let (tree, back) = (env.path("tree"), env.path("back"));
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    fs::write(tree.join("deep/er/data"), vec![7; 300_000]).unwrap();
    fs::write(tree.join("run me"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(tree.join("run me"), fs::Permissions::from_mode(0o755)).unwrap();
    let inside = format!("{id}:/home/user/");
    server.warren(["cp", tree.to_str().unwrap(), &inside]).ok();
    assert_eq!(server.shell(&id, "'./tree/run me'; wc -c < tree/deep/er/data"), "ran\n300000");
    server.warren(["cp", &format!("{id}:/home/user/tree"), back.to_str().unwrap()]).ok();
    assert_eq!(fs::read(back.join("deep/er/data")).unwrap(), vec![7; 300_000]);
    assert_eq!(fs::metadata(back.join("run me")).unwrap().permissions().mode() & 0o777, 0o755);
    server.warren_fed(b"piped", ["cp", "-", &format!("{id}:/tmp/piped")]).ok();
    assert_eq!(server.warren(["cp", &format!("{id}:/tmp/piped"), "-"]).ok().text(), "piped");
    server.warren(["cp", &format!("{id}:/no/such/file"), "-"]).ended(127);
    server.warren(["cp", "/etc/hostname", "/tmp/x"]).ended(125).says("ID:PATH");
    server.finish();
}

#[test]
fn a_sandbox_is_paused_stopped_and_taken_up_again() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    server.shell(&id, "echo kept > file");
    server.warren(["why", &id]).ended(125).says("has not ended");
    assert_eq!(server.warren(["pause", &id, "--json"]).ok().json()[0]["status"], "paused");
    server.warren(["exec", &id, "--", "true"]).ended(125).says("resume it first");
    assert!(server.warren(["ls"]).ok().text().contains("paused (request)"));
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat file"), "kept");
    server.warren(["stop", &id]).ok();
    let why = server.warren(["why", &id]).ok().text();
    assert!(why.contains("killed, by local") && why.contains(&format!("warren resume {id}")), "{why}");
    server.warren(["exec", &id, "--", "true"]).ended(125);
    server.warren(["pause", &id]).ended(125);
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat file"), "kept");
    server.finish();
}

#[test]
fn sessions_runs_events_figures_and_health_are_shown() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let made = server.warren(["create", "--json"]).ok().json();
    let (id, session) = (made["sandbox_id"].as_str().unwrap(), made["session_id"].as_str().unwrap());
    server.shell(id, "true");
    let listed = server.warren(["sessions", "--json"]).ok().json();
    assert_eq!(
        (&listed[0]["session_id"], &listed[0]["sandbox_id"]),
        (&made["session_id"], &made["sandbox_id"])
    );
    server.warren(["runs", session, "--record", "a task", "--duration-ms", "1500", "--tokens", "20"]).ok();
    let runs = server.warren(["runs", session, "--json"]).ok().json();
    assert_eq!((&runs[0]["task"], &runs[0]["tokens"]), (&Value::from("a task"), &Value::from(20)));
    let details = server.warren(["sessions", "show", session]).ok().json();
    assert_eq!((&details["session"]["totals"]["runs"], &details["runs"]), (&Value::from(1), &runs));
    let events = server.warren(["events", "--json"]).ok().text();
    let names: Vec<String> = events.lines().map(name_of).collect();
    assert_eq!(names[0], "sandbox_created", "{names:?}");
    for name in ["sandbox_ready", "session_acquired", "exec_started", "exec_ended", "run_recorded"] {
        assert!(names.iter().any(|seen| seen == name), "{name} is not in {names:?}");
    }
    let stats = server.warren(["stats", "--json"]).ok().json();
    assert_eq!((&stats["created"], &stats["active_sandboxes"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(server.warren(["health", "--json"]).ok().json()["status"], "ok");
    assert_eq!(server.warren(["sessions", "terminate", session]).ok().line(), "terminated");
    assert_eq!(server.warren(["ls", "-q"]).ok().text(), "");
    server.finish();
}

fn name_of(line: &str) -> String {
    let event: Value = serde_json::from_str(line).expect("an event is JSON");
    event["event"].as_str().expect("it has a name").to_owned()
}

#[test]
fn keys_are_shown_once_and_do_what_their_scope_allows() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let make = |scope: &str| server.warren(["keys", "create", scope, "--scope", scope]).ok().line();
    let (read, other) =
        (make("read"), server.warren(["keys", "create", "x", "--owner", "other"]).ok().line());
    let hex = read.strip_prefix("wrn_").unwrap();
    assert!(
        hex.len() == 40 && hex.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
    );
    let listed = server.warren(["keys", "ls", "--json"]).ok().text();
    assert!(listed.contains("\"read\"") && !listed.contains(hex), "{listed}");
    let with_key = |key: &str, words: &[&str]| {
        warren_e2e::Output::from(server.command(words).env("WARREN_API_KEY", key).output().unwrap())
    };
    for form in [hex.to_owned(), format!("wrn_{hex}"), format!("e2b_{hex}")] {
        assert!(with_key(&form, &["ls", "-q"]).ok().text().contains(&id));
        let answer = server.ask_with("GET", "/v1/sandboxes", &[("x-api-key", &form)], None);
        assert_eq!(answer.status, 200, "{form}");
    }
    with_key(&read, &["create"]).ended(125).says("--scope use");
    with_key(&read, &["exec", &id, "--", "true"]).ended(125).says("--scope use");
    with_key(&other, &["keys", "ls"]).ended(125).says("scope");
    // What is another owner's is as if it were not.
    assert_eq!(with_key(&other, &["ls", "-q"]).ok().text(), "");
    with_key(&other, &["rm", &id]).ended(125).says("warren ls");
    with_key(&"0".repeat(40), &["ls"]).ended(125).says("WARREN_API_KEY");
    server.warren(["keys", "create", "x", "--scope", "root"]).ended(2);
    server.finish();
}

#[test]
fn a_server_says_where_it_is_and_local_commands_find_it() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let mode = fs::metadata(server.env_file()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(server.key().starts_with("wrn_") && server.key().len() == 44, "{}", server.key());
    eventually(Duration::from_secs(60), "the first start shows the key", || {
        server.announcements().contains(server.key())
    });
    let mut id = env.warren(["create"]).ok().line();
    assert!(env.warren(["ls"]).ok().text().contains(&id));
    assert_eq!(env.exec(&id, ["echo", "found"]).ok().line(), "found");
    let (key, shown) = (server.key().to_owned(), server.announcements());
    server.terminate();
    env.warren(["create"]).ended(125).says("warren serve");
    server.start_again();
    assert_eq!(server.key(), key);
    assert!(!server.announcements()[shown.len()..].contains(&key), "it is shown once");
    assert_eq!(env.exec(&id, ["echo", "found again"]).ok().line(), "found again");
    server.terminate();
    server.start_again_with(|setup| setup.flag("--reset-key"));
    assert_ne!(server.key(), key);
    assert_eq!(server.ask_with("GET", "/v1/stats", &[("x-api-key", &key)], None).status, 401);
    id = env.warren(["create"]).ok().line();
    assert_eq!(server.status(&id), "ready");
    server.finish();
}

#[test]
fn a_data_directory_may_be_named_from_where_one_is() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let name = env.data_dir().file_name().unwrap().to_owned();
    let mut warren = std::process::Command::new(env.command(["ls"]).get_program());
    warren.current_dir(env.place()).arg("--data-dir").arg(&name);
    let listed = warren.args(["ls", "-q"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim_end(), id);
    let mut second = std::process::Command::new(env.command(["ls"]).get_program());
    second.current_dir(env.place()).arg("--data-dir").arg(&name).args(["serve", "--listen", "127.0.0.1:0"]);
    warren_e2e::Output::from(second.output().unwrap()).ended(125).says("another server");
    server.finish();
}

/// `warren run` needs no server, and what it keeps is not the server's.
#[test]
fn a_server_leaves_sandboxes_of_others_alone() {
    let env = TestEnv::new();
    let kept = env.keep(&[] as &[&str]);
    env.exec(&kept, ["sh", "-c", "echo mine > file"]).ok();
    let mut server = TestServer::setup(&env).set("timeouts.sweep", "1s").start();
    assert_eq!(env.run(["echo", "beside it"]).ok().line(), "beside it");
    let id = server.create();
    std::thread::sleep(Duration::from_millis(1500));
    server.kill();
    server.start_again();
    assert!(!server.warren(["ls"]).ok().text().contains(&kept));
    assert_eq!(env.exec(&kept, ["cat", "file"]).ok().line(), "mine");
    server.warren(["rm", &id]).ok();
    env.remove(&kept).ok();
    server.finish();
}

#[test]
fn wrong_words_are_answered_with_what_is_right() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).flag("--max-sandboxes").flag("1").start();
    for words in
        [["exec", UNKNOWN, "--", "true"].as_slice(), &["rm", UNKNOWN], &["why", UNKNOWN], &["ps", UNKNOWN]]
    {
        server.warren(words).ended(125).says("warren ls");
    }
    server.warren(["rm", "../../etc"]).ended(2).says("is no sandbox: expected an id");
    server.warren(["create", "--ttl", "soon"]).ended(2);
    server.warren(["create", "--template", "nothing-like-it"]).ended(125).says("nothing-like-it");
    server.warren(["create", "--memory", "1m"]).ended(125).says("memory");
    server.warren(["create", "--ttl", "9999h"]).ended(125).says("ttl");
    server.warren(["create", "--mount", "/etc:/x"]).ended(125);
    server.warren(["runs", "sess-0"]).ended(125);
    let id = server.create();
    server.warren(["create"]).ended(125).says("warren rm");
    server.warren(["exec", &id, "--", "no-such-program"]).ended(127);
    server.warren(["exec", &id, "--", "/etc/passwd"]).ended(126);
    server.warren(["exec", &id, "--timeout", "1s", "--", "sleep", "60"]).ended(124);
    server.warren(["exec", &id, "--", "sh", "-c", "kill -9 $$"]).ended(137);
    server.finish();
    let mut nobody = env.command(["ls"]);
    nobody.env("WARREN_URL", "http://127.0.0.1:1").env("WARREN_API_KEY", "0".repeat(40));
    warren_e2e::Output::from(nobody.output().unwrap()).ended(125).says("is the server running?");
}
