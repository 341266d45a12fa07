//! Ending a server: in order, twice, and in the middle of it.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use warren_e2e::{TestEnv, TestServer};

#[test]
fn a_terminated_server_leaves_its_sandboxes_running() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let id = server.create();
    server.shell(&id, "nohup sleep 1000 >/dev/null 2>&1 & echo kept > file");
    server.terminate();
    let lock = std::fs::metadata(env.data_dir().join("catalog.lock")).unwrap();
    assert_eq!(lock.len(), 0, "the catalog was not closed: a copy of it misses what is in its log");
    assert!(env.backend().port().list().unwrap()[0].alive);
    server.start_again();
    assert_eq!(server.shell(&id, "cat file; pgrep -c sleep"), "kept\n1");
    server.finish();
}

#[test]
fn a_server_that_is_told_to_stop_its_sandboxes_keeps_their_files() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).flag("--stop-sandboxes").start();
    let ids: Vec<String> = (0..8).map(|_| server.create()).collect();
    ids.iter().for_each(|id| drop(server.shell(id, "echo kept > file")));
    server.terminate();
    assert!(env.backend().port().list().unwrap().iter().all(|found| !found.alive));
    server.start_again();
    for id in &ids {
        assert_eq!(server.status(id), "stopped");
        server.warren(["resume", id]).ok();
        assert_eq!(server.shell(id, "cat file"), "kept");
    }
    server.finish();
}

/// Requests may finish within the grace; nobody has to wait for one that never does.
#[test]
fn a_second_signal_ends_the_server_at_once() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).set("server.shutdown_grace", "60s").start();
    let id = server.create();
    let mut waiting = server.command(["exec", &id, "--json", "--", "sleep", "600"]).spawn().unwrap();
    await_process(&server, &id);
    server.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    let asked = Instant::now();
    server.signal(Signal::TERM);
    let status = server.ended(Duration::from_secs(60));
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    assert!(!status.success(), "{status}");
    assert_eq!(waiting.wait().unwrap().code(), Some(125));
    server.start_again();
    assert_eq!(server.shell(&id, "pgrep -c sleep"), "1");
    server.finish();
}

#[test]
fn a_server_that_is_killed_while_it_ends_is_as_if_it_had_crashed() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).flag("--stop-sandboxes").start();
    let ids: Vec<String> = (0..12).map(|_| server.create()).collect();
    ids.iter().for_each(|id| drop(server.shell(id, "echo kept > file")));
    // A busy machine may let it get through with it before it can be killed.
    let killed = (0..5).any(|_| {
        server.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(15));
        server.signal(Signal::KILL);
        let killed = server.ended(Duration::from_secs(60)).signal() == Some(9);
        server.start_again();
        if !killed {
            ids.iter().for_each(|id| drop(server.warren(["resume", id]).ok()));
        }
        killed
    });
    assert!(killed, "it is through with it each time before it can be killed");
    server.assert_agreement();
    for id in &ids {
        if server.status(id) != "ready" {
            server.warren(["resume", id]).ok();
        }
        assert_eq!(server.shell(id, "cat file"), "kept");
    }
    server.finish();
}

#[test]
fn a_waiting_request_is_answered_before_the_server_ends() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let id = server.create();
    let words = ["exec", &id, "--json", "--", "sh", "-c", "sleep 1; echo done"];
    let waiting = server.command(words).spawn().unwrap();
    await_process(&server, &id);
    server.terminate();
    let output = warren_e2e::Output::from(waiting.wait_with_output().unwrap()).ok();
    assert_eq!(output.json()["stdout"], "done\n");
    server.start_again();
    server.finish();
}

fn await_process(server: &TestServer<'_>, id: &str) {
    warren_e2e::eventually(Duration::from_secs(60), "the command runs", || {
        !server.client().processes(id).expect("processes are listed").items.is_empty()
    });
}
