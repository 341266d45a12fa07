//! The machine inside is one: packages can be installed, `/usr` can be written to, and each row of
//! the guide's tables is true. What is written to `/usr` stays inside, and snapshots know it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use warren_core::{OwnerBond, Root, SandboxId, SandboxSpec, Sealed, TemplateName};
use warren_e2e::{Backend, TestEnv, TestServer, causes};
use warren_isolate::CrashPoint;
use warren_wire::api::{Command as ApiCommand, Exec};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/inside.md"));

/// Counts the writable layers on `/usr`.
const LAYERS: &str = "grep -c ' /usr overlay rw' /proc/mounts";

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// The commands of the table below a heading, each with its user.
fn rows(heading: &str) -> Vec<(&'static str, &'static str)> {
    let section = PAGE.split("\n## ").find(|part| part.starts_with(heading)).expect("the page has it");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows: Vec<_> = cells
        .map(|(command, rest)| (command, rest.split(' ').next().expect("it has a first word")))
        .collect();
    assert!(rows.len() > 5, "{heading}: {rows:?}");
    rows
}

#[test]
fn the_guide_says_what_works_and_what_does_not() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    let run = |(command, user): &(&str, &str)| {
        let output = env.warren(["exec", &id, "--user", user, "--", "sh", "-c", command]);
        (output.code == Some(0), format!("{command} as {user}: {}{}", output.text(), output.errors()))
    };
    let wrong = |heading: &str, expected: bool| {
        let told: Vec<_> = rows(heading).iter().map(run).collect();
        told.into_iter().filter(|(went, _)| *went != expected).map(|(_, told)| told).collect::<Vec<_>>()
    };
    assert_eq!(wrong("What works", true), [""; 0]);
    assert_eq!(wrong("What does not", false), [""; 0]);
    env.remove(&id).ok();
}

/// A package, and a directory that apt takes for a source of it.
fn repository(env: &TestEnv) -> PathBuf {
    let (tree, place) = (env.path("package"), env.path("repository"));
    fs::create_dir_all(tree.join("DEBIAN")).expect("the directory is made");
    fs::create_dir_all(tree.join("usr/bin")).expect("the directory is made");
    fs::create_dir_all(&place).expect("the directory is made");
    let control = "Package: warren-greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: greets\n";
    fs::write(tree.join("DEBIAN/control"), control).expect("the file is written");
    fs::write(tree.join("usr/bin/warren-greeting"), "#!/bin/sh\necho hello from a package\n")
        .expect("the file is written");
    let build = "chmod -R u=rwX,go=rX . && chmod 755 usr/bin/* && dpkg-deb --build --root-owner-group . ../repository/greeting.deb";
    assert!(Command::new("sh").args(["-c", build]).current_dir(&tree).status().expect("it runs").success());
    let deb = place.join("greeting.deb");
    let sum = Command::new("sha256sum").arg(&deb).output().expect("it runs");
    let sum = String::from_utf8(sum.stdout).expect("it writes text");
    let size = fs::metadata(&deb).expect("it was built").len();
    let index = format!(
        "{control}Filename: ./greeting.deb\nSize: {size}\nSHA256: {}\n",
        sum.split(' ').next().expect("it has a first word")
    );
    fs::write(place.join("Packages"), index).expect("the file is written");
    place
}

const ONLY_OURS: &str =
    "-o Dir::Etc::SourceList=/tmp/ours.list -o Dir::Etc::SourceParts=/dev/null -o Acquire::Languages=none";

#[test]
fn packages_are_installed_by_the_user_with_sudo_and_by_root() {
    let env = TestEnv::new();
    let place = repository(&env);
    let mount = format!("{}:/repository:ro", place.display());
    let script = format!(
        "set -e; echo 'deb [trusted=yes] file:/repository ./' > /tmp/ours.list
        SUDO apt-get {ONLY_OURS} update >&2; SUDO apt-get {ONLY_OURS} install -y warren-greeting >&2
        warren-greeting; dpkg -L warren-greeting | grep bin/; SUDO apt-get remove -y warren-greeting >&2; ! test -e /usr/bin/warren-greeting
        SUDO dpkg -i /repository/greeting.deb >&2; dpkg-query -W -f '${{Status}}' warren-greeting"
    );
    for (user, sudo) in [("user", "sudo"), ("root", "")] {
        let output =
            env.run_with(&["--mount", &mount, "--user", user], sh(&script.replace("SUDO", sudo))).ok();
        let told = output.text();
        let expected = ["hello from a package", "/usr/bin/warren-greeting", "install ok installed"];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{user}: {}", output.errors());
        assert!(!output.errors().contains("unsandboxed") || user == "root", "{}", output.errors());
    }
    assert!(!Path::new("/usr/bin/warren-greeting").exists(), "the machine has nothing of it");
}

#[test]
fn python_and_node_packages_are_installed_by_the_user() {
    let env = TestEnv::new();
    let script = r#"set -e; mkdir -p /tmp/p/greeting /tmp/n
        printf 'def main(): print("hello from pip")\n' > /tmp/p/greeting/__init__.py
        printf 'from setuptools import setup\nsetup(name="greeting", version="1", packages=["greeting"], entry_points={"console_scripts": ["greet-py=greeting:main"]})\n' > /tmp/p/setup.py
        pip install --no-index --no-build-isolation /tmp/p >&2; greet-py
        printf '{"name":"greet-js","version":"1.0.0","bin":"./main.js"}' > /tmp/n/package.json
        printf '#!/usr/bin/env node\nconsole.log("hello from npm")\n' > /tmp/n/main.js
        npm install --global --offline --no-audit --no-fund /tmp/n >&2; greet-js; command -v greet-js"#;
    let told = env.run(sh(script)).ok().text();
    let expected = ["hello from pip", "hello from npm", "/home/user/.local/bin/greet-js"];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn root_has_roots_home_in_every_kind_of_call() {
    let env = TestEnv::new();
    let home = sh("echo $HOME $USER; cd; pwd");
    assert_eq!(env.run_with(&["--user", "root"], home).ok().text(), "/root root\n/root\n");
    assert_eq!(env.run(home).ok().text(), "/home/user user\n/home/user\n");
    let id = env.keep(&[] as &[&str]);
    let as_root = env.warren([&["exec", &id, "--user", "root", "--"][..], &home].concat());
    assert_eq!(as_root.ok().text(), "/root root\n/root\n");
    env.remove(&id).ok();
}

#[test]
fn df_shows_a_hard_disk_limit() {
    let env = TestEnv::new();
    let size = env.run_with(&["--disk", "100m"], sh("df -m --output=size / | tail -1")).ok().line();
    let size: u64 = size.trim().parse().unwrap();
    assert!((80..=110).contains(&size), "{size} MiB");
}

#[test]
fn what_is_written_to_usr_stays_inside() {
    let env = TestEnv::new();
    let name = format!("warren-test-{}", std::process::id());
    let script = format!(
        "set -e; ! touch /usr/local/bin/{name} 2>/dev/null; sudo sh -c 'echo one > /usr/local/bin/{name}'
        cat /usr/local/bin/{name}; sudo rm /usr/bin/yes; ! test -e /usr/bin/yes;
        sudo chmod 000 /usr/bin/env; sudo mv /usr/share/doc /usr/share/{name}; test -d /usr/share/{name}"
    );
    let before = fs::read("/usr/bin/true").unwrap();
    let (first, second) = (env.keep(&[] as &[&str]), env.keep(&[] as &[&str]));
    assert_eq!(env.exec(&first, sh(&script)).ok().line(), "one");
    let other =
        env.exec(&second, sh(&format!("sudo true; test -x /usr/bin/yes && ! test -e /usr/local/bin/{name}")));
    other.ok();
    assert!(!Path::new("/usr/local/bin").join(&name).exists() && Path::new("/usr/bin/yes").exists());
    assert_eq!(fs::read("/usr/bin/true").unwrap(), before);
    env.remove(&first).ok();
    env.remove(&second).ok();
    env.assert_clean();
}

/// A command without a server finds a sandbox whose maker is gone, and gives it its layer.
#[test]
fn a_crash_while_usr_gets_its_layer_leaves_a_sandbox_that_works() {
    for point in CrashPoint::ALL.into_iter().filter(|point| point.name().starts_with("defer.")) {
        let env = TestEnv::new();
        let id = env.keep(&[] as &[&str]);
        let output =
            env.command(["exec", &id, "true"]).env("WARREN_CRASH_AT", point.name()).output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{}: {output:?}", point.name());
        let script = "sudo touch /usr/local/made; ls /usr/local/made";
        assert_eq!(env.exec(&id, sh(script)).ok().line(), "/usr/local/made", "{}", point.name());
        assert_eq!(env.exec(&id, sh(LAYERS)).ok().line(), "1");
        env.remove(&id).ok();
        env.assert_clean();
    }
}

#[test]
fn a_server_that_dies_while_usr_gets_its_layer_finds_a_sandbox_that_works() {
    for point in CrashPoint::ALL.into_iter().filter(|point| point.name().starts_with("defer.")) {
        let env = TestEnv::new();
        let mut server = TestServer::setup(&env).crash_at(point.name()).start();
        let id = server.create();
        let command = ApiCommand::Shell("sudo touch /usr/local/first".to_owned());
        drop(server.client().exec(&id, &Exec { command, ..Exec::default() }));
        assert_eq!(server.ended(Duration::from_secs(60)).signal(), Some(9), "{}", point.name());
        server.start_again();
        let script = "sudo touch /usr/local/made; ls /usr/local/made";
        assert_eq!(server.shell(&id, script), "/usr/local/made", "{}", point.name());
        assert_eq!(server.shell(&id, LAYERS), "1");
        server.warren(["rm", &id]).ok();
        server.finish();
    }
}

#[test]
fn commands_that_come_at_once_give_usr_one_layer() {
    let env = TestEnv::new();
    let id = env.keep(&[] as &[&str]);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (env, id) = (&env, &id);
            scope.spawn(move || env.exec(id, sh(&format!("sudo touch /usr/local/{number}"))).ok());
        }
    });
    assert_eq!(env.exec(&id, sh("ls -d /usr/local/[0-5] | wc -l")).ok().line(), "6");
    assert_eq!(env.exec(&id, sh(LAYERS)).ok().line(), "1");
    env.remove(&id).ok();
    env.assert_clean();
}

fn spec() -> SandboxSpec {
    SandboxSpec::new(TemplateName::host())
}

fn root_of(backend: &Backend<'_>, id: &SandboxId) -> Root {
    let found = backend.port().list().expect("sandboxes are listed");
    found.into_iter().find(|found| found.id == *id).expect("it is listed").root
}

#[test]
fn a_sandbox_has_no_layer_on_usr_before_root_needs_one() {
    let env = TestEnv::new();
    let backend = env.backend();
    let id = backend.create(spec(), OwnerBond::Outlives);
    let area = env.data_dir().join("sandboxes").join(id.as_str());
    backend.exec(&id, ["sh", "-c", "echo 1 > /home/user/file; ls /usr/bin"]).line();
    assert!(!area.join("upper-1").exists() && !area.join("work-1").exists());
    // Whoever has a file open keeps it.
    let script = "exec 3< /usr/bin/env; cd /usr/bin; sudo touch /usr/local/made; ls /usr/local/made; test -e env && cat <&3 | head -c 4 | tail -c 3";
    assert_eq!(backend.exec(&id, sh(script)).line(), "/usr/local/made\nELF");
    assert!(area.join("upper-1/local/made").exists());
    assert_eq!(backend.exec(&id, sh(LAYERS)).line(), "1");
    backend.destroy(&id);
}

#[test]
fn snapshots_and_forks_know_what_was_written_to_usr() {
    let env = TestEnv::new();
    let backend = env.backend();
    let layers = env.data_dir().join("layers");
    fs::create_dir_all(&layers).unwrap();
    let id = backend.create(spec(), OwnerBond::Outlives);
    let seal = |name: &str| {
        let below = root_of(&backend, &id);
        let sealed = backend.layered().seal(&id, &layers.join(name), below.trees());
        assert!(matches!(sealed.unwrap_or_else(|error| panic!("{}", causes(&error))), Sealed::Done { .. }));
    };
    backend.exec(&id, sh("echo 0 > /home/user/file")).line();
    seal("plain");
    assert!(!layers.join("plain/upper-1").exists(), "nothing was written there");
    backend.exec(&id, sh("sudo sh -c 'echo 1 > /usr/local/made; rm /usr/bin/yes'")).line();
    seal("first");
    assert_eq!(fs::read_to_string(layers.join("first/upper-1/local/made")).unwrap(), "1\n");
    backend.exec(&id, sh("sudo sh -c 'echo 2 >> /usr/local/made'; echo 1 >> /home/user/file")).line();
    seal("second");
    let request = backend.request(spec(), OwnerBond::Outlives);
    let request = warren_core::CreateRequest { root: root_of(&backend, &id), ..request };
    let fork = backend.port().create(request).unwrap_or_else(|error| panic!("{}", causes(&error))).id;
    let look = "cat /usr/local/made /home/user/file; test -e /usr/bin/yes || echo gone; sudo touch /usr/local/more; ls /usr/local/more";
    for sandbox in [&fork, &id] {
        assert_eq!(backend.exec(sandbox, sh(look)).line(), "1\n2\n0\n1\ngone\n/usr/local/more", "{sandbox}");
    }
    backend.destroy(&fork);
    backend.destroy(&id);
}

#[test]
fn undo_diff_and_a_server_that_was_killed_know_usr() {
    let env = TestEnv::new();
    let mut server = TestServer::start(&env);
    let (id, other) = (server.create(), server.create());
    let before = server.warren(["snapshot", &id]).ok().line();
    server.shell(&id, "sudo touch /usr/local/bin/first");
    let told = server.warren(["diff", &before, &id]).ok().text();
    assert!(told.contains("/usr/local/bin/first"), "{told}");
    server.warren(["undo", &id]).ok();
    assert_eq!(server.shell(&id, "ls /usr/local/bin/first 2>/dev/null; true"), "");
    server.kill();
    server.start_again();
    // Their agents know no other server than the one that is gone.
    for id in [&id, &other] {
        assert_eq!(
            server.shell(id, "sudo touch /usr/local/bin/later; ls /usr/local/bin/later"),
            "/usr/local/bin/later"
        );
        server.warren(["rm", id]).ok();
    }
}

#[test]
fn a_command_larger_than_a_frame_is_refused_with_a_code() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let path = format!("/v1/sandboxes/{id}/exec");
    let word = |bytes: usize| "x".repeat(bytes);
    let (many, long) = (vec![word(100_000); 6], vec![word(130 * 1024)]);
    for words in [many, long] {
        let command = [vec!["true".to_owned()], words].concat();
        let body = serde_json::json!({ "command": command });
        let answer = server.ask("POST", &path, Some(&body));
        assert_eq!((answer.status, answer.code().as_str()), (422, "command_too_large"));
        let body = serde_json::json!({ "command": ["true", word(2 << 20)] });
        assert_eq!(server.ask("POST", &path, Some(&body)).code(), "payload_too_large");
    }
    for count in [6, 12] {
        let command = [vec!["true".to_owned()], vec![word(100_000); count]].concat();
        let words = [vec!["exec".to_owned(), id.clone(), "--".to_owned()], command.clone()].concat();
        server.warren(words).ended(125).says("command_too_large");
        env.run(command).ended(125).says("command_too_large");
    }
    server.warren(["rm", &id]).ok();
}
