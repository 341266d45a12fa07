//! Starts that would do harm, and what is said instead.

use std::fs;
use std::time::Duration;

use warren_e2e::{TestEnv, TestServer, eventually, known_gap};

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    TestServer::setup(&env).refused().ended(125).says("another server");
    server.shell(&id, "true");
    server.finish();
}

#[test]
fn a_server_without_keys_listens_on_loopback_only() {
    let env = TestEnv::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = TestServer::setup(&env).listen(address).flag("--no-auth").refused();
        refused.ended(125).says("loopback");
    }
    assert!(!env.data_dir().join("catalog.db").exists(), "nothing was made");
}

#[test]
fn a_taken_address_and_wrong_settings_are_said_and_change_nothing() {
    let env = TestEnv::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    TestServer::setup(&env).listen(&address).refused().ended(125).says("--listen");
    TestServer::setup(&env).set("limits.max_sandboxs", "3").refused().ended(125).says("limits.max_sandboxes");
    TestServer::setup(&env).set("limits.memory", "much").refused().ended(125).says("limits.memory");
    assert!(!env.data_dir().join("catalog.db").exists(), "nothing was made");
}

/// The catalog, and what is done to it while no server runs.
#[test]
fn a_catalog_that_is_damaged_or_newer_or_gone_is_refused_and_no_sandbox_is_touched() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let id = server.create();
    server.terminate();
    let catalog = env.data_dir().join("catalog.db");
    let whole = fs::read(&catalog).unwrap();
    let mut damaged = whole.clone();
    damaged[..64].fill(0xA5);
    let mut cut = whole.clone();
    cut.truncate(whole.len() / 2);
    for (what, bytes) in [("damaged", &damaged), ("cut short", &cut), ("empty", &Vec::new())] {
        fs::write(&catalog, bytes).unwrap();
        let refused = TestServer::setup(&env).refused().ended(125);
        assert!(refused.errors().contains("catalog"), "{what}: {}", refused.errors());
        assert_eq!(fs::read(&catalog).unwrap().len(), bytes.len(), "{what}: it was written to");
    }
    fs::remove_file(&catalog).unwrap();
    TestServer::setup(&env).refused().ended(125).says("catalog");
    assert!(!catalog.exists(), "another one was made");
    fs::write(&catalog, newer(&whole)).unwrap();
    TestServer::setup(&env).refused().ended(125).says("newer");
    fs::write(&catalog, &whole).unwrap();
    server.start_again();
    assert_eq!(server.shell(&id, "echo untouched"), "untouched");
    server.finish();
}

/// The number of the schema has its place in the head of a database.
fn newer(database: &[u8]) -> Vec<u8> {
    let mut bytes = database.to_vec();
    bytes[60..64].copy_from_slice(&9999_u32.to_be_bytes());
    bytes
}

/// Half a transaction of another program holds everybody up.
#[test]
fn a_locked_catalog_is_said_and_never_answered_wrongly() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let mut sqlite = std::process::Command::new("sqlite3");
    sqlite.arg(env.data_dir().join("catalog.db")).stdin(std::process::Stdio::piped());
    let mut sqlite = sqlite.stdout(std::process::Stdio::piped()).spawn().expect("sqlite3 is there");
    let mut orders = sqlite.stdin.take().unwrap();
    std::io::Write::write_all(&mut orders, b".timeout 5000\nBEGIN IMMEDIATE;\nSELECT 'held';\n").unwrap();
    let mut held = [0; 5];
    std::io::Read::read_exact(sqlite.stdout.as_mut().unwrap(), &mut held).unwrap();
    let answer = server.ask("POST", "/v1/sandboxes", Some(&serde_json::json!({})));
    assert_eq!((answer.status, answer.code().as_str()), (503, "busy"), "{answer:?}");
    assert!(answer.head.contains("retry-after"), "{}", answer.head);
    assert_eq!(server.status(&id), "ready");
    std::io::Write::write_all(&mut orders, b"ROLLBACK;\n").unwrap();
    drop(orders);
    sqlite.wait().unwrap();
    eventually(Duration::from_secs(60), "it works again", || {
        server.ask("POST", "/v1/sandboxes", Some(&serde_json::json!({}))).status == 201
    });
    server.assert_agreement();
    assert_eq!(server.warren(["ls", "-q"]).ok().text().lines().count(), 2, "what was refused was not made");
    server.finish();
}

/// As after a wrong mount: what is not in sight may be all right elsewhere.
#[test]
fn a_start_that_misses_most_sandboxes_stops_and_asks() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let ids: Vec<String> = (0..6).map(|_| server.create()).collect();
    ids.iter().for_each(|id| drop(server.shell(id, "echo work > file")));
    server.kill();
    let (there, aside) = (env.data_dir().join("sandboxes"), env.data_dir().join("sandboxes-elsewhere"));
    fs::rename(&there, &aside).unwrap();
    server.start_again();
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 6, "something was removed");
    let health = server.warren(["health"]).ended(1);
    assert!(health.text().contains("6 of 6 sandboxes"), "{}", health.text());
    server.warren(["create"]).ended(125).says("--accept-losses");
    server.warren(["rm", &ids[0]]).ended(125).says("--accept-losses");
    assert_eq!(server.warren(["ls", "-q"]).ok().text().lines().count(), 6, "records were changed");

    server.kill();
    fs::remove_dir(&there).unwrap();
    fs::rename(&aside, &there).unwrap();
    server.start_again();
    server.assert_agreement();
    known_gap!(
        0,
        "the backend ends the processes of sandboxes whose directory is out of sight; their files stay"
    );
    for id in &ids {
        server.warren(["resume", id]).ok();
        assert_eq!(server.shell(id, "cat file"), "work");
    }

    server.kill();
    fs::rename(&there, &aside).unwrap();
    server.start_again();
    server.warren(["health", "--accept-losses"]).ok();
    let lost = server.warren(["why", &ids[0]]).ok().text();
    assert!(lost.contains("files    deleted"), "{lost}");
    let new = server.create();
    assert_eq!(server.shell(&new, "echo goes on"), "goes on");
    server.warren(["rm", &new]).ok();
    server.kill();
    fs::remove_dir(&there).unwrap();
    fs::rename(&aside, &there).unwrap();
    server.start_again();
    let health = server.warren(["health"]).ended(1);
    assert!(health.text().contains("in no record"), "{}", health.text());
    server.warren(["health", "--accept-losses"]).ok();
    server.finish();
}
