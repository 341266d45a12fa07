//! States as files: tar, patches that git takes, and whole histories.

use std::fs;
use std::path::Path;
use std::process::Command;

use warren_e2e::{TestEnv, TestServer};

use super::support::{create, fork, snapshot, take, text};

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a test's path is text")
}

#[test]
fn a_state_goes_out_as_a_tar_file_and_comes_back() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    server.shell(&id, "mkdir -p work/deep; echo content > work/deep/file; ln work/deep/file work/hard; ln -s hard work/soft; chmod 4750 work/hard; chown 7:8 work/soft -h; mkfifo work/pipe");
    take(&server, &id, &["--name", "done"]);
    let archive = env.path("work.tar");
    server.warren(["export", &format!("{id}:done"), "--path", "/home/user/work", "-o", path(&archive)]).ok();
    let listed = run(Command::new("tar").args(["tvf", path(&archive), "--numeric-owner"]));
    assert!(
        listed.contains("soft -> hard") && listed.contains("7/8") && listed.contains("link to"),
        "{listed}"
    );
    let piped = server.warren(["export", &format!("{id}:done"), "--path", "/home/user/work", "-o", "-"]).ok();
    assert_eq!(piped.stdout, fs::read(&archive).unwrap());
    let again = env.path("again.tar");
    server.warren(["export", &id, "--path", "/home/user/work", "-o", path(&again)]).ok().says("captured");
    let imported = server.warren(["import", path(&again), "--name", "again"]).ok().line();
    let made = server.warren(["create", "--user", "root", "--from", &imported]).ok().line();
    let look = "cat hard deep/file; stat -c '%a %h' hard; stat -c %u:%g soft; test -p pipe && echo pipe";
    let there = server.shell(&made, &format!("cd /; {look}"));
    assert_eq!(there, server.shell(&id, &format!("cd work; {look}")));
    let elsewhere = ["import", path(&again), "--template", "nothing-like-it"];
    server.warren(elsewhere).ended(125).says("nothing-like-it");
    server.warren(["export", UNKNOWN, "-o", path(&env.path("none"))]).ended(125);
    assert!(!env.path("none").exists());
    server.warren_fed(b"this is no archive", ["import", "-"]).ended(125);
    server.finish();
}

const UNKNOWN: &str = "snap-00000000-0000-4000-8000-000000000000";

#[test]
fn a_patch_is_what_git_applies() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = create(&server, &[]);
    let first = "mkdir repo; cd repo; seq 50 > numbers; echo gone > gone; printf 'a\\nb' > 'no end'; echo '#!/bin/sh' > run; ln -s numbers link; printf '\\0\\1\\2' > binary; printf 'crlf\\r\\n' > 'with space'";
    server.shell(&id, first);
    let base = snapshot(&server, &id);
    let tree = env.path("tree.tar");
    server.warren(["export", &base, "--path", "/home/user/repo", "-o", path(&tree)]).ok();
    let second = "cd repo; sed -i 's/^7$/seven/; s/^40$/forty/' numbers; rm gone; printf 'a\\nb\\nc' > 'no end'; chmod +x run; ln -sfn run link; printf '\\0\\1\\3' > binary; mkdir sub; echo new > sub/new; printf 'crlf\\r\\nmore\\r\\n' > 'with space'; : > empty";
    server.shell(&id, second);
    let patch = env.path("work.patch");
    server.warren(["export", &id, "--since", &base, "--path", "/home/user/repo", "-o", path(&patch)]).ok();
    let repo = env.path("checkout");
    fs::create_dir(&repo).unwrap();
    run(Command::new("tar").args(["xf", path(&tree), "-C", path(&repo)]));
    let root = if repo.join("numbers").exists() { repo.clone() } else { repo.join("home/user/repo") };
    run(Command::new("git").args(["init", "-q"]).current_dir(&root));
    run(Command::new("git").args(["apply", "--whitespace=nowarn", path(&patch)]).current_dir(&root));
    let list = "find . -path ./.git -prune -o \\( -type f -o -type l \\) -print | sort | while read -r f; do echo \"$f $(stat -c %A \"$f\") $(readlink \"$f\") $(sha256sum < \"$f\")\"; done";
    let here = run(Command::new("sh").args(["-c", list]).current_dir(&root));
    assert_eq!(here.trim_end(), server.shell(&id, &format!("cd repo; {list}")));
    server.finish();
}

#[test]
fn a_whole_history_moves_to_another_server() {
    let env = TestEnv::new();
    let (archive, sums) = (env.path("all.history"), "sha256sum /home/user/* /etc/hosts | sort");
    let mut states = Vec::new();
    {
        let server = TestServer::start(&env);
        let id = create(&server, &["--history", "off"]);
        for number in 0..4 {
            server.shell(&id, &format!("echo {number} > file; echo {number} > only-{number}; rm -f only-$(({number}-1)); echo {number} >> /etc/hosts"));
            let name = format!("state {number}");
            take(&server, &id, &["--name", &name]);
            states.push((name, server.shell(&id, sums)));
        }
        server.warren(["export", &id, "--format", "history", "-o", path(&archive)]).ok();
        server.finish();
    }
    let elsewhere = env.path("elsewhere");
    let server = TestServer::setup(&env).data_dir(&elsewhere).start();
    let imported = server.warren(["import", path(&archive), "--json"]).ok().json();
    let imported = imported.as_array().unwrap();
    for (name, content) in &states {
        let one = imported.iter().find(|one| one["name"] == name.as_str());
        let one = one.unwrap_or_else(|| panic!("no {name} in {imported:#?}"));
        assert_eq!(one["reason"], "import");
        let copy = fork(&server, &text(one, "snapshot_id"));
        assert_eq!(server.shell(&copy, sums), *content, "{name}");
        server.warren(["rm", &copy]).ok();
    }
    // Cut anywhere, it is refused whole.
    let bytes = fs::read(&archive).unwrap();
    let before = server.warren(["snapshots", "--json"]).ok().json();
    for cut in [100, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1500] {
        server.warren_fed(&bytes[..cut], ["import", "-", "--format", "history"]).ended(125);
    }
    assert_eq!(server.warren(["snapshots", "--json"]).ok().json(), before);
    server.finish();
}
