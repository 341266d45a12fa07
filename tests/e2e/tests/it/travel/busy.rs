//! History beside programs in the background, which is how coding agents work.

use warren_e2e::{TestEnv, TestServer};

use super::support::{create, keep_busy, log};

/// Of everything below a directory: names, kinds, modes, owners, times of change, content.
const LIST: &str = "cd /root/work && find . -printf '%P %y %m %U %G %T@ %l\\n' | sort && \
                    find . -type f | sort | xargs -r sha256sum";

/// Starts programs that agents leave running: a web server, and a program that looks at the files
/// all the time.
fn keep_company(server: &TestServer<'_>, id: &str) {
    keep_busy(server, id, "cd /root/work && exec python3 -m http.server 8000 >/dev/null 2>&1");
    keep_busy(server, id, "while :; do find /root/work -type f -exec cat {} + >/dev/null; sleep 0.1; done");
}

#[test]
fn every_change_beside_a_server_and_a_watcher_is_undone_byte_for_byte() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "mkdir -p /root/work/old; cd /root/work; seq 9999 > file; ln file link; ln -s file soft; echo x > old/x");
    keep_company(&server, &id);
    let changes = [
        "echo more >> file",
        "rm link soft; mkdir -p new/deep; echo y > new/deep/y; chmod 751 new",
        "mv old older; touch -d 2001-01-01 file",
        "mkfifo pipe; truncate -s 5M sparse; chown 1000:1000 file",
        "rm -rf new; mkdir new; echo z > new/z",
        "rm -rf /root/work/*",
    ];
    let mut states = vec![server.shell(&id, LIST)];
    for change in changes {
        server.shell(&id, &format!("cd /root/work && {change}"));
        states.push(server.shell(&id, LIST));
    }
    for (at, state) in states.iter().enumerate().rev().skip(1) {
        let undone = server.warren(["undo", &id]).ok();
        assert_eq!(server.shell(&id, LIST), *state, "after an undo of change {at}: {undone:?}");
        keep_company(&server, &id);
    }
    for (at, state) in states.iter().enumerate().skip(1) {
        server.warren(["redo", &id]).ok();
        assert_eq!(server.shell(&id, LIST), *state, "after a redo of change {at}");
    }
    server.finish();
}

#[test]
fn an_undo_says_what_it_ends_and_which_command_leads_back() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "mkdir /root/work; echo one > /root/work/file");
    keep_company(&server, &id);
    server.shell(&id, "echo two > /root/work/file");
    server.shell(&id, "cat /root/work/file");
    let undone = server.warren(["undo", &id]).ok().says("ended: sh -c").says(&format!("`warren redo {id}`"));
    assert_eq!(server.shell(&id, "cat /root/work/file"), "one", "{undone:?}");
    server.warren(["goto", &id, "start"]).ok().says(&format!("`warren undo {id}`"));
    server.warren(["redo", &id]).ended(125).says("nothing to redo");
    server.shell(&id, "true");
    server.warren(["undo", &id]).ok();
    assert_eq!(server.shell(&id, "cat /root/work/file"), "one");
    server.finish();
}

#[test]
fn what_is_too_much_is_marked_and_no_undo_skips_it() {
    let env = TestEnv::new();
    let server = TestServer::setup(&env).set("snapshots.copy_entries", "5").start();
    let id = create(&server, &[]);
    server.shell(&id, "mkdir /root/work; echo one > /root/work/file");
    keep_company(&server, &id);
    server.shell(&id, "cd /root/work; for n in $(seq 20); do echo $n > $n; done");
    server.shell(&id, "rm -rf /root/work/*");
    let marked = log(&server, &id);
    let lost =
        marked.iter().find(|entry| entry["command"].as_str().is_some_and(|text| text.contains("seq 20")));
    let reason = lost.expect("it is in the log")["not_kept"].as_str().expect("it is marked").to_owned();
    assert!(reason.contains("more than 5 files"), "{reason}");
    server.warren(["undo", &id]).ended(125).says("seq 20").says("force");
    server.warren(["undo", &id, "--force"]).ok();
    assert_eq!(server.shell(&id, "cat /root/work/file"), "one");
    server.finish();
}
