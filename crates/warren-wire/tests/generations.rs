//! Each generation of the guest protocol as it looks on the wire, frozen. A sandbox outlives the
//! server that made it, so bytes that were ever sent must be understood for ever. `make bless` adds
//! what is new; a line that changes is a mistake.

use std::fs;
use std::path::PathBuf;

use warren_wire::guest::*;

fn text(text: &str) -> ByteString {
    text.into()
}

fn requests() -> Vec<Request> {
    let id = ProcessSelector::Id(ProcessId(7));
    let size = TerminalSize { columns: 80, rows: 24 };
    let start = Start {
        argv: vec![text("sh"), text("-c"), text("true")],
        env: vec![text("A=1")],
        cwd: Some(text("/tmp")),
        user: Some(text("user")),
        stdin: Stdin::Piped,
        terminal: Some(size),
        tag: Some(text("tag")),
        timeout_ms: Some(1000),
        follow: Some(Reader::Skips),
        until_closed: None,
    };
    let mut requests = vec![
        Request::Ping,
        Request::Start(start),
        Request::Start(Start { argv: vec![text("true")], ..Start::default() }),
        Request::Start(Start { argv: vec![text("true")], until_closed: Some(true), ..Start::default() }),
        Request::Attach(Attach {
            process: ProcessSelector::Tag(text("tag")),
            from: 9,
            reader: Reader::Holds,
        }),
        Request::Input { process: ProcessSelector::Pid(3), keep_open: true },
        Request::Signal(SignalCall { process: id.clone(), signal: 15, group: true }),
        Request::Resize { process: id.clone(), size },
        Request::Wait { process: id },
        Request::List,
        Request::Connect { port: 8080 },
        Request::Usage,
        Request::LetGo,
    ];
    requests.extend(
        file_operations()
            .into_iter()
            .map(|operation| Request::File(FileCall { user: Some(text("root")), operation, as_root: None })),
    );
    let operation = FileOperation::Remove { path: text("/a"), recursive: true };
    requests.push(Request::File(FileCall { user: Some(text("user")), operation, as_root: Some(true) }));
    requests
}

fn file_operations() -> Vec<FileOperation> {
    let path = || text("/a");
    let write = |mode| FileOperation::Write { path: path(), mode, permissions: Some(0o600), parents: true };
    let query = GrepQuery {
        root: path(),
        pattern: "x+".to_owned(),
        ignore_case: true,
        files: Some(text("*.rs")),
        limit: 5,
    };
    vec![
        FileOperation::Stat { path: path(), follow: true, detail: None },
        FileOperation::Stat { path: path(), follow: false, detail: Some(detail()) },
        FileOperation::Read { path: path(), offset: 1, length: Some(2) },
        write(WriteMode::Replace),
        write(WriteMode::Append),
        write(WriteMode::CreateNew),
        write(WriteMode::At { offset: 3 }),
        write(WriteMode::Truncate),
        FileOperation::List { path: path(), depth: 2, detail: None },
        FileOperation::List { path: path(), depth: 2, detail: Some(detail()) },
        FileOperation::MakeDirectory { path: path(), permissions: None, parents: false },
        FileOperation::Rename { from: path(), to: text("/b") },
        FileOperation::Remove { path: path(), recursive: true },
        FileOperation::SetPermissions { path: path(), permissions: 0o644 },
        FileOperation::SetOwner { path: path(), owner: text("user") },
        FileOperation::MakeSymlink { path: path(), target: text("/b") },
        FileOperation::Glob { root: path(), pattern: text("**/*.rs"), limit: 9 },
        FileOperation::Grep(query),
        FileOperation::Watch { path: path(), recursive: true },
        FileOperation::SetAttributes { path: path(), prefix: text("user."), attributes: vec![attribute()] },
    ]
}

fn detail() -> Detail {
    Detail { resolve: true, attributes: Some(text("user.")) }
}

fn attribute() -> Attribute {
    Attribute { name: text("user.a"), value: text("b") }
}

fn replies() -> Vec<Reply> {
    let exit = |cause| Exit { code: 1, cause, duration_ms: 2, output_bytes: 3 };
    let entry = FileEntry {
        path: text("/a"),
        kind: EntryKind::Symlink,
        size: 1,
        permissions: 0o777,
        uid: 0,
        gid: 5,
        modified_ns: -1,
        target: Some(text("/b")),
        owner: Some(text("root")),
        group: None,
        inode: 6,
        links: 1,
        resolved: None,
        attributes: None,
    };
    let resolved = Resolved { path: text("/c"), kind: Some(EntryKind::File), permissions: 0o644, size: 5 };
    let process = ProcessInfo {
        process: ProcessId(7),
        pid: 8,
        argv: vec![text("true")],
        tag: None,
        terminal: true,
        exit: Some(exit(ExitCause::TimedOut)),
        age_ms: 9,
        kept_from: 10,
        kept_to: 11,
        cwd: text("/"),
        env: Vec::new(),
    };
    let found = GrepMatch { path: text("/a"), line: 4, text: text("xx") };
    let renamed_to = Some(text("b"));
    let change = WatchEvent { kind: WatchKind::Renamed, path: text("a"), renamed_to, moved_away: None };
    let moved =
        WatchEvent { kind: WatchKind::Removed, renamed_to: None, moved_away: Some(true), ..change.clone() };
    let failure = Failure::of_kernel(FailureCode::NotFound, "no", 2);
    vec![
        Reply::Pong(Pong { generation: 1, version: "0.1.0".to_owned(), uptime_ms: 5 }),
        Reply::Started(Started { process: ProcessId(7), pid: 8, position: 9 }),
        Reply::Exited(exit(ExitCause::Exited)),
        Reply::Exited(exit(ExitCause::Signalled { signal: 9 })),
        Reply::Missed { bytes: 1, position: 2 },
        Reply::Processes(vec![process]),
        Reply::Done,
        Reply::Entry(entry.clone()),
        Reply::Entries(vec![entry.clone()]),
        Reply::Entry(FileEntry { resolved: Some(resolved), attributes: Some(vec![attribute()]), ..entry }),
        Reply::Matches(vec![found]),
        Reply::Changed(vec![change]),
        Reply::Changed(vec![moved]),
        Reply::Written { bytes: 12 },
        Reply::Usage(GuestUsage { processes: 1, running: 2, ..GuestUsage::default() }),
        Reply::Failed(failure),
        Reply::Failed(Failure::unknown_user("nobody")),
    ]
}

fn controls() -> Vec<Control> {
    vec![Control::Resize(TerminalSize { columns: 1, rows: 2 }), Control::Signal { signal: 2 }]
}

fn lines<T: std::fmt::Debug + minicbor::Encode<()>>(kind: &str, messages: &[T]) -> Vec<String> {
    let line = |message: &T| {
        let hex: String = minicbor::to_vec(message)
            .expect("it can be encoded")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{kind} {hex} {message:?}")
    };
    messages.iter().map(line).collect()
}

#[test]
fn every_message_of_a_generation_keeps_its_bytes() {
    let all =
        [lines("request", &requests()), lines("reply", &replies()), lines("control", &controls())].concat();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("schemas/guest-{GENERATION}.golden"));
    let now = all.join("\n") + "\n";
    if std::env::var_os("WARREN_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let frozen = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        frozen, now,
        "the wire changed: add fields and variants, never alter them; `make bless` for additions"
    );
}

#[test]
fn every_message_is_understood_again() {
    for request in requests() {
        assert_eq!(minicbor::decode::<Request>(&minicbor::to_vec(&request).unwrap()).unwrap(), request);
    }
    for reply in replies() {
        assert_eq!(minicbor::decode::<Reply>(&minicbor::to_vec(&reply).unwrap()).unwrap(), reply);
    }
}

/// A newer peer may send a field this version does not know.
#[test]
fn fields_of_the_future_are_passed_over() {
    let known = SignalCall { process: ProcessSelector::Pid(1), signal: 9, group: false };
    let mut bytes = minicbor::to_vec(&known).unwrap();
    assert_eq!(bytes[0], 0x83, "an array of three");
    bytes[0] = 0x84;
    bytes.extend_from_slice(&minicbor::to_vec("of the future").unwrap());
    assert_eq!(minicbor::decode::<SignalCall>(&bytes).unwrap(), known);
}

/// A reason that a newer agent gives takes nothing from what the code says.
#[test]
fn reasons_of_the_future_are_passed_over() {
    let known = Failure::unknown_user("nobody");
    let mut bytes = minicbor::to_vec(&known).unwrap();
    assert_eq!(bytes.pop(), Some(0), "the reason is last");
    bytes.extend_from_slice(&minicbor::to_vec(7_u32).unwrap());
    let newer = minicbor::decode::<Failure>(&bytes).unwrap();
    assert_eq!((newer.code, newer.reason), (FailureCode::Invalid, Some(FailureReason::Newer)));
    assert!(!newer.is_unknown_user());
}

/// Agents that do not give a reason yet are understood by their words, and no other refusal of
/// theirs is.
#[test]
fn an_older_agent_knows_unknown_users_too() {
    let look_up = "look up user `mallory`: not in /etc/passwd";
    let failed = |message| Failure::new(FailureCode::Invalid, message);
    assert!(failed(look_up).is_unknown_user() && Failure::unknown_user("any words").is_unknown_user());
    assert!(!failed("look up group `x`: not in /etc/group").is_unknown_user());
    assert!(!Failure::new(FailureCode::NotFound, look_up).is_unknown_user());
    assert!(!Failure::of_kernel(FailureCode::Invalid, look_up, 22).is_unknown_user());
}

/// Bytes that were ever frozen can still be read, whatever has been added since.
#[test]
fn frozen_bytes_are_understood() {
    for entry in fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas")).unwrap() {
        for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let mut words = line.splitn(3, ' ');
            let (kind, hex) = (words.next().unwrap(), words.next().unwrap());
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            let understood = match kind {
                "request" => minicbor::decode::<Request>(&bytes).is_ok(),
                "reply" => minicbor::decode::<Reply>(&bytes).is_ok(),
                _ => minicbor::decode::<Control>(&bytes).is_ok(),
            };
            assert!(understood, "{line}");
        }
    }
}
