use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;

use warren_wire::guest::EntryKind;

use super::*;

fn read(path: &ByteString) -> Result<Vec<u8>, Failure> {
    read_as("0:0", path, 0, None)
}

#[test]
fn a_file_is_read_whole_or_in_part() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "0123456789", 0o600);
    assert_eq!(read(&path).unwrap(), b"0123456789");
    assert_eq!(read_as("0", &path, 3, Some(4)).unwrap(), b"3456");
    assert_eq!(read_as("0", &path, 8, Some(400)).unwrap(), b"89");
    assert_eq!(read_as("0", &path, 99, None).unwrap(), b"");
    assert_eq!(read_as("0", &path, 0, Some(0)).unwrap(), b"");
}

#[test]
fn only_regular_files_are_read_and_nothing_hangs() {
    let scratch = Scratch::new();
    make_fifo(&scratch.at("fifo"));
    let _listener = UnixListener::bind(scratch.at("socket")).unwrap();
    for path in [scratch.bytes("fifo"), scratch.bytes("socket"), scratch.bytes("."), "/dev/zero".into()] {
        assert_eq!(read(&path).unwrap_err().code, FailureCode::WrongKind, "{path:?}");
    }
    assert_eq!(read(&scratch.bytes("fifo/x")).unwrap_err().code, FailureCode::WrongKind);
    let failure = read(&scratch.bytes("none")).unwrap_err();
    assert_eq!((failure.code, failure.errno), (FailureCode::NotFound, Some(2)));
    let path = scratch.at("none");
    assert_eq!(failure.message, format!("read `{}`: no such file or directory", path.display()));
}

#[test]
fn files_of_the_kernel_are_read_though_they_claim_no_size() {
    let status = String::from_utf8(read(&"/proc/self/status".into()).unwrap()).unwrap();
    assert!(status.starts_with("Name:"));
    assert_eq!(read_as("0", &"/proc/self/status".into(), 0, Some(5)).unwrap(), b"Name:");
}

#[test]
fn a_huge_sparse_file_is_read_where_asked() {
    let scratch = Scratch::new();
    let file = std::fs::File::create(scratch.at("sparse")).unwrap();
    let end = 1 << 40;
    if file.write_at(b"end", end).is_err() {
        return;
    }
    assert_eq!(stat(&scratch.bytes("sparse")).size, end + 3);
    assert_eq!(read_as("0", &scratch.bytes("sparse"), end - 1, None).unwrap(), b"\0end");
}

#[test]
fn a_host_that_leaves_ends_an_endless_read() {
    let scratch = Scratch::new();
    std::fs::File::create(scratch.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    let (host, agent) = UnixStream::pair().unwrap();
    let serving = std::thread::spawn(move || answer(agent));
    let operation = FileOperation::Read { path: scratch.bytes("sparse"), offset: 0, length: None };
    let mut connection =
        Connection::open(host, &Request::File(FileCall { user: None, operation, as_root: None })).unwrap();
    connection.next_frame().unwrap();
    connection.next_frame().unwrap();
    drop(connection);
    serving.join().unwrap();
}

#[test]
fn links_are_followed_for_reading_and_loops_are_refused() {
    let scratch = Scratch::new();
    scratch.file("a", "text", 0o644);
    std::os::unix::fs::symlink("a", scratch.at("link")).unwrap();
    std::os::unix::fs::symlink("loop", scratch.at("loop")).unwrap();
    assert_eq!(read(&scratch.bytes("link")).unwrap(), b"text");
    let failure = read(&scratch.bytes("loop")).unwrap_err();
    assert_eq!((failure.code, failure.errno), (FailureCode::WrongKind, Some(libc::ELOOP)));
    assert_eq!(
        write(writing(&scratch.bytes("loop"), WriteMode::Replace), b"").unwrap_err().errno,
        Some(libc::ELOOP)
    );
}

#[test]
fn an_entry_tells_everything() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "text", 0o4751);
    std::os::unix::fs::symlink("a", scratch.at("link")).unwrap();
    let entry = stat(&path);
    assert_eq!((entry.kind, entry.size, entry.permissions), (EntryKind::File, 4, 0o4751));
    assert_eq!((entry.uid, entry.owner, entry.links), (0, Some("root".into()), 1));
    assert!(entry.modified_ns > 1_600_000_000_000_000_000);
    let link = stat(&scratch.bytes("link"));
    assert_eq!((link.kind, link.target), (EntryKind::Symlink, Some("a".into())));
    let Reply::Entry(followed) =
        ask(FileOperation::Stat { path: scratch.bytes("link"), follow: true, detail: None }).unwrap()
    else {
        panic!("not an entry");
    };
    assert_eq!((followed.inode, followed.target), (entry.inode, None));
    make_fifo(&scratch.at("fifo"));
    assert_eq!(stat(&scratch.bytes("fifo")).kind, EntryKind::Fifo);
    assert_eq!(stat(&"/dev/null".into()).kind, EntryKind::CharDevice);
    assert_eq!(stat(&"/".into()).path, "/".into());
}

#[test]
fn paths_that_cannot_be_are_refused() {
    let long = "x/".repeat(2048);
    for path in ["", "a\0b", &long] {
        assert_eq!(
            refusal(FileOperation::Stat { path: path.into(), follow: true, detail: None }),
            FailureCode::Invalid
        );
    }
    let component = format!("/{}", "x".repeat(300));
    assert_eq!(
        refusal(FileOperation::Stat { path: component.into(), follow: true, detail: None }),
        FailureCode::Invalid
    );
}

#[test]
fn names_need_not_be_text() {
    let scratch = Scratch::new();
    let name = std::ffi::OsString::from_vec(b"\xff\xfe name\n".to_vec());
    let path: ByteString = (&scratch.path.join(&name)).into();
    write(writing(&path, WriteMode::CreateNew), b"odd").unwrap();
    assert_eq!(read(&path).unwrap(), b"odd");
    let found = entries(FileOperation::List { path: scratch.bytes("."), depth: 1, detail: None }).unwrap();
    assert_eq!(found[0].path, path);
    ask(FileOperation::Remove { path, recursive: false }).unwrap();
}

#[test]
fn relative_paths_start_at_home() {
    // The number has no entry, so its home is the root.
    assert_eq!(read_as("4242", &"proc/self/comm".into(), 0, Some(0)).unwrap(), b"");
}
