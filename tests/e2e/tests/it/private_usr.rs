//! Files of the machine's own `/usr` that only its root may read do not exist inside, under any
//! rights there.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warren_e2e::{TestEnv, TestServer};

const WORD: &str = "only-for-the-machines-root";

/// A private file and a private directory on this very machine, gone when this is dropped.
struct Secret(PathBuf);

impl Secret {
    /// Private from their first moment, as a package's are.
    fn place(name: &str) -> Self {
        let directory = PathBuf::from(format!("/usr/local/share/warren-test-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&directory));
        let secret = Self(directory);
        fs::DirBuilder::new().mode(0o755).create(&secret.0).expect("a directory can be made");
        fs::DirBuilder::new().mode(0o700).create(secret.0.join("closed")).expect("a directory can be made");
        for (path, mode) in [("file", 0o600), ("group", 0o640), ("closed/inner", 0o644), ("public", 0o644)] {
            let mut file = fs::OpenOptions::new();
            let mut file = file
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(secret.0.join(path))
                .expect("a file can be made");
            let word = if path == "public" { "for-all" } else { WORD };
            file.write_all(word.as_bytes()).expect("a file can be written");
        }
        secret
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("the path is text")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Every way to come to the content that somebody with all rights of a sandbox has.
fn attacks(at: &str) -> String {
    format!(
        "cd {at} && cat public && cat file group closed/inner; cp file /tmp/a; cp -r closed /tmp/b; ls closed; chmod 644 file group;
         chmod 755 closed; chown 0:0 file closed; mv group /tmp/c; ln file linked; setfacl -m u:0:r file; cat file group linked;
         cat closed/inner; exec 3<>file; tar c . ; python3 -c 'import mmap;mmap.mmap(open(\"file\",\"r+b\").fileno(),0)';
         cat /tmp/a /tmp/b/* /tmp/c"
    )
}

#[test]
fn roots_inside_read_nothing_that_is_private_on_the_machine() {
    let env = TestEnv::new();
    let before = Secret::place("before");
    for user in ["user", "root"] {
        let id = env.keep(&["--user", user]);
        let listed = env.warren(["exec", &id, "--user", "root", "--", "ls", "-a", before.path()]).ok().text();
        assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), [".", "..", "public"]);
        let after = Secret::place(&format!("after-{user}"));
        for at in [before.path(), after.path()] {
            for words in [vec!["sh", "-c"], vec!["sudo", "sh", "-c"]] {
                let script = attacks(at);
                let words = [vec!["exec", &id, "--user", user, "--"], words, vec![&script]].concat();
                let output = env.warren(words);
                let said = output.text() + &output.errors();
                assert!(said.contains("for-all") && !said.contains(WORD), "{user}, {at}: {said}");
            }
            let output = env.warren(["exec", &id, "--user", "root", "--", "sh", "-c", &attacks(at)]);
            let said = output.text() + &output.errors();
            assert!(said.contains("for-all") && !said.contains(WORD), "{user}, {at}: {said}");
        }
        env.remove(&id).ok();
    }
}

#[test]
fn what_looks_as_before_belongs_to_whom_it_did() {
    let env = TestEnv::new();
    let secret = Secret::place("looks");
    let script = format!(
        "stat -c '%a %u %g %Y' /usr {0} {0}/public /usr/bin; sha256sum < /usr/bin/env",
        secret.path()
    );
    let outside = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let outside = String::from_utf8(outside.stdout).unwrap();
    assert_eq!(env.run(["sh", "-c", &script]).ok().text(), outside);
}

#[test]
fn the_files_api_export_and_diff_see_what_a_sandbox_sees() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let id = server.create();
    let rooted = server.warren(["create", "--user", "root"]).ok().line();
    let secret = Secret::place("service");
    let read = server.warren(["keys", "create", "r", "--scope", "read"]).ok().line();
    for id in [&id, &rooted] {
        for (name, status) in [("public", 200), ("file", 0), ("group", 0), ("closed/inner", 0)] {
            let path = format!("/v1/sandboxes/{id}/files?path={}/{name}&user=root", secret.path());
            let answer = server.ask("GET", &path, None);
            assert!(
                answer.status == status || status == 0 && answer.status >= 400,
                "{name}: {}",
                answer.status
            );
            assert!(!String::from_utf8_lossy(&answer.body).contains(WORD));
        }
        server.shell(id, "echo 1 > /tmp/a");
        server.warren(["snapshot", id, "--name", "now"]).ok();
        let archive = env.path("archive.tar");
        let words =
            ["export", &format!("{id}:now"), "--path", secret.path(), "-o", archive.to_str().unwrap()];
        let mut command = server.command(words);
        warren_e2e::Output::from(command.env("WARREN_API_KEY", &read).output().unwrap()).ok();
        let bytes = fs::read(&archive).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("for-all") && !text.contains(WORD));
        assert!(!text.contains("closed") && !text.contains("group"), "names are told");
    }
    let over = format!(
        "mkdir -p {0}/closed; for f in file group closed/inner; do rm -f {0}/$f; echo mine > {0}/$f; done",
        secret.path()
    );
    drop(server.warren(["exec", &rooted, "--", "sh", "-c", &over]));
    for words in [vec!["diff", &rooted], vec!["diff", &rooted, "--text"]] {
        let output = server.warren(words);
        assert!(!(output.text() + &output.errors()).contains(WORD));
    }
    for id in [id, rooted] {
        server.warren(["rm", &id]).ok();
    }
    server.finish();
}

/// A snapshot mounts all anew in a running sandbox; a fork and a resume start from what was written
/// there.
#[test]
fn snapshots_forks_and_resumed_sandboxes_show_no_more() {
    let env = TestEnv::new();
    let secret = Secret::place("travel");
    let server = TestServer::start(&env);
    let id = server.warren(["create", "--user", "root"]).ok().line();
    server.shell(&id, "echo 1 > /usr/local/own && chmod 600 /usr/local/own");
    server.warren(["snapshot", &id, "--name", "one"]).ok();
    server.shell(&id, "echo 2 >> /usr/local/own");
    server.warren(["snapshot", &id, "--name", "two"]).ok();
    let fork = server.warren(["fork", &format!("{id}:two")]).ok().line();
    server.warren(["stop", &id]).ok();
    server.warren(["resume", &id]).ok();
    for id in [&id, &fork] {
        let output = server.warren(["exec", id, "--", "sh", "-c", &attacks(secret.path())]);
        let said = output.text() + &output.errors();
        assert!(said.contains("for-all") && !said.contains(WORD), "{said}");
        assert_eq!(server.shell(id, "cat /usr/local/own").split_whitespace().collect::<Vec<_>>(), ["1", "2"]);
        server.warren(["rm", id]).ok();
    }
    server.finish();
}

/// A server that has looked at `/usr` before the file was there looks again.
#[test]
fn a_server_hides_the_name_of_what_comes_later() {
    let env = TestEnv::new();
    let server = TestServer::start(&env);
    let first = server.create();
    let secret = Secret::place("later");
    let began = Instant::now();
    loop {
        let id = server.create();
        let names = server.shell(&id, &format!("ls {}", secret.path()));
        server.warren(["rm", &id]).ok();
        if names.trim() == "public" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{names}");
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(Path::new(secret.path()).join("file").exists());
    server.warren(["rm", &first]).ok();
    server.finish();
}
