//! Snapshots with processes: behind gVisor they go on where they were, in any number of copies.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use serde_json::json;
use warren_e2e::{Output, TestEnv, TestServer, eventually};
use warren_engine::EngineStep;
use warren_isolate::CrashPoint;
use warren_wire::client::SandboxQuery;

const SIGKILL: i32 = 9;
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts in its memory alone, and tells how far it is.
const COUNTER: &str = "n=0; while :; do n=$((n+1)); echo $n > /tmp/count; sleep 0.1; done";

fn serve(env: &TestEnv) -> TestServer<'_> {
    TestServer::setup(env).set("backends.enabled", "[runsc, native]").start()
}

fn counter(server: &TestServer<'_>) -> String {
    let id = server.warren(["create", "--backend", "runsc", "--user", "root"]).ok().line();
    server.warren(["exec", &id, "--detach", "--tag", "counter", "--", "sh", "-c", COUNTER]).ok();
    eventually(PATIENCE, "it counts", || !server.shell(&id, "cat /tmp/count 2>/dev/null; true").is_empty());
    id
}

#[track_caller]
fn count(server: &TestServer<'_>, id: &str) -> u32 {
    // The file is empty for a moment each time that it is written.
    let mut last = None;
    eventually(PATIENCE, "it tells how far it is", || {
        last = server.shell(id, "cat /tmp/count").parse().ok();
        last.is_some()
    });
    last.unwrap_or_default()
}

#[track_caller]
fn goes_on(server: &TestServer<'_>, id: &str, from: u32) {
    let now = count(server, id);
    assert!(now >= from && now < from + 200, "it went on from {from}, and is at {now}");
    eventually(PATIENCE, "it goes on counting", || count(server, id) > now);
}

#[test]
fn processes_go_on_after_the_snapshot_after_rollbacks_and_in_forks() {
    let env = TestEnv::new();
    let server = serve(&env);
    let id = counter(&server);
    let before = count(&server, &id);
    let taken = server.warren(["snapshot", &id, "--memory", "--name", "warm", "--json"]).ok().json();
    assert_eq!(taken["memory"], json!(true), "{taken}");
    goes_on(&server, &id, before);
    eventually(PATIENCE, "it is far ahead", || count(&server, &id) > before + 30);
    for _ in 0..2 {
        server.warren(["rollback", &id, "warm"]).ok().says("its processes go on");
        let back = count(&server, &id);
        assert!(back >= before && back < before + 30, "{before} when it was captured, {back} now");
        goes_on(&server, &id, back);
    }
    // Copies have one past, and each a life of its own.
    let forks = server.warren(["fork", &format!("{id}:warm"), "-n", "2"]).ok().text();
    for fork in forks.lines() {
        goes_on(&server, fork, before);
        server.warren(["kill", fork, "tag:counter"]).ok();
        assert!(server.warren(["ps", fork]).ok().text().contains("counter"), "the agent knows it, too");
    }
    goes_on(&server, &id, count(&server, &id));
    // Nothing of it is lost by a restart of the server, nor by a stop in between.
    server.warren(["stop", &id]).ok();
    server.warren(["rollback", &id, "warm"]).ok().says("its processes go on");
    server.warren(["resume", &id]).ok();
    goes_on(&server, &id, before);
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    let listed = server.warren(["ps", &id]).ok().text();
    assert!(!listed.contains("counter"), "a start after a stop begins anew: {listed}");
    server.finish();
}

#[test]
fn a_rollback_says_when_it_brings_files_alone() {
    let env = TestEnv::new();
    let server = serve(&env);
    let id = counter(&server);
    server.warren(["snapshot", &id, "--name", "files"]).ok();
    server.warren(["snapshot", &id, "--memory", "--name", "warm"]).ok();
    let told = |words: &[&str]| server.warren(words).ok().json()["memory"].clone();
    assert_eq!(told(&["rollback", &id, "files", "--json"]), json!(null));
    assert_eq!(told(&["rollback", &id, "warm", "--json"]), json!(true));
    // An undo is about files.
    assert_eq!(told(&["undo", &id, "--json"]), json!(null));
    server.warren(["move", &id, "--backend", "native"]).ok();
    server.warren(["rollback", &id, "warm"]).ok().says("files only");
    assert_eq!(server.shell(&id, "test -e /tmp/count && echo there"), "there");
    server.finish();
}

#[test]
fn what_cannot_be_captured_is_refused_and_goes_on() {
    let env = TestEnv::new();
    let server = serve(&env);
    let native = server.warren(["create", "--backend", "native"]).ok().line();
    server.warren(["snapshot", &native, "--memory"]).ended(125).says("`memory_snapshots`");
    let id = counter(&server);
    let at = format!("/v1/sandboxes/{id}/snapshots");
    let answer = server.ask("POST", &at, Some(&json!({"force": true})));
    assert_eq!(answer.status, 422, "{answer:?}");
    // Somebody waits for a command: its connection would break.
    let mut waits = server.command(["exec", &id, "--", "sleep", "1000"]).spawn().expect("it starts");
    eventually(PATIENCE, "it runs", || server.warren(["ps", &id]).ok().text().contains("sleep 1000"));
    server.warren(["snapshot", &id, "--memory"]).ended(125).says("--force");
    server.warren(["snapshot", &id, "--memory", "--force"]).ok();
    goes_on(&server, &id, 1);
    assert!(server.warren(["ps", &id]).ok().text().contains("sleep 1000"), "it goes on by itself");
    waits.kill().ok();
    waits.wait().ok();
    server.warren(["pause", &id]).ok();
    server.warren(["snapshot", &id, "--memory"]).ended(125).says("resume");
    server.warren(["resume", &id]).ok();
    server.warren(["stop", &id]).ok();
    server.warren(["snapshot", &id, "--memory"]).ended(125).says("does not run");
    server.finish();
}

/// Processes may be lost, as with the machine; files are not, and nothing is left over.
#[test]
fn a_server_that_is_killed_while_processes_are_captured_loses_no_file() {
    let env = TestEnv::new();
    let mut server = serve(&env);
    let id = counter(&server);
    server.shell(&id, "echo whole > file");
    let engine = EngineStep::ALL.map(EngineStep::name).into_iter().filter(|step| step.contains(".memory."));
    let backend =
        CrashPoint::ALL.map(CrashPoint::name).into_iter().filter(|step| step.starts_with("memory."));
    for step in engine.chain(backend) {
        server.kill();
        server.start_again_with(|setup| setup.crash_at(step));
        let asked: Output = server.warren(["snapshot", &id, "--memory"]);
        let status = server.ended(PATIENCE);
        assert_eq!(status.signal(), Some(SIGKILL), "`{step}` is not come past: {asked:?}");
        server.start_again();
        server.assert_agreement();
        if server.status(&id) != "ready" {
            server.warren(["resume", &id]).ok();
        }
        assert_eq!(server.shell(&id, "cat file"), "whole", "{step}");
        let listed = server.client().sandboxes(&SandboxQuery::default()).expect("they are listed").items;
        assert_eq!(listed.len(), 1, "{step}");
    }
    server.warren(["snapshot", &id, "--memory"]).ok();
    assert_eq!(server.shell(&id, "cat file"), "whole");
    server.finish();
}
