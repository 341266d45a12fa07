//! A disk that fills up while a state is copied.

use std::fs;
use std::time::Duration;

use serde_json::json;
use warren_e2e::{Disk, TestEnv, TestServer, eventually};

use super::support::{create, fork, keep_busy, take, text};

const MIB: u64 = 1 << 20;

#[test]
fn a_copy_that_finds_no_room_is_refused_and_leaves_nothing() {
    let env = TestEnv::new();
    let disk = Disk::make(&env, 500);
    let setup = TestServer::setup(&env).data_dir(&disk.mount().join("data"));
    let server = setup.set("disk.critical", "1MiB").set("disk.warn", "2MiB").start();
    let id = create(&server, &["--history", "off"]);
    server.shell(&id, "echo before > file");
    take(&server, &id, &["--name", "before"]);
    server.shell(&id, "head -c 120M /dev/urandom > big; echo after > file; sync");
    keep_busy(&server, &id, "while :; do date +%N > tick; sleep 0.05; done");
    disk.fill_to(50 * MIB);
    let free = disk.free();
    let refused = server.ask("POST", &format!("/v1/sandboxes/{id}/snapshots"), Some(&json!({})));
    assert!([503, 507].contains(&refused.status), "{} {}", refused.status, refused.code());
    assert_eq!(server.status(&id), "ready");
    let tick = || server.shell(&id, "cat tick");
    let first = tick();
    eventually(Duration::from_secs(60), "it goes on", || tick() != first);
    eventually(Duration::from_secs(60), "what was copied is gone", || disk.free() + 4 * MIB > free);
    assert_eq!(server.shell(&id, "cat file"), "after");
    fs::remove_file(disk.filler()).unwrap();
    let taken = take(&server, &id, &[]);
    assert_eq!(taken["method"], "copied", "{taken}");
    let copy = fork(&server, &text(&taken, "snapshot_id"));
    let sum = "sha256sum < big";
    assert_eq!(server.shell(&copy, sum), server.shell(&id, sum));
    assert_eq!(server.shell(&fork(&server, &format!("{id}:before")), "cat file"), "before");
    server.finish();
}
