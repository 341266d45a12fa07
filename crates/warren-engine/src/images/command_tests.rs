//! The scripts that run in sandboxes, run by this machine's own shell in directories of the tests.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use tempfile::TempDir;
use warren_core::{BuildId, Owner};
use warren_testkit::FakeClock;
use warren_wire::guest::{Failure, FailureCode};

use super::*;
use crate::state::{Builds, WantedLines};

/// A client's files, and the sandbox that they go to.
struct Bench {
    directory: TempDir,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let context = directory.path().join("context");
        for (path, text) in files {
            let path = context.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(directory.path().join("root")).unwrap();
        Self { directory }
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().join("root")
    }

    /// Copies as a build does.
    fn copy(&self, pattern: &str, target: &str, mode: &str) -> Output {
        let archive = self.directory.path().join("context.tar.gz");
        let context = self.directory.path().join("context");
        let packed = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&context).arg(".").status();
        assert!(packed.unwrap().success());
        let owner = std::fs::metadata(self.directory.path()).unwrap();
        let owner = format!("{}:{}", owner.uid(), owner.gid());
        let target = format!("{}/{target}", self.root().display());
        let mut shell = Command::new("bash");
        shell.args(["-c", include_str!("copy.sh"), "copy"]).arg(&archive);
        let done = shell.args([pattern, &target, &owner, mode]).output().unwrap();
        assert!(!archive.exists(), "the archive stays behind");
        done
    }

    fn copied(&self, pattern: &str, target: &str) {
        let done = self.copy(pattern, target, "");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

#[test]
fn a_file_goes_to_a_name_or_into_a_directory() {
    let bench = Bench::new(&[("a.txt", "a"), ("b.txt", "b"), ("sub/c.txt", "c")]);
    bench.copied("a.txt", "new/name.txt");
    assert_eq!(bench.text("new/name.txt"), "a");
    bench.copied("b.txt", "new/");
    assert_eq!(bench.text("new/b.txt"), "b");
    bench.copied("sub/c.txt", "new");
    assert_eq!(bench.text("new/c.txt"), "c");
    bench.copied("./a.txt", "new/b.txt");
    assert_eq!(bench.text("new/b.txt"), "a");
}

#[test]
fn directories_are_merged_and_those_that_exist_keep_their_rights() {
    let bench = Bench::new(&[("app/x", "1"), ("app/deep/y", "2"), ("more/deep/z", "3")]);
    bench.copied("app", "opt");
    bench.copied("more/", "opt");
    assert_eq!(
        (bench.text("opt/x"), bench.text("opt/deep/y"), bench.text("opt/deep/z")),
        ("1".into(), "2".into(), "3".into())
    );
    let held = bench.root().join("held");
    std::fs::create_dir(&held).unwrap();
    std::fs::set_permissions(&held, std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::symlink("held", bench.root().join("link")).unwrap();
    bench.copied("app", "link/");
    assert_eq!(std::fs::metadata(&held).unwrap().mode() & 0o7777, 0o1777);
    assert!(held.join("deep/y").exists() && bench.root().join("link").is_symlink());
}

#[test]
fn the_whole_context_and_patterns_are_understood() {
    let bench = Bench::new(&[
        ("a.txt", "a"),
        ("b.md", "b"),
        (".hidden", "h"),
        ("d/e/f.txt", "f"),
        ("with space.txt", "s"),
    ]);
    bench.copied(".", "all");
    assert_eq!((bench.text("all/.hidden"), bench.text("all/d/e/f.txt")), ("h".into(), "f".into()));
    bench.copied("*.txt", "texts");
    assert_eq!((bench.text("texts/a.txt"), bench.text("texts/with space.txt")), ("a".into(), "s".into()));
    assert!(!bench.root().join("texts/b.md").exists());
    bench.copied("**/*.txt", "deep");
    assert_eq!((bench.text("deep/a.txt"), bench.text("deep/f.txt")), ("a".into(), "f".into()));
    bench.copied("with space.txt", "spaced");
    assert_eq!(bench.text("spaced"), "s");
}

#[test]
fn modes_are_set_and_links_stay_links() {
    let bench = Bench::new(&[("run.sh", "x")]);
    std::os::unix::fs::symlink("run.sh", bench.directory.path().join("context/link")).unwrap();
    assert!(bench.copy("run.sh", "bin/run", "755").status.success());
    let mode = |path: &str| std::fs::metadata(bench.root().join(path)).unwrap().mode() & 0o7777;
    assert_eq!(mode("bin/run"), 0o755);
    bench.copied("link", "bin/link");
    assert_eq!(std::fs::read_link(bench.root().join("bin/link")).unwrap(), Path::new("run.sh"));
}

#[test]
fn what_was_not_sent_is_told() {
    let bench = Bench::new(&[("a", "a")]);
    for pattern in ["b", "*.txt", "a/b"] {
        let done = bench.copy(pattern, "x", "");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && told.contains("among those that were sent"), "{pattern}: {told}");
    }
}

/// Makes a user in files of the test's own.
fn make_user(root: &Path, name: &str, sudo: &str) {
    let script = include_str!("user.sh").replace("/etc/", &format!("{}/etc/", root.display()));
    let script = script.replace("/home/", &format!("{}/home/", root.display()));
    // Only root gives files away.
    let script = script.replace("chown ", "true ");
    let done = Command::new("bash").args(["-c", &script, "user", name, sudo]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_user_is_made_once() {
    let directory = tempfile::tempdir().unwrap();
    let etc = directory.path().join("etc");
    std::fs::create_dir(&etc).unwrap();
    let passwd = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\nuser:x:1000:1000::/nowhere:/bin/sh\n";
    std::fs::write(etc.join("passwd"), passwd.replace("/nowhere", &directory.path().display().to_string()))
        .unwrap();
    std::fs::write(etc.join("group"), "root:x:0:\nuser:x:1000:\napp:x:1007:\n").unwrap();
    let read = |name: &str| std::fs::read_to_string(etc.join(name)).unwrap();
    make_user(directory.path(), "user", "true");
    assert_eq!(read("passwd").lines().count(), 3);
    assert!(read("group").ends_with("app:x:1007:\nsudo:x:27:user\n"), "{}", read("group"));
    make_user(directory.path(), "bob", "true");
    make_user(directory.path(), "bob", "true");
    make_user(directory.path(), "app", "");
    let lines = read("passwd");
    assert!(lines.contains("bob:x:1008:1008:") && lines.contains(":x:1009:1007:"), "{lines}");
    assert_eq!(lines.lines().count(), 5);
    assert!(read("group").contains("sudo:x:27:user,bob\n"), "{}", read("group"));
    assert!(directory.path().join("home/bob").is_dir());
}

#[test]
fn output_is_logged_line_by_line() {
    let build = BuildId::from_random([1; 16]);
    let log = Builds::default().open(&Owner::first(), &build, Arc::new(FakeClock::new())).unwrap();
    let mut lines =
        Lines { output: super::Output { log: &log, step: "3" }, level: LogLevel::Info, rest: Vec::new() };
    lines.push(b"one\ntw");
    lines.push(b"o\n");
    lines.push(b"rest");
    drop(lines);
    let told = log.lines(WantedLines { offset: 0, limit: 9, least: LogLevel::Debug });
    let told: Vec<_> = told.iter().map(|line| (line.message.as_str(), line.step.as_str())).collect();
    assert_eq!(told, [("one", "3"), ("two", "3"), ("rest", "3")]);
}

#[test]
fn an_unknown_user_is_told_apart() {
    let refused = EngineError::Refused;
    let unknown = CommandFailure::of_start(refused(Failure::unknown_user("look up user")), Some("root123"));
    let failure = unknown.in_step("2", "whoami");
    let user = UnknownUser { command: "whoami".to_owned(), user: "root123".to_owned() };
    assert_eq!((failure.step.as_str(), failure.unknown_user), ("2", Some(user)));
    assert_eq!(failure.message, "failed to run command 'whoami': there is no user 'root123'");
    let missing = Failure::new(FailureCode::NotFound, "look up the program");
    let missing = CommandFailure::of_start(refused(missing), Some("root"));
    assert_eq!(missing.to_string(), "command failed: look up the program");
    assert_eq!(CommandFailure::of_exit(2, &ExitCause::Exited).to_string(), "exit status 2");
}
