use std::os::unix::fs::{MetadataExt, chown, symlink};

use super::*;

fn denied_to_user(operation: FileOperation) {
    let failure = ask_as(USER, operation.clone()).unwrap_err();
    assert_eq!(failure.code, FailureCode::PermissionDenied, "{operation:?}: {failure}");
}

#[test]
fn a_user_has_no_more_rights_than_the_user() {
    let scratch = Scratch::new();
    let secret = scratch.file("secret", "x", 0o600);
    std::fs::create_dir(scratch.at("closed")).unwrap();
    std::fs::set_permissions(scratch.at("closed"), PermissionsExt::from_mode(0o700)).unwrap();
    let closed = scratch.bytes("closed");
    assert_eq!(read_as(USER, &secret, 0, None).unwrap_err().code, FailureCode::PermissionDenied);
    for mode in [WriteMode::Replace, WriteMode::Append, WriteMode::At { offset: 0 }] {
        denied_to_user(writing(&secret, mode));
    }
    denied_to_user(writing(&scratch.bytes("closed/new"), WriteMode::CreateNew));
    denied_to_user(FileOperation::List { path: closed.clone(), depth: 1, detail: None });
    denied_to_user(FileOperation::Watch { path: closed.clone(), recursive: true });
    denied_to_user(FileOperation::SetPermissions { path: secret.clone(), permissions: 0o777 });
    denied_to_user(FileOperation::SetOwner { path: secret, owner: USER.into() });
    denied_to_user(FileOperation::MakeDirectory {
        path: scratch.bytes("closed/d"),
        permissions: None,
        parents: true,
    });
    denied_to_user(FileOperation::MakeSymlink { path: scratch.bytes("closed/l"), target: "x".into() });
    denied_to_user(FileOperation::Remove { path: scratch.bytes("closed/x"), recursive: true });
    denied_to_user(FileOperation::Read { path: "/proc/1/environ".into(), offset: 0, length: None });
    assert_eq!(scratch.content("secret"), "x");
}

#[test]
fn what_a_user_makes_is_the_users() {
    let scratch = Scratch::new();
    let path = scratch.bytes("d/f");
    let operation = FileOperation::Write { path, mode: WriteMode::Replace, permissions: None, parents: true };
    write_as(USER, operation, b"mine").unwrap();
    ask_as(USER, FileOperation::MakeSymlink { path: scratch.bytes("l"), target: "d".into() }).unwrap();
    for name in ["d", "d/f", "l"] {
        let found = std::fs::symlink_metadata(scratch.at(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (1000, 1000), "{name}");
    }
    let own = scratch.bytes("d/f");
    ask_as(USER, FileOperation::SetPermissions { path: own.clone(), permissions: 0o600 }).unwrap();
    denied_to_user(FileOperation::SetOwner { path: own, owner: "0".into() });
}

#[test]
fn groups_count() {
    let scratch = Scratch::new();
    let path = scratch.file("shared", "x", 0o640);
    chown(scratch.at("shared"), Some(0), Some(4321)).unwrap();
    assert_eq!(read_as("1000:4321", &path, 0, None).unwrap(), b"x");
    assert_eq!(read_as(USER, &path, 0, None).unwrap_err().code, FailureCode::PermissionDenied);
}

#[test]
fn a_file_whose_directory_is_closed_is_overwritten_in_place() {
    let scratch = Scratch::new();
    let path = scratch.file("hosts", "old and long", 0o666);
    std::fs::set_permissions(&scratch.path, PermissionsExt::from_mode(0o755)).unwrap();
    let inode = stat(&path).inode;
    let mut connection = open_as(USER, writing(&path, WriteMode::Replace));
    connection.reply().unwrap();
    connection.send_data(b"half").unwrap();
    drop(connection);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(scratch.content("hosts"), "old and long");
    write_as(USER, writing(&path, WriteMode::Replace), b"new").unwrap();
    assert_eq!((scratch.content("hosts").as_str(), stat(&path).inode), ("new", inode));
    let large = vec![b'x'; 6_000_000];
    write_as(USER, writing(&path, WriteMode::Replace), &large).unwrap();
    assert!(std::fs::read(scratch.at("hosts")).unwrap() == large);
}

#[test]
fn a_file_protected_by_a_sticky_directory_is_overwritten_in_place() {
    let scratch = Scratch::new();
    std::fs::set_permissions(&scratch.path, PermissionsExt::from_mode(0o1777)).unwrap();
    let path = scratch.file("a", "old", 0o666);
    write_as(USER, writing(&path, WriteMode::Replace), b"new").unwrap();
    assert_eq!((scratch.content("a").as_str(), stat(&path).uid), ("new", 0));
    assert_eq!(scratch.names(), ["a"]);
}

#[test]
fn owners_are_set_with_and_without_a_group() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "x", 0o644);
    let set = |owner: &str| ask(FileOperation::SetOwner { path: path.clone(), owner: owner.into() });
    set("5:6").unwrap();
    assert_eq!((stat(&path).uid, stat(&path).gid), (5, 6));
    set("7").unwrap();
    assert_eq!((stat(&path).uid, stat(&path).gid), (7, 6));
    set("root:root").unwrap();
    assert_eq!((stat(&path).uid, stat(&path).gid), (0, 0));
    assert_eq!(set("no-such-user").unwrap_err().code, FailureCode::Invalid);
    assert_eq!(set("-1").unwrap_err().code, FailureCode::Invalid);
}

#[test]
fn an_unknown_user_does_nothing() {
    let scratch = Scratch::new();
    let operation =
        FileOperation::MakeDirectory { path: scratch.bytes("d"), permissions: None, parents: false };
    assert_eq!(ask_as("no-such-user", operation).unwrap_err().code, FailureCode::Invalid);
    assert!(scratch.names().is_empty());
}

#[test]
fn small_changes_do_what_they_say() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "x", 0o644);
    symlink("a", scratch.at("l")).unwrap();
    ask(FileOperation::SetPermissions { path: scratch.bytes("l"), permissions: 0o4711 }).unwrap();
    assert_eq!(stat(&path).permissions, 0o4711);
    assert_eq!(
        refusal(FileOperation::SetPermissions { path: path.clone(), permissions: 0o10_644 }),
        FailureCode::Invalid
    );
    ask(FileOperation::Rename { from: path.clone(), to: scratch.bytes("b") }).unwrap();
    assert_eq!(scratch.names(), ["b", "l"]);
    assert_eq!(refusal(FileOperation::Rename { from: path, to: scratch.bytes("c") }), FailureCode::NotFound);
    let failure = ask(FileOperation::Rename { from: scratch.bytes("b"), to: "/proc/x".into() }).unwrap_err();
    assert_eq!((failure.code, failure.errno), (FailureCode::WrongKind, Some(libc::EXDEV)));
    assert!(failure.message.contains("to `/proc/x`: "), "{failure}");
    let link = |path, target: &str| FileOperation::MakeSymlink { path, target: target.into() };
    assert_eq!(refusal(link(scratch.bytes("l"), "x")), FailureCode::AlreadyExists);
    assert_eq!(refusal(link(scratch.bytes("m"), "")), FailureCode::Invalid);
}

#[test]
fn what_is_made_with_roots_rights_belongs_to_the_user() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("closed")).unwrap();
    std::fs::set_permissions(scratch.at("closed"), PermissionsExt::from_mode(0o700)).unwrap();
    let modes = [
        ("replace", WriteMode::Replace),
        ("new", WriteMode::CreateNew),
        ("append", WriteMode::Append),
        ("at", WriteMode::At { offset: 0 }),
        ("truncate", WriteMode::Truncate),
    ];
    let mut made = vec!["closed/made".to_owned(), "closed/made/d".to_owned(), "closed/l".to_owned()];
    for (name, mode) in modes {
        let name = format!("closed/made/{name}");
        let path = scratch.bytes(&name);
        let operation = FileOperation::Write { path, mode, permissions: None, parents: true };
        send(open_for_user(operation), b"mine").unwrap();
        assert_eq!(scratch.content(&name), "mine");
        made.push(name);
    }
    let path = scratch.bytes("closed/made/d");
    let directory = FileOperation::MakeDirectory { path, permissions: None, parents: false };
    open_for_user(directory).reply().unwrap();
    let link = FileOperation::MakeSymlink { path: scratch.bytes("closed/l"), target: "made".into() };
    open_for_user(link).reply().unwrap();
    for name in made {
        let found = std::fs::symlink_metadata(scratch.at(&name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (1000, 1000), "{name}");
    }
    assert_eq!(std::fs::metadata(scratch.at("closed")).unwrap().uid(), 0, "what was there stays");
    assert_eq!(std::fs::metadata(scratch.at("closed/made/truncate")).unwrap().mode() & 0o7777, 0o644);
}

#[test]
fn a_file_written_in_place_keeps_its_bits_and_changes_hands() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "longer than what follows", 0o640);
    let inode = std::fs::metadata(scratch.at("a")).unwrap().ino();
    send(open_for_user(writing(&path, WriteMode::Truncate)), b"short").unwrap();
    assert_eq!(scratch.content("a"), "short");
    let found = std::fs::metadata(scratch.at("a")).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777, found.ino()), (1000, 0o640, inode));
    write(writing(&path, WriteMode::Truncate), b"x").unwrap();
    assert_eq!(std::fs::metadata(scratch.at("a")).unwrap().uid(), 1000, "without an heir the owner stays");
    let directory = (&scratch.path).into();
    assert_eq!(refusal(writing(&directory, WriteMode::Truncate)), FailureCode::WrongKind);
}
