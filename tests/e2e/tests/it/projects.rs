//! A directory of this machine and its sandbox: `up`, `down`, `sync`, and patches for git.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warren_e2e::{Output, TestEnv, TestServer};

/// A project beside the data directory.
fn project(env: &TestEnv, files: &[(&str, &str)]) -> PathBuf {
    let place = env.path("app");
    for (name, text) in files {
        let path = place.join(name);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("it is made");
        fs::write(path, text).expect("it is written");
    }
    place
}

fn sync(server: &TestServer<'_>, place: &Path, id: &str, flags: &[&str]) -> Output {
    server.warren([&["sync", place.to_str().expect("the path is text"), id], flags].concat())
}

fn up(server: &TestServer<'_>, place: &Path, words: &[&str]) -> Output {
    server.warren([&["up", "-C", place.to_str().expect("the path is text")], words].concat())
}

#[track_caller]
fn text(place: &Path, name: &str) -> String {
    fs::read_to_string(place.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn up_is_the_same_sandbox_with_the_directory_inside_until_it_is_removed() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let place = project(&env, &[("a", "1"), ("out/x", "no"), ("secret", "no"), (".gitignore", "out/\n")]);
    fs::write(place.join(".warrenignore"), "secret\n").unwrap();
    fs::create_dir_all(place.join(".git")).unwrap();
    fs::write(place.join(".git/HEAD"), "ref").unwrap();
    let listed = up(&server, &place, &["find", ".", "-type", "f"]).ok().text();
    let mut files: Vec<&str> = listed.lines().collect();
    files.sort_unstable();
    assert_eq!(files, ["./.git/HEAD", "./.gitignore", "./.warrenignore", "./a"]);
    let first = up(&server, &place, &["--detach"]).ok().line();
    assert_eq!(up(&server, &place, &["sh", "-c", "pwd; exit 7"]).ended(7).line(), "/home/user/app");
    server.shell(&first, "echo kept > /home/user/app/made-inside");
    server.warren(["down", "-C", place.to_str().unwrap()]).ok();
    assert_eq!(server.status(&first), "stopped");
    fs::write(place.join("a"), "22").unwrap();
    assert_eq!(up(&server, &place, &["cat", "a", "made-inside"]).ok().text(), "22kept\n");
    assert_eq!(up(&server, &place, &["--detach"]).ok().line(), first);
    server.warren(["down", "--rm", "-C", place.to_str().unwrap()]).ok();
    assert_ne!(up(&server, &place, &["--detach"]).ok().line(), first);
    let other = env.path("other");
    fs::create_dir(&other).unwrap();
    server.warren(["down", "-C", other.to_str().unwrap()]).ended(125).says("warren up");
    server.finish();
}

#[test]
fn two_who_ask_at_once_get_one_sandbox() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let place = project(&env, &[("a", "1")]);
    let ask = || up(&server, &place, &["--detach"]).ok().line();
    let (one, other) = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(ask), scope.spawn(ask));
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!(one, other);
    server.finish();
}

#[test]
fn a_mounted_project_needs_leave_and_is_the_directory_itself() {
    let env = TestEnv::new();
    let place = project(&env, &[("a", "1")]);
    let mut server = TestServer::start(&env);
    up(&server, &place, &["--mount", "true"]).ended(125).says("--allow-mount");
    server.terminate();
    let allowed = place.display().to_string();
    server.start_again_with(|setup| setup.flag("--allow-mount").flag(&allowed));
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    up(&server, &place, &["--mount", "sh", "-c", "cat a && echo new > b"]).ok();
    assert_eq!(text(&place, "b"), "new\n");
    server.finish();
}

#[test]
fn changes_go_both_ways_and_what_both_changed_stays() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let place =
        project(&env, &[("ours", "1"), ("theirs", "1"), ("both", "1"), ("gone-here", "1"), ("d/gone", "1")]);
    fs::write(place.join("tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(place.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("ours", place.join("link")).unwrap();
    sync(&server, &place, &id, &[]).ok();
    assert_eq!(server.shell(&id, "cd app && cat link d/gone && test -x tool && echo yes"), "11yes");
    assert_eq!(sync(&server, &place, &id, &["--json"]).ok().json()["sent"].as_array().unwrap().len(), 0);

    fs::write(place.join("ours"), "here").unwrap();
    fs::write(place.join("both"), "here").unwrap();
    fs::remove_file(place.join("gone-here")).unwrap();
    let line = "cd app && echo -n there > theirs && echo -n there > both && rm -r d && echo -n new > new";
    server.shell(&id, line);
    let shown = sync(&server, &place, &id, &["--dry-run"]).ended(1).text();
    assert!(shown.contains("→ ours") && shown.contains("← theirs"), "{shown}");
    assert_eq!(text(&place, "theirs"), "1", "a dry run changes nothing");
    sync(&server, &place, &id, &[]).ended(1).says("conflict: both");
    assert_eq!(
        (text(&place, "theirs"), text(&place, "new"), text(&place, "both")),
        ("there".into(), "new".into(), "here".into())
    );
    assert!(!place.join("d").exists(), "a directory that is empty now goes with its files");
    assert_eq!(
        server.shell(&id, "cd app && cat ours both && ls"),
        "herethereboth\nlink\nnew\nours\ntheirs\ntool"
    );
    sync(&server, &place, &id, &["--prefer", "there"]).ok();
    assert_eq!(text(&place, "both"), "there");
    fs::write(place.join(".warrenignore"), "secret\n").unwrap();
    fs::write(place.join("secret"), "s").unwrap();
    sync(&server, &place, &id, &[]).ok();
    server.shell(&id, "cd app && : > .warrenignore");
    sync(&server, &place, &id, &[]).ok();
    sync(&server, &place, &id, &[]).ok();
    assert_eq!(server.shell(&id, "ls app/secret 2>/dev/null || echo none"), "none");
    sync(&server, &place, &id, &[]).ok();
    server.finish();
}

#[test]
fn a_side_that_lost_nearly_everything_empties_the_other_only_if_asked() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let names: Vec<String> = (0..30).map(|number| format!("f{number}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let place = project(&env, &files);
    sync(&server, &place, &id, &[]).ok();
    server.shell(&id, "rm -r app");
    sync(&server, &place, &id, &[]).ended(125).says("--delete");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 30);
    sync(&server, &place, &id, &["--delete"]).ok();
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    server.finish();
}

#[test]
fn nothing_that_a_sandbox_holds_leads_out_of_the_directory() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let place = project(&env, &[("a", "1")]);
    let outside = env.path("victim");
    fs::write(&outside, "kept").unwrap();
    fs::create_dir(env.path("elsewhere")).unwrap();
    sync(&server, &place, &id, &[]).ok();
    server.shell(
        &id,
        "cd app && ln -s /etc/passwd abs && ln -s ../victim up && ln -s . here && mkdir -p .git/hooks sub/.GIT \
         && echo evil > .git/hooks/pre-commit && echo evil > sub/.GIT/config && echo '*' > sub/.gitignore && echo x > sub/x \
         && printf x > \"$(printf 'new\\nline')\" && mkdir dir && echo evil > dir/file && mkfifo pipe \
         && printf x > \"$(printf 'not\\377text')\" && ln -s a inside",
    );
    // The sandbox's directory is a link of this machine's here.
    symlink(env.path("elsewhere"), place.join("dir")).unwrap();
    let output = sync(&server, &place, &id, &[]);
    let errors = output.errors();
    assert!(errors.contains("left out"), "{errors}");
    for name in ["abs", "up", "here", ".git", "sub/.GIT", "sub/x", "pipe"] {
        assert!(fs::symlink_metadata(place.join(name)).is_err(), "{name}");
    }
    assert_eq!(fs::read_link(place.join("inside")).unwrap(), Path::new("a"));
    assert_eq!(text(&place, "new\nline"), "x");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
    assert_eq!(fs::read_dir(env.path("elsewhere")).unwrap().count(), 0, "nothing was written through a link");
    server
        .shell(&id, "cd app && for i in $(seq 5000); do echo rule$i; done > dir/.gitignore; rm -f dir/file");
    sync(&server, &place, &id, &[]).ended(125).says("rules");
    server.finish();
}

#[test]
fn two_at_once_take_turns_and_one_that_is_killed_leaves_whole_files() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let place = project(&env, &[("a", "1")]);
    sync(&server, &place, &id, &[]).ok();
    server.shell(&id, "cd app && for i in $(seq 40); do head -c 500000 /dev/zero | tr '\\0' x > big$i; done");
    let mut child = server
        .command(["sync", place.to_str().unwrap(), &id])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !place.join("big1").exists() && child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "nothing was brought");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(child.kill());
    child.wait().unwrap();
    for entry in fs::read_dir(&place).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("big") {
            assert_eq!(entry.metadata().unwrap().len(), 500_000, "{entry:?} is half a file");
        }
    }
    let both = || sync(&server, &place, &id, &[]);
    std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(both), scope.spawn(both));
        one.join().unwrap().ok();
        other.join().unwrap().ok();
    });
    let names: Vec<String> = fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 41, "{names:?}");
    server.finish();
}

#[test]
fn a_patch_applies_in_the_project_without_what_it_ignores() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let place = project(&env, &[("src/a.txt", "one\n"), (".gitignore", "out/\n*.log\n")]);
    sync(&server, &place, &id, &[]).ok();
    server.warren(["snapshot", &id, "--name", "green"]).ok();
    server.shell(&id, "cd app && echo two >> src/a.txt && mkdir out && echo x > out/x && echo x > b.log && echo new > c && echo t > d.tmp");
    let patch = env.path("work.patch");
    let words = [
        "export",
        &id,
        "--since",
        &format!("{id}:green"),
        "--path",
        "/home/user/app",
        "--exclude",
        "*.tmp",
        "-o",
    ];
    server.warren([&words[..], &[patch.to_str().unwrap()]].concat()).ok();
    let git =
        |words: &[&str]| Command::new("git").args(words).current_dir(&place).status().unwrap().success();
    assert!(
        git(&["init", "-q"]) && git(&["apply", patch.to_str().unwrap()]),
        "{}",
        fs::read_to_string(&patch).unwrap()
    );
    assert_eq!((text(&place, "src/a.txt"), text(&place, "c")), ("one\ntwo\n".to_owned(), "new\n".to_owned()));
    assert!(!place.join("out").exists() && !place.join("b.log").exists() && !place.join("d.tmp").exists());
    let all = env.path("all.patch");
    let words = [
        "export",
        &id,
        "--since",
        &format!("{id}:green"),
        "--path",
        "/home/user/app",
        "--no-gitignore",
        "-o",
    ];
    server.warren([&words[..], &[all.to_str().unwrap()]].concat()).ok();
    assert!(fs::read_to_string(&all).unwrap().contains("out/x"));
    let tried = ["try", &id, "--gitignore", "--", "sh", "-c", "cd app && echo y > out/y && echo y > kept"];
    server.warren(tried).ok();
    assert_eq!(server.shell(&id, "cd app && cat kept; ls out"), "y\nx");
    server.finish();
}
