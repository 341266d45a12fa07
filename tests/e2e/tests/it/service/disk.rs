//! A disk that fills up under the server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use warren_e2e::{Disk, TestEnv, TestServer, eventually};

const MIB: u64 = 1 << 20;

fn server<'env>(env: &'env TestEnv, data_dir: &Path) -> TestServer<'env> {
    let setup = TestServer::setup(env).data_dir(data_dir);
    setup.set("disk.critical", "64MiB").set("disk.warn", "96MiB").set("limits.disk", "64MiB").start()
}

#[test]
fn new_work_is_refused_before_the_disk_is_full_and_taken_on_again_afterwards() {
    let env = TestEnv::new();
    let disk = Disk::make(&env, 400);
    let server = server(&env, &disk.mount().join("data"));
    let (running, stopped) = (server.create(), server.create());
    server.warren(["stop", &stopped]).ok();
    disk.fill_to(80 * MIB);
    assert!(server.warren(["health"]).ok().text().starts_with("warning"));
    fs::remove_file(disk.filler()).unwrap();
    disk.fill_to(32 * MIB);
    let refused = server.ask("POST", "/v1/sandboxes", Some(&json!({})));
    assert_eq!((refused.status, refused.code().as_str()), (503, "disk_low"));
    assert!(refused.head.contains("retry-after"), "{}", refused.head);
    assert_eq!(server.ask("POST", &format!("/v1/sandboxes/{stopped}/resume"), None).code(), "disk_low");
    assert!(server.warren(["health"]).ended(1).text().starts_with("critical"));
    assert_eq!(server.shell(&running, "echo goes on"), "goes on");
    assert_eq!(server.warren(["ls", "-q"]).ok().text().lines().count(), 2);
    fs::remove_file(disk.filler()).unwrap();
    server.warren(["resume", &stopped]).ok();
    server.create();
    server.finish();
}

/// Another program takes the last byte. What was acknowledged is there when there is room again.
#[test]
fn a_full_disk_loses_nothing() {
    let env = TestEnv::new();
    let disk = Disk::make(&env, 400);
    let mut server = server(&env, &disk.mount().join("data"));
    let id = server.create();
    server.shell(&id, "echo work > file");
    disk.fill_to(8 * MIB);
    // A file system gives its last blocks to processes that ask for little.
    drop(
        Command::new("sh").arg("-c").arg(format!("cat /dev/zero > {}/rest", disk.mount().display())).output(),
    );
    let answers: Vec<_> = ["pause", "resume", "stop"]
        .map(|deed| server.ask("POST", &format!("/v1/sandboxes/{id}/{deed}"), None))
        .into_iter()
        .filter(|answer| ![200, 409].contains(&answer.status))
        .map(|answer| (answer.status, answer.code()))
        .collect();
    assert!(answers.iter().all(|(status, _)| *status == 503), "{answers:?}");
    let upload = server.warren_fed(&[b'x'; 100_000], ["cp", "-", &format!("{id}:file")]);
    assert_ne!(upload.code, Some(0), "there was no room for it");
    server.kill();
    fs::remove_file(disk.filler()).unwrap();
    fs::remove_file(disk.mount().join("rest")).unwrap();
    server.start_again();
    server.assert_agreement();
    if server.status(&id) != "ready" {
        server.warren(["resume", &id]).ok();
    }
    assert_eq!(server.shell(&id, "cat file"), "work");
    eventually(Duration::from_secs(60), "it is well again", || server.warren(["health"]).code == Some(0));
    server.finish();
}
