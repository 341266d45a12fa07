//! Commands that a stranger types to go through a sandbox's history.

use serde_json::{Value, json};
use warren_e2e::{TestEnv, TestServer};

use super::support::{create, fork, log, snapshot, take, text};

/// Well formed, and nobody's.
const UNKNOWN: &str = "snap-00000000-0000-4000-8000-000000000000";

#[test]
fn what_was_done_is_undone_and_done_again() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    for number in 1..=4 {
        server.shell(&id, &format!("echo {number} > file"));
    }
    let content = || server.shell(&id, "cat file 2>/dev/null || echo none");
    server.warren(["undo", &id]).ok().says("warren redo");
    assert_eq!(content(), "3");
    server.warren(["undo", &id, "-n", "2"]).ok();
    assert_eq!(content(), "1");
    server.warren(["redo", &id]).ok().says("warren undo");
    assert_eq!(content(), "2");
    server.warren(["redo", &id, "-n", "2"]).ok();
    assert_eq!(content(), "4");
    server.warren(["redo", &id]).ended(125);
    server.warren(["undo", &id, "-n", "4"]).ok();
    assert_eq!(content(), "none");
    server.warren(["undo", &id]).ended(125);
    server.warren(["redo", &id]).ok();
    server.shell(&id, "echo other > file");
    server.warren(["redo", &id]).ended(125);
    assert_eq!(content(), "other");
    // A snapshot that was taken of what is there is no step of its own.
    take(&server, &id, &["--name", "here"]);
    server.warren(["undo", &id]).ok();
    assert_eq!(content(), "1");
    server.warren(["redo", &id]).ok();
    assert_eq!(content(), "other");
    server.finish();
}

#[test]
fn the_log_says_what_was_done_and_leads_back_to_it() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo one > file; echo x > other");
    server.warren(["exec", &id, "--", "sh", "-c", "echo two > file; exit 3"]).ended(3);
    server.shell(&id, "true");
    assert_eq!(server.warren(["turn", &id, "--json"]).ok().json()["turn"], 1);
    server.shell(&id, "rm file");
    let log = log(&server, &id);
    let numbers: Vec<u64> = log.iter().map(|entry| entry["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1], "{log:#?}");
    let find = |word: &str| {
        log.iter().find(|entry| entry["command"].as_str().is_some_and(|line| line.contains(word))).unwrap()
    };
    assert_eq!((&find("two")["exit_code"], &find("two")["changed"]), (&json!(3), &json!(1)));
    assert_eq!((&find("x > other")["turn"], &find("rm file")["turn"]), (&json!(1), &json!(2)));
    assert_eq!(find("true")["changed"], 0);
    let shown = server.warren(["log", &id, "-n", "2"]).ok().text();
    assert!(
        shown.contains("rm file") && shown.contains("turn 1 complete") && !shown.contains("two"),
        "{shown}"
    );
    server.warren(["goto", &id, "1"]).ok();
    assert_eq!(server.shell(&id, "cat file"), "one");
    server.warren(["goto", &id, "2"]).ok();
    assert_eq!(server.shell(&id, "cat file"), "two");
    server.warren(["goto", &id, "99"]).ended(125).says("no entry 99");
    let diff = server.warren(["diff", &format!("{id}:1"), &format!("{id}:2")]).ok().text();
    assert_eq!(diff, "~ /home/user/file  4 B\n1 path: 1 changed\n");
    server.finish();
}

#[test]
fn the_command_that_wrote_a_file_is_named() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "mkdir dir; echo one > dir/file");
    server.shell(&id, "echo two >> dir/file");
    server.shell(&id, "echo unrelated > elsewhere");
    let blame = |path: &str| server.warren(["blame", &id, path, "--json"]).ok().json();
    assert_eq!(blame("/home/user/dir/file")["items"][0]["number"], 2);
    assert_eq!(blame("/home/user/dir")["items"][0]["number"], 2);
    assert_eq!(blame("/home/user/elsewhere")["items"][0]["number"], 3);
    assert_eq!(blame("/etc/hosts")["items"], json!([]));
    assert!(
        server.warren(["blame", &id, "/home/user/dir/file"]).ok().text().contains("echo two >> dir/file")
    );
    assert!(server.warren(["blame", &id, "/etc/hosts"]).ok().text().contains("began with"));
    server.shell(&id, "rm -r dir");
    assert_eq!(blame("/home/user/dir/file")["items"][0]["number"], 4);
    server.finish();
}

#[test]
fn snapshots_are_shown_as_a_tree_named_and_deleted() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &["--history", "off"]);
    server.shell(&id, "echo one > file");
    let one = take(&server, &id, &["--name", "one"]);
    server.shell(&id, "echo two > file");
    let two = snapshot(&server, &id);
    server.warren(["rollback", &id, "one"]).ok();
    server.shell(&id, "echo three > file");
    let three = take(&server, &id, &["--name", "three"]);
    let short = |id: &str| id.trim_start_matches("snap-")[..8].to_owned();
    let (one, three) = (text(&one, "snapshot_id"), text(&three, "snapshot_id"));
    let tree = server.warren(["snapshots", &id]).ok().text();
    let line =
        |id: &str| tree.lines().find(|line| line.contains(&short(id))).unwrap_or_else(|| panic!("{tree}"));
    assert!(line(&three).contains("← here") && line(&three).starts_with('●'), "{tree}");
    assert!(line(&two).starts_with("├─○") && line(&one).contains(" one "), "{tree}");
    let listed = server.warren(["snapshots", &id, "--json"]).ok().json();
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|one| one["snapshot_id"].as_str()).collect();
    let place = |id: &str| ids.iter().position(|other| *other == id).unwrap();
    assert!(place(&one) < place(&two) && place(&two) < place(&three), "{ids:?}");
    // By the beginning of its id, and by a name that only it has.
    server.warren(["snapshots", "name", &short(&two), "second"]).ok();
    assert_eq!(
        server.warren(["rollback", &id, "second", "--json"]).ok().json()["to"]["snapshot_id"],
        two.as_str()
    );
    server.warren(["snapshots", "rm", &format!("{id}:three"), &one]).ok();
    let left = server.warren(["snapshots", &id, "--json"]).ok().text();
    assert!(!left.contains(&one) && !left.contains(&three) && left.contains(&two), "{left}");
    assert_eq!(server.shell(&id, "cat file"), "two");
    server.finish();
}

#[test]
fn differences_are_told_as_paths_and_as_text() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &["--history", "off"]);
    server.shell(&id, "seq 20 > text; echo gone > gone; printf '\\0\\1' > binary; echo x > mode");
    take(&server, &id, &["--name", "before"]);
    server
        .shell(&id, "sed -i s/^10$/ten/ text; rm gone; printf '\\0\\2' > binary; chmod 600 mode; mkdir new");
    let copy = fork(&server, &id);
    server.shell(&copy, "echo more >> text");
    let stat = server.warren(["diff", &format!("{id}:before"), &id]).ok().text();
    assert_eq!(
        stat,
        "~ /home/user/binary  2 B\n- /home/user/gone    5 B\n~ /home/user/mode    0644 → 0600\n\
         + /home/user/new     directory\n~ /home/user/text    51 B → 52 B\n5 paths: 1 added, 3 changed, 1 removed\n"
    );
    let text = server.warren(["diff", "before", &id, "--text", "/home/user/text"]).ok().text();
    assert!(
        text.starts_with(
            "diff a/home/user/text b/home/user/text\n--- a/home/user/text\n+++ b/home/user/text\n@@ "
        ),
        "{text}"
    );
    assert!(text.contains("\n-10\n+ten\n") && !text.contains('\x1b'), "{text}");
    let all = server.warren(["diff", "before", &id, "--text"]).ok().text();
    assert!(all.contains("Binary files a/home/user/binary and b/home/user/binary differ"), "{all}");
    assert!(all.contains("--- a/home/user/gone\n+++ /dev/null\n"), "{all}");
    assert_eq!(server.warren(["diff", &id, &copy]).ok().text().lines().count(), 2);
    server.warren(["diff", &id, &id, "--exit-code"]).ok();
    server.warren(["diff", &id, &copy, "--exit-code"]).ended(1);
    server.warren(["diff", &id, "--exit-code"]).ok();
    server.shell(&id, "echo y > since");
    assert!(
        server
            .warren(["diff", &id, "/home/user", "--exit-code"])
            .ended(1)
            .text()
            .starts_with("+ /home/user/since")
    );
    server.finish();
}

#[test]
fn tools_are_listed_and_called() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    let tools = server.warren(["tool", "--json"]).ok().json();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in ["bash", "python", "read", "write", "edit", "ls", "glob", "grep"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(server.warren(["tool"]).ok().text().contains("bash"));
    let call = |tool: &str, params: Value| server.warren(["tool", &id, tool, &params.to_string()]);
    call("write", json!({"path": "/home/user/made", "content": "by hand\n"})).ok();
    assert_eq!(call("bash", json!({"command": "cat made"})).ok().text(), "by hand\n");
    call("bash", json!({"command": "exit 4"})).ended(4);
    let missing = call("read", json!({"path": "/no/such/file"}));
    assert_ne!(missing.code, Some(0));
    let fed = server.warren_fed(b"{\"command\": \"echo fed\"}", ["tool", &id, "bash", "-"]).ok();
    assert_eq!(fed.text(), "fed\n");
    let whole = [
        "tool",
        &id,
        "bash",
        "{\"command\": \"date +%N > once; cat once\"}",
        "--call-id",
        "c1",
        "--snapshot",
        "--json",
    ];
    let (first, again) = (server.warren(whole).ok().json(), server.warren(whole).ok().json());
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    assert_eq!((&first["content"], &first["snapshot_id"]), (&again["content"], &again["snapshot_id"]));
    assert!(text(&first, "snapshot_id").starts_with("snap-"));
    server.warren(["tool", &id, "bash", "[]"]).ended(125).says("JSON object");
    server.warren(["tool", &id, "no-such-tool"]).ended(125);
    assert!(log(&server, &id).iter().any(|entry| entry["tool"] == "write"));
    server.finish();
}

#[test]
fn a_session_that_ended_is_gone_on_with_from_its_last_state() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let made = server.warren(["create", "--json"]).ok().json();
    let (id, session) = (text(&made, "sandbox_id"), text(&made, "session_id"));
    server.shell(&id, "echo work > file");
    let ended = server.client().end_session(&session).unwrap();
    assert_eq!(server.status(&id), "stopped");
    let next = server.warren(["create", "--from", &ended.snapshot.snapshot_id]).ok().line();
    assert_eq!(server.shell(&next, "cat file"), "work");
    // What was done in it can still be looked at.
    assert!(server.warren(["log", &id]).ok().text().contains("echo work > file"));
    assert!(server.warren(["blame", &id, "/home/user/file"]).ok().text().contains("echo work"));
    server.finish();
}

#[test]
fn a_snapshot_becomes_a_template() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo tool > /usr/local/bin/mine; chmod +x /usr/local/bin/mine; rm /etc/hosts");
    take(&server, &id, &["--name", "ready"]);
    server.warren(["template", "make", "with-tool", &format!("{id}:ready")]).ok();
    // Root changed what others cannot change, and they see it.
    let other = server.warren(["create", "--user", "user", "--from", &format!("{id}:ready")]).ok().line();
    assert_eq!(server.shell(&other, "cat /usr/local/bin/mine; id -un"), "tool\nuser");
    server.warren(["rm", &id]).ok();
    let made = server.warren(["create", "--template", "with-tool"]).ok().line();
    assert_eq!(server.shell(&made, "cat /usr/local/bin/mine; test -e /etc/hosts || echo gone"), "tool\ngone");
    server.shell(&made, "echo x > file");
    let copy = fork(&server, &made);
    assert_eq!(server.shell(&copy, "cat file"), "x");
    server.warren(["template", "make", "with-tool", "ready"]).ended(125);
    server.warren(["template", "rm", "with-tool"]).ended(125);
    server.finish();
}

#[test]
fn words_that_mean_no_state_are_answered_with_what_does() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let (id, other) = (create(&server, &[]), create(&server, &[]));
    server.shell(&id, "echo x > file");
    for sandbox in [&id, &other] {
        take(&server, sandbox, &["--name", "same"]);
    }
    server.warren(["rollback", &id, "nothing"]).ended(125).says("warren snapshots");
    server.warren(["rollback", &id, UNKNOWN]).ended(125).says("warren snapshots");
    server.warren(["fork", UNKNOWN]).ended(125).says("warren snapshots");
    server.warren(["fork", "same"]).ended(125).says("SBX:same");
    server.warren(["fork", &format!("{id}:same")]).ok();
    server.warren(["fork", &id, "-n", "0"]).ended(2);
    server.warren(["fork", &id, "-n", "101"]).ended(2);
    server.warren(["diff", "same"]).ended(125);
    server.warren(["snapshots", "rm", &id]).ended(125).says("is a sandbox");
    server.warren(["create", "--from", UNKNOWN]).ended(125);
    server.warren(["create", "--history", "sometimes"]).ended(2).says("`commands`, `turns`, `off`");
    for word in ["..", "%2f", "/etc", &"x".repeat(4000)] {
        let answer = server.ask("GET", &format!("/v1/snapshots/{word}"), None);
        assert!([400, 404].contains(&answer.status), "{word}: {}", answer.status);
    }
    server.finish();
}
