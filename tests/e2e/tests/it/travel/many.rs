//! Histories that are long, and histories that outlive what they are of.

use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, TestServer, eventually};
use warren_wire::api::TakeSnapshot;

use super::support::{create, snapshot, take, text};

/// Names are given to all of them, so that none is thinned out.
const COUNT: usize = 1000;

#[test]
fn a_thousand_snapshots_of_one_sandbox_stay_quick() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &["--history", "off"]);
    let client = server.client();
    let exec = |line: String| {
        let body = warren_wire::api::Exec {
            command: warren_wire::api::Command::Shell(line),
            ..warren_wire::api::Exec::default()
        };
        assert_eq!(client.exec(&id, &body).expect("a command runs").exit_code, 0);
    };
    let mut took = Vec::with_capacity(COUNT);
    for number in 0..COUNT {
        exec(format!("echo {number} > file; echo {number} > file-$(({number} % 50))"));
        let body = TakeSnapshot { name: Some(format!("n{number}")), ..TakeSnapshot::default() };
        let started = Instant::now();
        let taken = client.take_snapshot(&id, &body);
        let taken = taken.unwrap_or_else(|error| panic!("snapshot {number}: {error:?}"));
        took.push(started.elapsed());
        assert!(taken.depth <= 200, "{taken:?}");
    }
    took.sort();
    let (median, late) = (took[COUNT / 2], took[COUNT * 95 / 100]);
    assert!(median < Duration::from_millis(500) && late < Duration::from_secs(5), "{median:?} {late:?}");
    let listed = server.warren(["snapshots", &id, "--json"]).ok().json();
    assert!(listed.as_array().unwrap().len() >= COUNT);
    let started = Instant::now();
    for number in [0, 1, COUNT / 2, COUNT - 1] {
        server.warren(["rollback", &id, &format!("n{number}")]).ok();
        let seen = server.shell(&id, "cat file; ls file-* | wc -l");
        assert_eq!(seen, format!("{number}\n{}", (number + 1).min(50)));
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    server.finish();
}

#[test]
fn named_snapshots_outlive_their_sandbox_and_others_leave_no_files() {
    let env = TestEnv::new();
    let mut server = TestServer::setup(&env).set("timeouts.sweep", "1s").start();
    let id = create(&server, &[]);
    server.shell(&id, "echo kept > file");
    let named = text(&take(&server, &id, &["--name", "for later"]), "snapshot_id");
    server.shell(&id, "echo lost > file");
    let unnamed = snapshot(&server, &id);
    server.warren(["rm", &id]).ok();
    server.kill();
    server.start_again();
    let listed = server.warren(["snapshots", "--json"]).ok().text();
    assert!(listed.contains(&named), "{listed}");
    assert!(server.warren(["snapshots", &id]).ok().text().contains("for later"));
    eventually(Duration::from_secs(60), "what nobody can ask for is gone", || {
        !server.warren(["snapshots", "--json"]).ok().text().contains(&unnamed)
    });
    let again = server.warren(["create", "--from", &format!("{id}:for later")]).ok().line();
    assert_eq!(server.shell(&again, "cat file"), "kept");
    server.warren(["rm", &again]).ok();
    server.warren(["snapshots", "rm", &named]).ok();
    let layers = env.data_dir().join("layers");
    let left = || {
        let entries = std::fs::read_dir(&layers).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("layer-")).count()
    };
    eventually(Duration::from_secs(60), "no layer is left", || left() == 0);
    server.finish();
}
