//! A state comes back whole, with files of every kind.

use warren_e2e::{TestEnv, TestServer, probe_file};

use super::support::{create, fork, keep_busy, snapshot, take, text};

fn kinds(server: &TestServer<'_>, id: &str, word: &str) -> String {
    let mut words = vec!["exec".to_owned(), id.to_owned(), "--".to_owned()];
    words.extend(probe_file!("kinds.py"));
    words.push(word.to_owned());
    server.warren(words).ok().text()
}

/// The lists as a difference, so that a failure can be read.
#[track_caller]
fn assert_same(is: &str, was: &str, what: &str) {
    let lost: Vec<&str> = was.lines().filter(|line| !is.lines().any(|other| other == *line)).collect();
    let new: Vec<&str> = is.lines().filter(|line| !was.lines().any(|other| other == *line)).collect();
    assert!(lost.is_empty() && new.is_empty(), "{what}\nwas: {lost:#?}\nis: {new:#?}");
}

#[test]
fn every_kind_of_file_is_as_it_was_after_a_rollback_and_in_forks() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    let mut states = Vec::new();
    for word in ["make", "change", "again"] {
        kinds(&server, &id, word);
        let listed = kinds(&server, &id, "list");
        assert!(listed.lines().count() > 40, "{listed}");
        states.push((word, snapshot(&server, &id), listed));
    }
    for (word, point, listed) in [&states[0], &states[2], &states[1], &states[0]] {
        server.warren(["rollback", &id, point]).ok();
        assert_same(&kinds(&server, &id, "list"), listed, &format!("rolled back to `{word}`"));
    }
    for (word, point, listed) in &states {
        let fork = fork(&server, point);
        assert_same(&kinds(&server, &fork, "list"), listed, &format!("a fork of `{word}`"));
        server.warren(["rm", &fork]).ok();
    }
    server.finish();
}

#[test]
fn every_kind_of_file_survives_the_copy_of_a_busy_sandbox() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    // With automatic ones, what is asked for has been taken already.
    for (history, method) in [("off", "copied"), ("commands", "unchanged")] {
        survives_the_copy(&server, history, method);
    }
    server.finish();
}

fn survives_the_copy(server: &TestServer<'_>, history: &str, method: &str) {
    let id = create(server, &["--history", history]);
    kinds(server, &id, "make");
    snapshot(server, &id);
    keep_busy(server, &id, "while :; do sleep 0.1; done");
    kinds(server, &id, "change");
    let listed = kinds(server, &id, "list");
    let taken = take(server, &id, &[]);
    assert_eq!(taken["method"], method, "{taken}");
    let copy = fork(server, &text(&taken, "snapshot_id"));
    assert_same(&kinds(server, &copy, "list"), &listed, "a fork of the copy");
    kinds(server, &id, "again");
    server.warren(["rollback", &id, &text(&taken, "snapshot_id")]).ok();
    assert_same(&kinds(server, &id, "list"), &listed, "rolled back to the copy");
}

#[test]
fn a_sandbox_that_was_stopped_or_restarted_has_the_same_files() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let id = create(&server, &[]);
    kinds(&server, &id, "make");
    snapshot(&server, &id);
    kinds(&server, &id, "change");
    let listed = kinds(&server, &id, "list");
    server.warren(["stop", &id]).ok();
    let stopped = snapshot(&server, &id);
    let copy = fork(&server, &stopped);
    assert_same(&kinds(&server, &copy, "list"), &listed, "a fork of a stopped sandbox");
    server.kill();
    server.start_again();
    server.warren(["resume", &id]).ok();
    assert_same(&kinds(&server, &id, "list"), &listed, "resumed by another server");
    assert_same(&kinds(&server, &copy, "list"), &listed, "a fork that outlived the server");
    server.finish();
}
