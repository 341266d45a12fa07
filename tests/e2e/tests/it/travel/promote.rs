//! The changes of a fork, merged into the sandbox that it came from.

use serde_json::json;
use warren_e2e::{TestEnv, TestServer};

use super::support::{create, fork, log};

#[test]
fn changes_of_both_sides_are_joined() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "seq 30 > text; echo x > removed; echo x > moded; mkdir dir");
    let copy = fork(&server, &id);
    server.shell(
        &copy,
        "sed -i s/^3$/three/ text; rm removed; chmod 700 moded; echo new > dir/new; ln -s new dir/link",
    );
    server.shell(&id, "sed -i s/^27$/twenty-seven/ text; echo mine > mine");
    let would = server.warren(["promote", &copy, "--json"]).ok().json();
    assert_eq!((&would["into"], &would["conflicts"]), (&json!(id), &json!([])));
    assert!(would.get("applied").is_none());
    assert_eq!(
        server.shell(&id, "grep -c three text || true; ls removed"),
        "0\nremoved",
        "nothing was changed"
    );
    let told = server.warren(["promote", &copy]).ok().says("--apply").text();
    assert!(told.contains("- /home/user/removed") && told.contains("+ /home/user/dir/new"), "{told}");
    server.warren(["promote", &copy, "--apply"]).ok();
    let look = "sed -n '3p;27p' text; stat -c %a moded; cat dir/link mine; test -e removed || echo removed";
    assert_eq!(server.shell(&id, look), "three\ntwenty-seven\n700\nnew\nmine\nremoved");
    assert_eq!(server.shell(&copy, "sed -n '3p;27p' text; test -e mine || echo none"), "three\n27\nnone");
    server.warren(["undo", &id]).ok();
    assert_eq!(server.shell(&id, "sed -n '3p;27p' text"), "3\ntwenty-seven");
    server.finish();
}

#[test]
fn a_directory_is_merged_by_itself() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "mkdir app; echo base > both; echo base > app/code; echo base > app/gone");
    let copy = fork(&server, &id);
    server.shell(
        &copy,
        "cd app; echo fork > ../both; echo fork > code; rm gone; mkdir -p out sub/out; touch out/x sub/out/y; \
         mkdir -p /srv/new/deep; echo x > /srv/new/deep/file; echo x > /srv/new/beside",
    );
    server.shell(&id, "echo here > both");
    server.warren(["promote", &copy]).ended(1).says("! /home/user/both");
    let part = ["promote", &copy, "--path", "/home/user/app", "--exclude", "/out"];
    let told = server.warren(part).ok().text();
    assert!(told.contains("/home/user/app/code") && !told.contains("both"), "{told}");
    server.warren(part.into_iter().chain(["--apply"])).ok();
    let look = "cat both app/code; ls app app/sub/out";
    assert_eq!(server.shell(&id, look), "here\nfork\napp:\ncode\nsub\n\napp/sub/out:\ny");
    let log = log(&server, &id);
    let entry = log.iter().find(|entry| entry["action"] == "promote").expect("it is written down");
    assert_eq!(entry["path"], "/home/user/app");
    server.warren(["promote", &copy, "--path", "/srv/new/deep", "--apply"]).ok();
    assert_eq!(server.shell(&id, "cd /srv/new && find . | sort"), ".\n./deep\n./deep/file");
    server.warren(["undo", &id, "-n", "2"]).ok();
    assert_eq!(server.shell(&id, "cat both app/code app/gone; ls /srv"), "here\nbase\nbase");
    server.warren(["promote", &copy, "--path", "/none"]).ok().says("there is nothing of /none");
    server.warren(["promote", &copy, "--path", "app"]).ended(2).says("begins with a slash");
    let line = "echo tried > app/code; echo tried > both";
    server.warren(["try", &id, "--path", "/home/user/app", "--", "sh", "-c", line]).ok();
    assert_eq!(server.shell(&id, "cat both app/code"), "here\ntried");
    let elsewhere = ["try", &id, "--path", "/home/user/app", "--", "touch", "elsewhere"];
    server.warren(elsewhere).ok().says("it changed nothing in /home/user/app");
    server.finish();
}

#[test]
fn conflicts_are_listed_and_nothing_is_merged_unless_they_are_settled() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "echo base > both; echo base > theirs");
    let copy = fork(&server, &id);
    server.shell(&copy, "echo fork > both; echo fork > theirs");
    server.shell(&id, "echo here > both");
    server.warren(["promote", &copy]).ended(1).says("! /home/user/both");
    server.warren(["promote", &copy, "--apply"]).ended(1).says("! /home/user/both").says("--theirs");
    let answer = server.ask("POST", &format!("/v1/sandboxes/{copy}/promote"), Some(&json!({"apply": true})));
    assert_eq!((answer.status, answer.code().as_str()), (409, "merge_conflict"));
    assert_eq!(server.shell(&id, "cat both theirs"), "here\nbase");
    server.warren(["promote", &copy, "--apply", "--ours"]).ok();
    assert_eq!(server.shell(&id, "cat both theirs"), "here\nfork");
    server.warren(["promote", &copy, "--apply", "--theirs"]).ok();
    assert_eq!(server.shell(&id, "cat both theirs"), "fork\nfork");
    server.warren(["promote", &copy, "--ours", "--theirs"]).ended(2);
    let lone = create(&server, &[]);
    server.warren(["promote", &lone]).ended(125);
    server.finish();
}
