use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn each_mode_treats_what_is_there_as_it_says() {
    let scratch = Scratch::new();
    let path = scratch.bytes("a");
    assert_eq!(write(writing(&path, WriteMode::Replace), b"first").unwrap(), 5);
    assert_eq!(mode_of(&scratch.at("a")), 0o644);
    write(writing(&path, WriteMode::Append), b"+more").unwrap();
    assert_eq!(scratch.content("a"), "first+more");
    write(writing(&path, WriteMode::At { offset: 1 }), b"IRS").unwrap();
    assert_eq!(scratch.content("a"), "fIRSt+more");
    assert_eq!(
        write(writing(&path, WriteMode::CreateNew), b"").unwrap_err().code,
        FailureCode::AlreadyExists
    );
    write(writing(&path, WriteMode::Replace), b"").unwrap();
    assert_eq!(scratch.content("a"), "");
    write(writing(&scratch.bytes("b"), WriteMode::CreateNew), b"new").unwrap();
    write(writing(&scratch.bytes("c"), WriteMode::Append), b"new").unwrap();
    write(writing(&scratch.bytes("d"), WriteMode::At { offset: 2 }), b"x").unwrap();
    assert_eq!(scratch.content("d"), "\0\0x");
    assert_eq!(scratch.names(), ["a", "b", "c", "d"]);
    let far = WriteMode::At { offset: u64::MAX };
    assert_eq!(write(writing(&path, far), b"").unwrap_err().code, FailureCode::Invalid);
}

#[test]
fn permissions_are_those_asked_for_or_those_of_the_replaced_file() {
    let scratch = Scratch::new();
    for (name, mode) in [("r", WriteMode::Replace), ("c", WriteMode::CreateNew), ("a", WriteMode::Append)] {
        let path = scratch.bytes(name);
        let operation = FileOperation::Write { path, mode, permissions: Some(0o4776), parents: false };
        write(operation, b"x").unwrap();
        assert_eq!(mode_of(&scratch.at(name)), 0o4776, "{name}");
    }
    let path = scratch.file("kept", "old", 0o4741);
    std::os::unix::fs::chown(scratch.at("kept"), Some(7), Some(8)).unwrap();
    std::fs::set_permissions(scratch.at("kept"), PermissionsExt::from_mode(0o4741)).unwrap();
    write(writing(&path, WriteMode::Replace), b"new").unwrap();
    let kept = std::fs::metadata(scratch.at("kept")).unwrap();
    assert_eq!((kept.mode() & 0o7777, kept.uid(), kept.gid()), (0o4741, 7, 8));
    let wrong =
        FileOperation::Write { path, mode: WriteMode::Replace, permissions: Some(0o10_000), parents: false };
    assert_eq!(write(wrong, b"").unwrap_err().code, FailureCode::Invalid);
}

#[test]
fn parents_are_made_on_request() {
    let scratch = Scratch::new();
    let path = scratch.bytes("x/y/z");
    assert_eq!(write(writing(&path, WriteMode::Replace), b"").unwrap_err().code, FailureCode::NotFound);
    let operation = FileOperation::Write { path, mode: WriteMode::Replace, permissions: None, parents: true };
    write(operation, b"deep").unwrap();
    assert_eq!(scratch.content("x/y/z"), "deep");
    assert_eq!(mode_of(&scratch.at("x/y")), 0o755);
}

#[test]
fn a_link_is_written_through_and_stays_a_link() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("d")).unwrap();
    scratch.file("d/real", "old", 0o600);
    symlink("d/real", scratch.at("link")).unwrap();
    symlink("link", scratch.at("second")).unwrap();
    write(writing(&scratch.bytes("second"), WriteMode::Replace), b"new").unwrap();
    assert_eq!(scratch.content("d/real"), "new");
    assert!(scratch.at("second").is_symlink() && scratch.at("link").is_symlink());
    symlink("d/fresh", scratch.at("dangling")).unwrap();
    assert_eq!(
        write(writing(&scratch.bytes("dangling"), WriteMode::CreateNew), b"").unwrap_err().code,
        FailureCode::AlreadyExists
    );
    write(writing(&scratch.bytes("dangling"), WriteMode::Append), b"made").unwrap();
    assert_eq!(scratch.content("d/fresh"), "made");
}

#[test]
fn what_is_not_a_file_is_not_written() {
    let scratch = Scratch::new();
    make_fifo(&scratch.at("fifo"));
    scratch.file("file", "x", 0o644);
    for mode in [WriteMode::Replace, WriteMode::Append, WriteMode::At { offset: 0 }] {
        for path in
            [scratch.bytes("fifo"), scratch.bytes("."), "/dev/full".into(), scratch.bytes("file/below")]
        {
            let failure = write(writing(&path, mode), b"").unwrap_err();
            assert_eq!(failure.code, FailureCode::WrongKind, "{mode:?} {path:?}: {failure}");
        }
    }
    let slash: ByteString = format!("{}/", scratch.at("new").display()).into();
    assert_eq!(write(writing(&slash, WriteMode::Replace), b"").unwrap_err().code, FailureCode::WrongKind);
    assert_eq!(scratch.names(), ["fifo", "file"]);
}

#[test]
fn a_broken_upload_leaves_the_old_content_and_nothing_else() {
    let scratch = Scratch::new();
    let path = scratch.file("a", "old", 0o644);
    for (path, mode) in [(path, WriteMode::Replace), (scratch.bytes("b"), WriteMode::CreateNew)] {
        let mut connection = open(writing(&path, mode));
        connection.reply().unwrap();
        connection.send_data(&[1; 300_000]).unwrap();
        assert_eq!(scratch.names().len(), 2);
        drop(connection);
        eventually(|| scratch.names() == ["a"]);
        assert_eq!(scratch.content("a"), "old");
    }
}

#[test]
fn a_message_in_the_middle_of_an_upload_is_refused() {
    let scratch = Scratch::new();
    let mut connection = open(writing(&scratch.bytes("a"), WriteMode::Replace));
    connection.reply().unwrap();
    let control = warren_wire::guest::Control::Signal { signal: 9 };
    connection.send_control(&control).unwrap();
    assert_eq!(failed(connection.reply()).unwrap_err().code, FailureCode::Invalid);
    drop(connection);
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn a_reader_sees_the_old_content_or_the_new() {
    let scratch = Scratch::new();
    let path = scratch.file("a", &"0".repeat(100_000), 0o644);
    let stop = Arc::new(AtomicBool::new(false));
    let reading = {
        let (file, stop) = (scratch.at("a"), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let content = std::fs::read(&file).unwrap();
                assert_eq!(content.len(), 100_000);
                assert!(content.iter().all(|byte| *byte == content[0]));
            }
        })
    };
    for round in 0..50 {
        write(writing(&path, WriteMode::Replace), &[b'0' + round % 10; 100_000]).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    reading.join().unwrap();
}

#[test]
fn a_file_that_is_a_mount_is_overwritten_in_place() {
    let scratch = Scratch::new();
    scratch.file("source", "old", 0o644);
    let path = scratch.file("mounted", "", 0o644);
    let mount = std::process::Command::new("mount")
        .arg("--bind")
        .args([scratch.at("source"), scratch.at("mounted")])
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        return;
    }
    let outcome = write(writing(&path, WriteMode::Replace), b"new");
    std::process::Command::new("umount").arg(scratch.at("mounted")).status().unwrap();
    assert_eq!(outcome.unwrap(), 3);
    assert_eq!(scratch.content("source"), "new");
    assert_eq!(scratch.names(), ["mounted", "source"]);
}

#[test]
fn a_program_that_runs_is_replaced() {
    let scratch = Scratch::new();
    std::fs::copy("/bin/sleep", scratch.at("program")).unwrap();
    let mut running = std::process::Command::new(scratch.at("program")).arg("60").spawn().unwrap();
    let outcome = write(writing(&scratch.bytes("program"), WriteMode::Replace), b"new");
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(outcome.unwrap(), 3);
    assert_eq!(mode_of(&scratch.at("program")), 0o755);
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let scratch = Scratch::new();
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&scratch.path)
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        return;
    }
    let path = scratch.file("a", "old", 0o644);
    let replaced = write(writing(&path, WriteMode::Replace), &vec![1; 3_000_000]);
    let created = write(writing(&scratch.bytes("b"), WriteMode::CreateNew), &vec![1; 3_000_000]);
    let left = (scratch.names(), scratch.content("a"));
    std::process::Command::new("umount").arg(&scratch.path).status().unwrap();
    assert_eq!(replaced.unwrap_err().code, FailureCode::Exhausted);
    assert_eq!(created.unwrap_err().code, FailureCode::Exhausted);
    assert_eq!(left, (vec!["a".to_owned()], "old".to_owned()));
}

#[test]
fn a_hundred_megabytes_go_up_and_down_in_flat_memory() {
    let scratch = Scratch::new();
    let path = scratch.bytes("big");
    let before = peak_kilobytes();
    let mut connection = open(writing(&path, WriteMode::Replace));
    connection.reply().unwrap();
    let chunk = vec![7; 1 << 20];
    for _ in 0..100 {
        connection.send_data(&chunk).unwrap();
    }
    connection.send_end().unwrap();
    assert_eq!(connection.reply().unwrap(), Reply::Written { bytes: 100 << 20 });

    let mut connection = open(FileOperation::Read { path, offset: 0, length: None });
    connection.reply().unwrap();
    let mut total = 0;
    while let Some(frame) = connection.next_frame().unwrap().filter(|frame| frame.kind == FrameKind::Data) {
        total += frame.payload.len();
    }
    assert_eq!(total, 100 << 20);
    // Other tests run in the same process, so the bound is generous; a copy in memory would still
    // break it.
    assert!(peak_kilobytes() - before < 64 * 1024);
}

fn peak_kilobytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
