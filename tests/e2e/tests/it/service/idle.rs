//! Changes of sandboxes because time passes.

use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::json;
use warren_e2e::{TestEnv, TestServer, eventually};

/// The server looks each second, and a debug build on two processors is not quick.
const SOON: Duration = Duration::from_secs(60);

fn server(env: &TestEnv) -> TestServer<'_> {
    TestServer::setup(env).set("timeouts.sweep", "1s").start()
}

fn create(server: &TestServer<'_>, flags: &[&str]) -> String {
    server.warren([&["create"], flags].concat()).ok().line()
}

fn paused_by(server: &TestServer<'_>, id: &str) -> Option<String> {
    let sandbox = server.client().sandbox(id).expect("it is known");
    sandbox.paused_by.map(|by| format!("{by:?}").to_lowercase())
}

#[test]
fn an_idle_sandbox_is_frozen_and_goes_on_when_it_is_needed() {
    let env = TestEnv::new();
    let server = server(&env);
    let id = create(&server, &["--idle", "1s"]);
    server.shell(&id, "nohup sleep 1000 >/dev/null 2>&1 & echo work > file");
    eventually(SOON, "it is frozen", || paused_by(&server, &id).as_deref() == Some("idleness"));
    assert!(env.backend().port().list().unwrap()[0].frozen);
    assert_eq!(server.shell(&id, "cat file; pgrep -c sleep"), "work\n1");
    assert_eq!(server.status(&id), "ready");
    eventually(SOON, "it is frozen again", || server.status(&id) == "paused");
    let file = server.client().read_file(&id, "/home/user/file", None).expect("a file can be read");
    assert_eq!(std::io::read_to_string(file).unwrap(), "work\n");
    server.finish();
}

/// Work, a listener and an announced pause each keep a sandbox going; one with none of them is the
/// measure of time.
#[test]
fn a_sandbox_that_is_in_use_is_not_frozen() {
    let env = TestEnv::new();
    let server = server(&env);
    let ids: Vec<String> = (0..4).map(|_| create(&server, &["--idle", "6s"])).collect();
    let [idle, busy, listened, thinking] = ids.as_slice() else { panic!("there are four") };
    server.warren(["exec", busy, "--detach", "--", "sh", "-c", "while :; do :; done"]).ok();
    let mut listener = Ended(server.command(["exec", listened, "--", "sleep", "600"]).spawn().unwrap());
    let session = server.warren(["sessions", "--sandbox", thinking, "--json"]).ok().json();
    let path = format!("/v1/sessions/{}/thinking", session[0]["session_id"].as_str().unwrap());
    assert_eq!(server.ask("POST", &path, Some(&json!({"seconds": 60}))).status, 200);
    eventually(SOON, "the idle one is frozen", || server.status(idle) == "paused");
    std::thread::sleep(Duration::from_secs(3));
    for id in [busy, listened, thinking] {
        assert_eq!(server.status(id), "ready");
    }
    listener.0.kill().unwrap();
    eventually(SOON, "it is frozen when nobody listens", || server.status(listened) == "paused");
    server.finish();
}

/// Kills a client that the test did not wait for.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_frozen_sandbox_is_stopped_after_a_while_and_keeps_its_files() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).set("timeouts.sweep", "1s").set("timeouts.suspended", "2s").start();
    let (idle, paused) = (create(&server, &["--idle", "1s"]), create(&server, &[]));
    for id in [&idle, &paused] {
        server.shell(id, "echo work > file");
    }
    server.warren(["pause", &paused]).ok();
    for (id, cause) in [(&idle, "idle"), (&paused, "timeout")] {
        eventually(SOON, "it is stopped", || server.status(id) == "stopped");
        let why = server.warren(["why", id]).ok().text();
        assert!(why.contains(&format!("ended: {cause}")) && why.contains("kept"), "{why}");
        server.warren(["resume", id]).ok();
        assert_eq!(server.shell(id, "cat file"), "work");
    }
    server.finish();
}

#[test]
fn a_life_has_an_end_and_files_outlive_it_unless_told_otherwise() {
    let env = TestEnv::new();
    let mut server = server(&env);
    let kept = create(&server, &["--ttl", "1h"]);
    let deleted = create(&server, &["--ttl", "1h", "--delete-on-expiry"]);
    server.shell(&kept, "echo work > file");
    server.warren(["exec", &kept, "--detach", "--", "sleep", "1000"]).ok();
    // Lives are shortened once they were used, however long a starved machine took for that.
    let shortened = Instant::now();
    for id in [&kept, &deleted] {
        let changed = server.ask("PATCH", &format!("/v1/sandboxes/{id}"), Some(&json!({"ttl_s": 5})));
        assert_eq!(changed.status, 200);
    }
    // The time that a server is away counts.
    server.kill();
    std::thread::sleep(Duration::from_millis(500));
    server.start_again();
    eventually(SOON, "their time is over", || {
        [&kept, &deleted].iter().all(|id| server.status(id) == "stopped")
    });
    assert!(shortened.elapsed() > Duration::from_secs(4), "{:?}", shortened.elapsed());
    let why = server.warren(["why", &kept]).ok().text();
    assert!(why.contains("ended: ttl") && why.contains("time to live"), "{why}");
    assert!(why.contains("sleep 1000"), "{why}");
    assert!(server.warren(["why", &deleted]).ok().text().contains("files    deleted"));
    server.warren(["resume", &deleted]).ended(125);
    server.warren(["resume", &kept]).ok();
    assert_eq!(server.shell(&kept, "cat file; pgrep -c sleep || true"), "work\n0");
    server.finish();
}

/// As when the kernel ends it: the certificate says so, and what it had on disk is there.
#[test]
fn a_sandbox_that_died_says_so_and_keeps_its_files() {
    let env = TestEnv::new();
    let server = server(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo work > file");
    let first = env.backend().port().list().unwrap()[0].pid.unwrap();
    let first = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    eventually(SOON, "its end is seen", || server.status(&id) == "stopped");
    let why = server.warren(["why", &id]).ok().text();
    assert!(why.contains("ended: exit") && why.contains("kept"), "{why}");
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat file"), "work");
    server.finish();
}
