//! Templates come, go and survive: names, replacement, removal, and imports that are killed.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use warren_store::{
    ImportError, ImportRequest, ImportSource, ReadError, RemoveError, Replace, TemplateName, TemplateStore,
};

use crate::support::{Tar, TestStore, limits, root};

const KILLED_STORE: &str = "WARREN_TEST_KILLED_STORE";

fn small(content: &[u8]) -> Vec<u8> {
    Tar::new().file("a", content).end()
}

#[test]
fn names_are_taken_once() {
    let test = TestStore::new();
    assert!(matches!(test.import("host", &small(b"")), Err(ImportError::Reserved)));
    test.import("one", &small(b"old")).unwrap();
    assert!(matches!(test.import("one", &small(b"new")), Err(ImportError::AlreadyExists { .. })));

    let archive = small(b"new");
    let replace = |in_use: bool| {
        let bytes = archive.as_slice();
        test.run("one", ImportSource::Stream(Box::new(bytes)), Replace::Unless(&|_| in_use), limits())
    };
    assert!(matches!(replace(true), Err(ImportError::InUse { .. })));
    let template = replace(false).unwrap().template;
    assert_eq!(fs::read(root(&template).join("a")).unwrap(), b"new");
    assert_eq!(test.names(), ["one"], "the replaced one is gone");
}

#[test]
fn removal_asks_first() {
    let test = TestStore::new();
    let name: TemplateName = "one".parse().unwrap();
    assert!(matches!(test.store.remove(&name, &|_| false), Err(RemoveError::NotFound { .. })));
    assert!(matches!(test.store.remove(&TemplateName::host(), &|_| false), Err(RemoveError::BuiltIn)));
    test.import("one", &small(b"")).unwrap();
    assert!(matches!(test.store.remove(&name, &|asked| *asked == name), Err(RemoveError::InUse { .. })));
    test.store.get(&name).unwrap();
    test.store.remove(&name, &|_| false).unwrap();
    assert!(matches!(test.store.get(&name), Err(ReadError::NotFound { .. })));
    assert!(test.names().is_empty());
}

#[test]
fn of_imports_at_once_one_wins() {
    let test = TestStore::new();
    let results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..6_u8)
            .map(|index| {
                scope.spawn({
                    let test = &test;
                    move || test.import("one", &small(&[index]))
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let lost = |result: &&Result<_, _>| matches!(result, Err(ImportError::AlreadyExists { .. }));
    assert_eq!(results.iter().filter(lost).count(), 5);
    assert_eq!(test.names(), ["one"]);
}

#[test]
fn other_users_are_kept_out() {
    let test = TestStore::new();
    for directory in ["templates", "common"] {
        let mode = fs::metadata(test.data.path().join(directory)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{directory}");
    }
}

/// It is of the machine, and a fresh data directory need not look for it again.
#[test]
fn data_directories_share_the_template_of_the_machine() {
    // Only root has a place for it that nobody else can change.
    let Ok(one) = tempfile::tempdir_in("/var/lib") else { return };
    let two = tempfile::tempdir_in("/var/lib").unwrap();
    let trees = |data: &Path| TemplateStore::open(data).unwrap().host().unwrap().trees;
    let found = trees(one.path());
    assert_eq!(found, trees(two.path()));
    let own = found.iter().flat_map(|tree| &tree.lowers).filter(|path| !path.starts_with("/usr"));
    assert!(own.clone().count() == 2 && own.clone().all(|path| path.starts_with("/var/lib/warren-host")));
}

#[test]
fn a_directory_that_contains_the_store_is_refused() {
    let test = TestStore::new();
    fs::write(test.data.path().join("file"), "").unwrap();
    assert!(matches!(test.import_path("own", test.data.path()), Err(ImportError::ContainsStore)));
    assert!(test.names().is_empty());
    assert!(matches!(test.import_path("odd", "/dev/null".as_ref()), Err(ImportError::OddSource { .. })));
    assert!(matches!(test.import_path("none", "/nonexistent".as_ref()), Err(ImportError::Open { .. })));
}

#[test]
fn manifests_are_checked() {
    let test = TestStore::new();
    let template = test.import("one", &small(b"")).unwrap().template;
    let path = test.templates().join("one/template.json");
    let good = fs::read_to_string(&path).unwrap();
    let read = |text: &str| {
        fs::write(&path, text).unwrap();
        test.store.get(&template.name)
    };
    assert_eq!(read(&good).unwrap(), template);
    let newer = good.replace("\"format\": 1", "\"format\": 3, \"unheard_of\": {}");
    assert!(matches!(read(&newer), Err(ReadError::NewerFormat { format: 3, .. })));
    assert!(matches!(read("{}"), Err(ReadError::Malformed { .. })));
    assert!(matches!(read(&good.replace("\"one\"", "\"two\"")), Err(ReadError::OtherName { .. })));
    assert!(matches!(read(&good.replace("\"/\"", "\"relative\"")), Err(ReadError::Config { .. })));
    assert!(matches!(read(&" ".repeat(5 << 20)), Err(ReadError::TooLarge { .. })));

    test.import("two", &small(b"")).unwrap();
    let listing = test.store.list().unwrap();
    assert_eq!((listing.templates.len(), listing.damaged.len()), (1, 1));
}

#[test]
fn a_killed_import_is_swept_and_a_living_one_is_not() {
    let test = TestStore::new();
    let before = test.import("victim", &small(b"old")).unwrap().template;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifecycle::import_from_stdin_until_killed", "--nocapture"])
        .env(KILLED_STORE, test.data.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let archive = Tar::new().file("a", &vec![7; 4 << 20]).end();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&archive[..3 << 20]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while test.names().len() < 2 {
        assert!(Instant::now() < deadline, "the child did not start to import");
        thread::sleep(Duration::from_millis(5));
    }

    TemplateStore::open(test.data.path()).unwrap();
    assert_eq!(test.names().len(), 2, "a living import keeps its staging directory");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(input);
    assert_eq!(test.names().len(), 2, "nothing but the next start tidies up after a kill");
    TemplateStore::open(test.data.path()).unwrap();
    assert_eq!(test.names(), ["victim"]);
    assert_eq!(test.store.get(&before.name).unwrap(), before);
}

/// Not a test by itself: the process that [`a_killed_import_is_swept_and_a_living_one_is_not`]
/// kills.
#[test]
fn import_from_stdin_until_killed() {
    let Some(data) = std::env::var_os(KILLED_STORE) else { return };
    let store = TemplateStore::open(data.as_ref()).unwrap();
    let request = ImportRequest {
        name: "victim".parse().unwrap(),
        source: ImportSource::Stream(Box::new(std::io::stdin())),
        replace: Replace::Unless(&|_| false),
        limits: limits(),
        progress: &mut |_| {},
    };
    let result = store.import(request);
    panic!("the import should never end: {result:?}");
}
