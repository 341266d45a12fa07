//! Which directories Warren takes for its data, and what it leaves alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use warren_e2e::{TestEnv, TestServer};

/// Every command that writes to a data directory.
const OPENERS: [&[&str]; 8] = [
    &["run", "--", "true"],
    &["shell"],
    &["ls"],
    &["serve", "--listen", "127.0.0.1:0"],
    &["template", "ls"],
    &["tls", "init"],
    &["storage", "create", "--size", "200m"],
    &["rm", "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa"],
];

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode can be set");
}

/// All that is there, with what could have been changed of it.
fn picture(place: &Path) -> Vec<(PathBuf, u32, u32, i64, u64)> {
    let mut left = vec![place.to_owned()];
    let mut seen = Vec::new();
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).expect("what is listed is there");
        if found.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory can be listed");
            left.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
        }
        seen.push((path, found.mode(), found.uid(), found.mtime_nsec(), found.ino()));
    }
    seen.sort();
    seen
}

/// Insists that each command says no to this directory, with these words, and changes nothing.
#[track_caller]
fn assert_refused(env: &TestEnv, data_dir: &Path, words: &str) {
    let before = picture(env.place());
    for opener in OPENERS {
        let output = env.warren_on(data_dir, opener);
        let said = output.errors();
        assert_eq!(output.code, Some(125), "{opener:?}: {said}");
        let named = format!("`{}` cannot be the data directory", data_dir.display());
        assert!(said.contains(&named) && said.contains(words), "{opener:?}: {said}");
        assert_eq!(picture(env.place()), before, "{opener:?} changed something");
    }
}

#[test]
fn one_that_holds_other_things_is_left_as_it_is() {
    let env = TestEnv::new();
    let project = env.path("project");
    fs::create_dir_all(project.join("templates")).unwrap();
    fs::write(project.join("Makefile"), "all:\n").unwrap();
    for path in [&project, &project.join("templates")] {
        set_mode(path, 0o755);
    }
    assert_refused(&env, &project, "which is not Warren's");
}

#[test]
fn one_that_others_own_write_or_could_replace_is_refused() {
    let env = TestEnv::new();
    let data = env.path("theirs");
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o777);
    assert_refused(&env, &data, "chmod go-w");
    assert_refused(&env, &data.join("deeper"), "others may write in");
    set_mode(&data, 0o755);
    chown(&data, Some(4321), Some(4321)).unwrap();
    assert_refused(&env, &data, "it belongs to user 4321");
    assert_refused(&env, &data.join("deeper"), "user 4321");
}

/// The machine's own /usr is in every sandbox of the built-in template.
#[test]
fn one_that_sandboxes_could_read_is_refused() {
    let env = TestEnv::new();
    let data = PathBuf::from(format!("/usr/share/warren-e2e-{}", std::process::id()));
    assert_refused(&env, &data, "which sandboxes can read");
    assert!(!data.exists());
    let link = env.path("link");
    symlink("/usr/share", &link).unwrap();
    assert_refused(&env, &link.join("warren"), "which sandboxes can read");
}

/// Not changed, as its owner made it; what is in it is closed nonetheless.
#[test]
fn one_that_all_may_enter_tells_others_nothing() {
    let env = TestEnv::new();
    let data = env.data_dir();
    fs::create_dir(&data).unwrap();
    for open in [env.place(), &data] {
        set_mode(open, 0o755);
    }
    let server = TestServer::start(&env);
    let id = server.create();
    server.shell(&id, "echo secret > note");
    server.warren(["snapshot", &id]).ok();
    env.warren(["tls", "init"]).ok();
    env.run(["true"]).ok();
    let seen = |test: &str| {
        let found = Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "find"])
            .args([data.as_os_str(), "-mindepth".as_ref(), "1".as_ref(), test.as_ref()])
            .output()
            .unwrap();
        let text = String::from_utf8(found.stdout).unwrap();
        let strip = |line: &str| line.strip_prefix(&format!("{}/", data.display())).unwrap().to_owned();
        text.lines().map(strip).collect::<Vec<_>>()
    };
    let harmless = |name: &String| name.starts_with("agent-") || name == "catalog.json";
    let readable: Vec<_> = seen("-readable").into_iter().filter(|name| !harmless(name)).collect();
    assert!(readable.is_empty(), "others can read {readable:?}");
    assert_eq!(seen("-writable"), [] as [&str; 0]);
    assert!(seen("-true").iter().all(|name| !name.contains('/')), "others come to the first names only");
    assert_eq!(fs::metadata(&data).unwrap().mode() & 0o7777, 0o755);
    server.finish();
}

#[test]
fn what_holds_the_data_directory_or_is_in_it_is_not_given_to_a_sandbox() {
    let env = TestEnv::new();
    env.run(["true"]).ok();
    let data = env.data_dir();
    let beside = env.path("beside");
    fs::create_dir(&beside).unwrap();
    let wrong = [PathBuf::from("/"), env.place().to_owned(), data.clone(), data.join("sandboxes")];
    let flag = |path: &Path| format!("{}:/mnt:ro", path.display());
    for source in &wrong {
        env.run_with(&["--mount", &flag(source)], ["true"])
            .ended(125)
            .says("Warren keeps its own data there");
    }
    env.run_with(&["--mount", &flag(&beside)], ["true"]).ok();
    let allowed = format!("[\"{}\"]", env.place().display());
    let server = TestServer::setup(&env).set("mounts.allow", &allowed).start();
    for source in &wrong[1..] {
        let refused = server.warren(["create", "--mount", &flag(source)]).ended(125);
        assert!(refused.errors().contains("Warren keeps its own data there"), "{}", refused.errors());
    }
    server.warren(["create", "--mount", &flag(&beside)]).ok();
    server.finish();
}
