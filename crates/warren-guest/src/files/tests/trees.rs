use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};

use super::*;

fn list(path: &ByteString, depth: u32) -> Result<Vec<FileEntry>, Failure> {
    entries(FileOperation::List { path: path.clone(), depth, detail: None })
}

/// Paths below the scratch directory.
fn relative(scratch: &Scratch, entries: &[FileEntry]) -> Vec<String> {
    let name =
        |entry: &FileEntry| entry.path.as_path().strip_prefix(&scratch.path).unwrap().display().to_string();
    entries.iter().map(name).collect()
}

fn remove(path: ByteString, recursive: bool) -> Result<Reply, Failure> {
    ask(FileOperation::Remove { path, recursive })
}

/// A chain of directories, deeper than any path can name.
fn make_chain(scratch: &Scratch, levels: usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory: OwnedFd = std::fs::File::open(&scratch.path).unwrap().into();
    for _ in 0..levels {
        rustix::fs::mkdirat(&directory, "d", Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, "d", flags, Mode::empty()).unwrap();
    }
    rustix::fs::openat(&directory, "leaf", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_tree_is_listed_in_order_to_the_depth_asked() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("b/d")).unwrap();
    for name in ["a", "c", "b/x", "b/d/y", ".hidden"] {
        scratch.file(name, "", 0o644);
    }
    symlink("b", scratch.at("link")).unwrap();
    let top = scratch.bytes(".");
    assert_eq!(relative(&scratch, &list(&top, 1).unwrap()), [".hidden", "a", "b", "c", "link"]);
    assert_eq!(relative(&scratch, &list(&top, 2).unwrap()), [".hidden", "a", "b", "b/d", "b/x", "c", "link"]);
    assert_eq!(list(&top, u32::MAX).unwrap().len(), 8);
    // The top may be a link; its entries keep the name they were asked by.
    assert_eq!(relative(&scratch, &list(&scratch.bytes("link/"), 1).unwrap()), ["link/d", "link/x"]);
    assert_eq!(list(&top, 0).unwrap_err().code, FailureCode::Invalid);
    assert_eq!(list(&scratch.bytes("a"), 1).unwrap_err().code, FailureCode::WrongKind);
    assert_eq!(list(&scratch.bytes("none"), 1).unwrap_err().code, FailureCode::NotFound);
}

#[test]
fn a_directory_that_cannot_be_read_is_told_and_passed_over() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("closed/in")).unwrap();
    std::fs::create_dir_all(scratch.at("open/in")).unwrap();
    std::fs::set_permissions(scratch.at("closed"), PermissionsExt::from_mode(0o700)).unwrap();
    let mut connection =
        open_as(USER, FileOperation::List { path: scratch.bytes("."), depth: 9, detail: None });
    let Reply::Entries(found) = connection.reply().unwrap() else { panic!("no entries") };
    assert_eq!(relative(&scratch, &found), ["closed", "open", "open/in"]);
}

#[test]
fn a_large_directory_goes_out_in_frames() {
    let scratch = Scratch::new();
    for number in 0..5000 {
        std::fs::write(scratch.at(&format!("{number:0200}")), "").unwrap();
    }
    let found = list(&scratch.bytes("."), 1).unwrap();
    assert_eq!(found.len(), 5000);
    assert!(found.is_sorted_by_key(|entry| entry.path.clone()));
}

#[test]
fn a_chain_of_ten_thousand_directories_is_listed_and_removed() {
    let scratch = Scratch::new();
    make_chain(&scratch, 10_000);
    let started = Instant::now();
    let mut connection =
        open(FileOperation::List { path: scratch.bytes("."), depth: u32::MAX, detail: None });
    let (mut count, mut longest) = (0, 0);
    while let Some(frame) = connection.next_frame().unwrap().filter(|frame| frame.kind == FrameKind::Message)
    {
        let Reply::Entries(found) = minicbor::decode(&frame.payload).unwrap() else { panic!("no entries") };
        assert!(frame.payload.len() < 256 * 1024 && open_files() < 500);
        count += found.len();
        longest = found.iter().map(|entry| entry.path.as_bytes().len()).max().unwrap().max(longest);
    }
    assert_eq!(count, 10_001);
    assert_eq!(longest, scratch.path.as_os_str().len() + 20_000 + 5);
    remove(scratch.bytes("d"), true).unwrap();
    assert!(scratch.names().is_empty());
    assert!(started.elapsed() < Duration::from_secs(50));
}

#[test]
fn siblings_behind_a_deep_branch_are_not_forgotten() {
    let scratch = Scratch::new();
    let deep = (0..200).map(|_| "m").collect::<Vec<_>>().join("/");
    std::fs::create_dir_all(scratch.at(&deep)).unwrap();
    let mut path = scratch.path.clone();
    for _ in 0..200 {
        std::fs::write(path.join("z"), "").unwrap();
        path.push("m");
    }
    let found = list(&scratch.bytes("."), u32::MAX).unwrap();
    assert_eq!(found.len(), 400);
    assert_eq!(found.iter().filter(|entry| entry.path.as_path().ends_with("z")).count(), 200);
}

#[test]
fn removal_takes_what_it_is_told_and_no_more() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("tree/a/b")).unwrap();
    std::fs::create_dir(scratch.at("empty")).unwrap();
    std::fs::create_dir(scratch.at("outside")).unwrap();
    scratch.file("outside/kept", "x", 0o644);
    scratch.file("tree/a/file", "x", 0o644);
    symlink(scratch.at("outside"), scratch.at("tree/a/link")).unwrap();
    symlink("outside", scratch.at("link")).unwrap();
    for number in 0..400 {
        std::fs::create_dir_all(scratch.at(&format!("tree/many/{number}/x"))).unwrap();
    }
    let failure = remove(scratch.bytes("tree"), false).unwrap_err();
    assert_eq!((failure.code, failure.errno), (FailureCode::WrongKind, Some(libc::ENOTEMPTY)));
    assert!(failure.message.ends_with("directory not empty"), "{failure}");
    remove(scratch.bytes("empty"), false).unwrap();
    remove(scratch.bytes("tree"), true).unwrap();
    remove(scratch.bytes("link"), true).unwrap();
    assert_eq!(scratch.names(), ["outside"]);
    assert_eq!(scratch.content("outside/kept"), "x");
    assert_eq!(remove(scratch.bytes("tree"), true).unwrap_err().code, FailureCode::NotFound);
}

#[test]
fn a_tree_may_be_removed_twice_at_once() {
    let scratch = Scratch::new();
    for round in 0..10 {
        let top = format!("t{round}");
        for number in 0..100 {
            std::fs::create_dir_all(scratch.at(&format!("{top}/{}/{}/x", number % 7, number))).unwrap();
        }
        let path = scratch.bytes(&top);
        let other = std::thread::spawn({
            let path = path.clone();
            move || remove(path, true)
        });
        for outcome in [remove(path, true), other.join().unwrap()] {
            assert!(outcome.is_ok_and(|reply| reply == Reply::Done) || !scratch.at(&top).exists());
        }
        assert!(!scratch.at(&top).exists());
    }
}

#[test]
fn a_tree_that_moves_while_it_is_walked_harms_nothing() {
    let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
    let deep = "d/".repeat(120);
    std::fs::create_dir_all(scratch.at(&format!("a/{deep}"))).unwrap();
    std::fs::create_dir_all(elsewhere.at("outside")).unwrap();
    elsewhere.file("outside/kept", "x", 0o644);
    let stop = Arc::new(AtomicBool::new(false));
    let moving = std::thread::spawn({
        let (stop, from) = (Arc::clone(&stop), scratch.at(&format!("a/{}", "d/".repeat(60))));
        let to = elsewhere.at("outside/d");
        move || {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&from, &to).ok();
                std::fs::rename(&to, &from).ok();
            }
        }
    });
    for _ in 0..100 {
        list(&scratch.bytes("."), u32::MAX).unwrap();
    }
    // The removal may fail when the ground moves, but it never takes what is outside the tree.
    remove(scratch.bytes("a"), true).ok();
    stop.store(true, Ordering::Relaxed);
    moving.join().unwrap();
    assert_eq!(elsewhere.content("outside/kept"), "x");
}

#[test]
fn the_root_is_never_removed() {
    for path in ["/", "//", "/.", "/..", "/tmp/..", "/proc/../"] {
        for recursive in [false, true] {
            assert_eq!(remove(path.into(), recursive).unwrap_err().code, FailureCode::Invalid, "{path}");
        }
    }
}

#[test]
fn removal_stops_where_the_user_may_not_go() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("t/closed")).unwrap();
    std::fs::write(scratch.at("t/closed/x"), "").unwrap();
    std::fs::set_permissions(scratch.at("t"), PermissionsExt::from_mode(0o777)).unwrap();
    let operation = FileOperation::Remove { path: scratch.bytes("t"), recursive: true };
    assert_eq!(ask_as(USER, operation).unwrap_err().code, FailureCode::PermissionDenied);
    assert!(scratch.at("t/closed/x").exists());
}

#[test]
fn directories_are_made() {
    let scratch = Scratch::new();
    let make = |name: &str, permissions, parents| {
        ask(FileOperation::MakeDirectory { path: scratch.bytes(name), permissions, parents })
    };
    make("a", None, false).unwrap();
    assert_eq!(make("a", None, false).unwrap_err().code, FailureCode::AlreadyExists);
    make("a", Some(0o700), true).unwrap();
    assert_eq!(make("x/y", None, false).unwrap_err().code, FailureCode::NotFound);
    make("x/y/z", Some(0o1773), true).unwrap();
    let bits = |name: &str| stat(&scratch.bytes(name)).permissions;
    assert_eq!((bits("a"), bits("x"), bits("x/y"), bits("x/y/z")), (0o755, 0o755, 0o755, 0o1773));
    make("x/y/../w", None, true).unwrap();
    assert!(scratch.at("x/w").is_dir());
    scratch.file("f", "", 0o644);
    assert_eq!(make("f/d", None, true).unwrap_err().code, FailureCode::WrongKind);
    assert_eq!(make("f", None, true).unwrap_err().code, FailureCode::WrongKind);
    assert_eq!(make("b", Some(0o77777), false).unwrap_err().code, FailureCode::Invalid);
    let long = "d/".repeat(1900);
    make(&long, None, true).unwrap();
    remove(scratch.bytes("d"), true).unwrap();
}
