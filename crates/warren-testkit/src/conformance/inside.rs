//! The suite's actions in a sandbox, all by calls to the agent.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warren_core::{Isolation, IsolationErrorKind, SandboxId};
use warren_wire::guest::{
    CallError, Connection, FileCall, FileOperation, FrameKind, Reader, Reply, Request, Start, WriteMode,
    parse_reply,
};

use super::PATIENCE;

/// A connection to the agent, as soon as it takes one more caller.
#[track_caller]
pub(super) fn dial(backend: &dyn Isolation, id: &SandboxId) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match backend.dial(id) {
            Ok(stream) => {
                let stream = UnixStream::from(stream);
                stream.set_read_timeout(Some(PATIENCE)).expect("a stream has a time limit");
                return stream;
            }
            Err(error) if error.kind == IsolationErrorKind::Busy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => panic!("dial {id}: {}", super::told(&error)),
        }
    }
}

fn start(words: &[&str]) -> Start {
    Start { argv: words.iter().map(|word| (*word).into()).collect(), ..Start::default() }
}

/// Starts a program and does not wait for it.
#[track_caller]
pub(super) fn spawn(backend: &dyn Isolation, id: &SandboxId, words: &[&str]) {
    let reply = Connection::ask(dial(backend, id), &Request::Start(start(words)));
    assert!(matches!(reply, Ok(Reply::Started(_))), "{words:?}: {reply:?}");
}

/// Runs a program to its end: its exit code and what it wrote.
#[track_caller]
pub(super) fn run(backend: &dyn Isolation, id: &SandboxId, words: &[&str]) -> (i32, String) {
    follow(dial(backend, id), words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

pub(super) fn follow(stream: UnixStream, words: &[&str]) -> Result<(i32, String), CallError> {
    let start = Start { follow: Some(Reader::Holds), ..start(words) };
    let mut call = Connection::open(stream, &Request::Start(start))?;
    call.reply()?;
    let mut output = Vec::new();
    loop {
        let frame = call.next_frame()?.ok_or(CallError::Closed)?;
        match frame.kind {
            FrameKind::Stdout => output.extend_from_slice(&frame.payload),
            FrameKind::Message => {
                if let Reply::Exited(exit) = parse_reply(&frame.payload)? {
                    return Ok((exit.code, String::from_utf8_lossy(&output).into_owned()));
                }
            }
            FrameKind::Stderr | FrameKind::Data | FrameKind::End => {}
        }
    }
}

#[track_caller]
pub(super) fn assert_answers(backend: &dyn Isolation, id: &SandboxId) {
    assert_eq!(run(backend, id, &["echo", "well"]), (0, "well\n".to_owned()));
}

fn file(operation: FileOperation) -> Request {
    Request::File(FileCall { user: Some("root".into()), operation, as_root: None })
}

/// Opens a file of the sandbox for writing, as root.
#[track_caller]
pub(super) fn open(backend: &dyn Isolation, id: &SandboxId, path: &str) -> Connection<UnixStream> {
    let operation = FileOperation::Write {
        path: path.into(),
        mode: WriteMode::Replace,
        permissions: None,
        parents: true,
    };
    let mut call = Connection::open(dial(backend, id), &file(operation)).expect("a call");
    let opened = call.reply();
    assert!(matches!(opened, Ok(Reply::Done)), "open {path}: {opened:?}");
    call
}

pub(super) fn try_write(
    backend: &dyn Isolation,
    id: &SandboxId,
    path: &str,
    bytes: &[u8],
) -> Result<(), CallError> {
    let mut call = open(backend, id, path);
    for chunk in bytes.chunks(64 << 10) {
        call.send_data(chunk)?;
    }
    call.send_end()?;
    call.reply().map(drop)
}

#[track_caller]
pub(super) fn write(backend: &dyn Isolation, id: &SandboxId, path: &str, text: &str) {
    try_write(backend, id, path, text.as_bytes()).unwrap_or_else(|error| panic!("write {path}: {error}"));
}

/// The content of a file; `None` if there is none.
#[track_caller]
pub(super) fn read(backend: &dyn Isolation, id: &SandboxId, path: &str) -> Option<String> {
    let operation = FileOperation::Read { path: path.into(), offset: 0, length: None };
    let mut call = Connection::open(dial(backend, id), &file(operation)).expect("a call");
    call.reply().ok()?;
    let mut bytes = Vec::new();
    loop {
        let frame = call.next_frame().expect("a frame").expect("a file ends with a word");
        match frame.kind {
            FrameKind::Data => bytes.extend_from_slice(&frame.payload),
            _ => return Some(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

/// True if the watched process ends within this time.
pub(super) fn has_ended(watched: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).expect("patience has an end");
    poll(&mut [PollFd::new(watched, PollFlags::IN)], Some(&patience)).expect("it can be polled") == 1
}
