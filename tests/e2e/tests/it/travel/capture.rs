//! States are captured while the sandbox does anything else; some requests are refused.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use warren_e2e::{TestEnv, TestServer, eventually};

use super::support::{create, fork, keep_busy, snapshot, take, text};

/// The time in which each of several loops gets through a few times, also on a starved machine.
const PATIENCE: Duration = Duration::from_secs(180);

#[test]
fn an_idle_sandbox_is_sealed_and_one_that_did_nothing_costs_nothing() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &["--history", "off"]);
    server.shell(&id, "echo one > file");
    let sealed = take(&server, &id, &["--name", "first", "--durable"]);
    assert_eq!((&sealed["method"], &sealed["durable"]), (&json!("sealed"), &json!(true)), "{sealed}");
    assert!(sealed["took_ms"].as_f64().is_some() && sealed["frozen_ms"].as_f64().is_some(), "{sealed}");
    let again = take(&server, &id, &[]);
    assert_eq!((&again["method"], &again["depth"]), (&json!("unchanged"), &sealed["depth"]), "{again}");
    server.warren(["snapshot", &id, "--name", "first"]).ended(125).says("first");
    assert_eq!(server.shell(&id, "cat file; echo two > file; cat file"), "one\ntwo");
    server.warren(["rollback", &id, "first"]).ok();
    assert_eq!(server.shell(&id, "cat file"), "one");
    server.finish();
}

/// Two files that a program changes one after the other: a copy that is of one moment never has
/// them further apart than one.
#[test]
fn a_busy_sandbox_is_copied_while_it_stands_still() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    keep_busy(
        &server,
        &id,
        "i=0; while :; do i=$((i+1)); echo $i > a.new; mv a.new a; echo $i > b.new; mv b.new b; done",
    );
    // Read as a file: a command would take a snapshot of its own.
    let file = format!("{id}:/home/user/a");
    let count = || server.warren(["cp", &file, "-"]).text().trim().parse::<u64>().unwrap_or(0);
    let wait_for_a_write = || {
        let before = count();
        eventually(Duration::from_secs(60), "it writes", || count() > before);
    };
    for _ in 0..3 {
        wait_for_a_write();
        let taken = take(&server, &id, &[]);
        assert_eq!(taken["method"], "copied", "{taken}");
        assert!(taken["frozen_ms"].as_f64().is_some_and(|still| still > 0.0), "{taken}");
        let copy = fork(&server, &text(&taken, "snapshot_id"));
        let pair: Vec<u64> =
            server.shell(&copy, "cat a b").lines().map(|line| line.parse().expect("a number")).collect();
        assert!(pair[0] == pair[1] || pair[0] == pair[1] + 1, "{pair:?}");
        server.warren(["rm", &copy]).ok();
    }
    // It goes on, and was not restarted.
    wait_for_a_write();
    assert_eq!(server.shell(&id, "pgrep -cf 'mv a.new|while :' || true").lines().count(), 1);
    server.finish();
}

#[test]
fn paused_and_stopped_sandboxes_are_captured_and_stay_as_they_are() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo one > file");
    server.warren(["pause", &id]).ok();
    let paused = snapshot(&server, &id);
    assert_eq!(server.status(&id), "paused");
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat file; echo two > file"), "one");
    server.warren(["stop", &id]).ok();
    let stopped = snapshot(&server, &id);
    assert_eq!(server.status(&id), "stopped");
    server.warren(["rollback", &id, &paused]).ok();
    assert_eq!(server.status(&id), "stopped");
    server.warren(["resume", &id]).ok();
    assert_eq!(server.shell(&id, "cat file"), "one");
    for (point, content) in [(&paused, "one"), (&stopped, "two")] {
        assert_eq!(server.shell(&fork(&server, point), "cat file"), content);
    }
    server.finish();
}

#[test]
fn a_rollback_waits_for_nobody_and_ends_nothing_unless_it_is_forced() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo one > file");
    let point = snapshot(&server, &id);
    let waiting =
        server.command(["exec", &id, "--", "sh", "-c", "echo two > file; exec sleep 60"]).spawn().unwrap();
    let file = format!("{id}:/home/user/file");
    eventually(Duration::from_secs(60), "it runs", || server.warren(["cp", &file, "-"]).text() == "two\n");
    let body = json!({"snapshot_id": point});
    let refused = server.ask("POST", &format!("/v1/sandboxes/{id}/rollback"), Some(&body));
    assert_eq!((refused.status, refused.code().as_str()), (409, "tools_in_flight"));
    server.warren(["rollback", &id, &point]).ended(125).says("--force");
    assert_eq!(server.warren(["cp", &file, "-"]).ok().text(), "two\n");
    server.warren(["rollback", &id, &point, "--force"]).ok();
    assert_ne!(warren_e2e::Output::from(waiting.wait_with_output().unwrap()).code, Some(0));
    assert_eq!(server.shell(&id, "cat file; pgrep -c sleep || true"), "one\n0");
    server.finish();
}

/// Everybody either did what they were asked, or was told why not; and the files are of one state.
#[test]
fn commands_snapshots_and_rollbacks_at_once_end_in_one_state() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo 0 > a; echo 0 > b");
    let point = |name: &str| text(&take(&server, &id, &["--name", name]), "snapshot_id");
    let points = [point("zero"), {
        server.shell(&id, "echo 1 > a; echo 1 > b");
        point("one")
    }];
    let (done, went) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 3]);
    let command = |round: usize| {
        let line = format!("echo x{round} > a && echo x{round} > b");
        server.warren(["exec", &id, "--", "sh", "-c", &line])
    };
    let capture = |_: usize| server.warren(["snapshot", &id]);
    let go_back = |round: usize| {
        let mut words = vec!["rollback", &id, &points[round % 2]];
        words.extend(round.is_multiple_of(3).then_some("--force"));
        server.warren(words)
    };
    std::thread::scope(|scope| {
        let done = &done;
        let loops: [&(dyn Fn(usize) -> warren_e2e::Output + Sync); 3] = [&command, &capture, &go_back];
        for (call, went) in loops.into_iter().zip(&went) {
            scope.spawn(move || {
                for round in 0.. {
                    if done.load(Ordering::SeqCst) {
                        break;
                    }
                    let output = call(round);
                    match output.code {
                        Some(0) => drop(went.fetch_add(1, Ordering::SeqCst)),
                        // Refused, or ended by a rollback that was forced.
                        Some(125 | 137 | 143) => {}
                        _ => panic!("{output:?}"),
                    }
                }
            });
        }
        // The loops must be told to end before anything fails here.
        let begun = Instant::now();
        while went.iter().any(|went| went.load(Ordering::SeqCst) < 5) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(went.iter().all(|went| went.load(Ordering::SeqCst) >= 5), "each gets through at times: {went:?}");
    server.assert_agreement();
    let taken = take(&server, &id, &[]);
    let copy = fork(&server, &text(&taken, "snapshot_id"));
    let (is, captured) = (server.shell(&id, "cat a b"), server.shell(&copy, "cat a b"));
    assert_eq!(is, captured);
    for point in &points {
        let copy = fork(&server, point);
        let pair = server.shell(&copy, "cat a b");
        assert_eq!(pair, if *point == points[0] { "0\n0" } else { "1\n1" });
    }
    server.finish();
}
