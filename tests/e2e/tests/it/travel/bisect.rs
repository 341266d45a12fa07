//! Which command broke it, and what is kept only if it works.

use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::json;
use warren_e2e::{Output, TestEnv, TestServer, eventually};

use super::support::{create, log, take};

fn count(server: &TestServer<'_>) -> usize {
    server.warren(["ls", "-q"]).ok().text().lines().count()
}

#[test]
fn the_command_that_broke_it_is_found() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo good > state");
    take(&server, &id, &["--name", "works"]);
    for number in 0..20 {
        let line = if number == 13 { "echo bad > state" } else { "date +%N >> noise" };
        server.shell(&id, line);
    }
    let culprit = log(&server, &id)
        .into_iter()
        .find(|entry| entry["command"].as_str().is_some_and(|line| line.contains("bad")))
        .unwrap();
    let found = server
        .warren(["bisect", &id, "--good", "works", "--json", "--", "grep", "-q", "good", "state"])
        .ok()
        .json();
    assert_eq!(found["culprits"][0]["number"], culprit["number"], "{found}");
    assert_eq!(found["culprits"].as_array().unwrap().len(), 1);
    assert_eq!(found["changes"][0]["path"], "/home/user/state");
    assert!(found["runs"].as_u64().is_some_and(|runs| runs <= 5), "{found}");
    let told =
        server.warren(["bisect", &id, "--good", "works", "--", "grep", "-q", "good", "state"]).ok().text();
    assert!(told.contains("echo bad > state") && told.contains("~ /home/user/state"), "{told}");
    assert_eq!((count(&server), server.shell(&id, "cat state").as_str()), (1, "bad"));
    // Ends that are not what they are said to be.
    server.warren(["bisect", &id, "--good", "works", "--", "true"]).ended(125).says("is not bad");
    server.warren(["bisect", &id, "--good", "works", "--", "false"]).ended(125).says("is not good");
    server
        .warren(["bisect", &id, "--good", "works", "--bad", "works", "--", "true"])
        .ended(125)
        .says("same files");
    server.warren(["bisect", &id, "--good", "nothing", "--", "true"]).ended(125).says("warren snapshots");
    server.finish();
}

#[test]
fn a_search_that_is_interrupted_leaves_no_fork() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo 1 > a");
    take(&server, &id, &["--name", "works"]);
    server.shell(&id, "echo 2 > a");
    let child = server.command(["bisect", &id, "--good", "works", "--", "sleep", "60"]).spawn().unwrap();
    eventually(Duration::from_secs(60), "a fork runs", || count(&server) == 2);
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    Output::from(child.wait_with_output().unwrap()).ended(130);
    assert_eq!(count(&server), 1);
    server.finish();
}

#[test]
fn what_is_tried_is_kept_only_if_the_check_passes() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo old > file; echo x > other");
    let kept = server
        .warren([
            "try",
            &id,
            "--",
            "sh",
            "-c",
            "echo trying; echo new > file; rm other",
            "--check",
            "grep new file",
        ])
        .ok();
    assert_eq!(kept.text(), "trying\nnew\n");
    assert_eq!(server.shell(&id, "cat file; ls"), "new\nfile");
    server
        .warren(["try", &id, "--check", "grep old file", "--", "sh", "-c", "echo newer > file"])
        .ended(1)
        .says("nothing was kept");
    server
        .warren(["try", &id, "--", "sh", "-c", "echo newest > file; exit 9", "--check", "true"])
        .ended(9)
        .says("nothing was kept");
    server.warren(["try", &id, "--", "sh", "-c", "echo x > added", "--check", "sh", "-c", "exit 6"]).ended(6);
    assert_eq!(server.shell(&id, "cat file; ls"), "new\nfile");
    server.warren(["try", &id, "--", "sh", "-c", "echo done > file"]).ok();
    assert_eq!((server.shell(&id, "cat file"), count(&server)), ("done".to_owned(), 1));
    server.warren(["undo", &id]).ok();
    assert_eq!(server.shell(&id, "cat file"), "new");
    server.warren(["try", &id, "--", "true", "--check", "a", "--check", "b"]).ended(125).says("before it");
    server.finish();
}

#[test]
fn a_state_that_cannot_be_tested_is_gone_around() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo good > state");
    for line in ["echo 1 > n", "echo 2 > n; touch broken", "rm broken; echo bad > state", "echo 4 > n"] {
        server.shell(&id, line);
    }
    let test = "test -e broken && exit 125; grep -q good state";
    let found = server
        .warren(["bisect", &id, "--good", "1", "--bad", "5", "--json", "--", "sh", "-c", test])
        .ok()
        .json();
    let numbers: Vec<_> =
        found["culprits"].as_array().unwrap().iter().map(|entry| entry["number"].clone()).collect();
    assert_eq!(numbers, [json!(3), json!(4)], "{found}");
    server.finish();
}
