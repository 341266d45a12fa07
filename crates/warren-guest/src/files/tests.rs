//! Calls over a socket pair, each on a thread of its own as in the agent, since a call changes the
//! rights of the thread that serves it.

mod details;
mod reading;
mod rights;
mod searching;
mod trees;
mod watching;
mod writing;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use warren_wire::guest::{
    AgentConfig, Attribute, ByteString, CallError, Connection, Detail, EntryKind, Failure, FailureCode,
    FileCall, FileEntry, FileOperation, FrameDecoder, FrameKind, Reply, Request, Resolved, WriteMode,
};

/// A user none of whose rights come from being root.
const USER: &str = "1000:1000";

/// A directory of the test's own.
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Open to every user.
    pub(super) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("warren-guest-files-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        Self { path }
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn bytes(&self, name: &str) -> ByteString {
        (&self.at(name)).into()
    }

    /// A file with this content and mode, owned by the test's own user.
    fn file(&self, name: &str, content: &str, mode: u32) -> ByteString {
        std::fs::write(self.at(name), content).unwrap();
        std::fs::set_permissions(self.at(name), PermissionsExt::from_mode(mode)).unwrap();
        self.bytes(name)
    }

    fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).ok();
    }
}

/// Takes the request off the stream as the agent's loop does, and serves it.
fn answer(mut stream: UnixStream) {
    let mut decoder = FrameDecoder::default();
    let mut chunk = [0; 4096];
    let request = loop {
        if let Some(frame) = decoder.next_frame().unwrap() {
            break minicbor::decode(&frame.payload).unwrap();
        }
        let count = stream.read(&mut chunk).unwrap();
        decoder.push(&chunk[..count]);
    };
    let Request::File(call) = request else { panic!("not a file call") };
    super::serve(call, stream, decoder, &AgentConfig::default(), None);
}

fn open_call(call: FileCall) -> Connection<UnixStream> {
    let (host, agent) = UnixStream::pair().unwrap();
    std::thread::spawn(move || answer(agent));
    host.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Connection::open(host, &Request::File(call)).unwrap()
}

fn open_as(user: &str, operation: FileOperation) -> Connection<UnixStream> {
    open_call(FileCall { user: Some(user.into()), operation, as_root: None })
}

/// With root's rights, for [`USER`].
fn open_for_user(operation: FileOperation) -> Connection<UnixStream> {
    open_call(FileCall { user: Some(USER.into()), operation, as_root: Some(true) })
}

fn open(operation: FileOperation) -> Connection<UnixStream> {
    open_as("0:0", operation)
}

fn ask_as(user: &str, operation: FileOperation) -> Result<Reply, Failure> {
    failed(open_as(user, operation).reply())
}

fn ask(operation: FileOperation) -> Result<Reply, Failure> {
    ask_as("0:0", operation)
}

fn refusal(operation: FileOperation) -> FailureCode {
    ask(operation).unwrap_err().code
}

/// Failures of the call as such; any other trouble fails the test.
fn failed<T>(outcome: Result<T, CallError>) -> Result<T, Failure> {
    outcome.map_err(|error| match error {
        CallError::Failed(failure) => failure,
        other => panic!("{other}"),
    })
}

/// All messages up to End.
fn replies(operation: FileOperation) -> Result<Vec<Reply>, Failure> {
    let mut connection = open(operation);
    let mut replies = Vec::new();
    loop {
        let frame = connection.next_frame().unwrap().expect("End comes first");
        match frame.kind {
            FrameKind::End => return Ok(replies),
            FrameKind::Message => match minicbor::decode(&frame.payload).unwrap() {
                Reply::Failed(failure) => return Err(failure),
                reply => {
                    assert!(frame.payload.len() < 256 * 1024, "a frame of {} bytes", frame.payload.len());
                    replies.push(reply);
                }
            },
            kind => panic!("unexpected {kind:?}"),
        }
    }
}

fn entries(operation: FileOperation) -> Result<Vec<FileEntry>, Failure> {
    let replies = replies(operation)?;
    let entries = replies.into_iter().flat_map(|reply| match reply {
        Reply::Entries(entries) => entries,
        other => panic!("unexpected {other:?}"),
    });
    Ok(entries.collect())
}

fn stat(path: &ByteString) -> FileEntry {
    match ask(FileOperation::Stat { path: path.clone(), follow: false, detail: None }).unwrap() {
        Reply::Entry(entry) => entry,
        other => panic!("unexpected {other:?}"),
    }
}

fn read_as(user: &str, path: &ByteString, offset: u64, length: Option<u64>) -> Result<Vec<u8>, Failure> {
    let mut connection = open_as(user, FileOperation::Read { path: path.clone(), offset, length });
    assert!(matches!(failed(connection.reply())?, Reply::Entry(_)));
    let mut content = Vec::new();
    loop {
        let frame = connection.next_frame().unwrap().expect("End comes first");
        match frame.kind {
            FrameKind::Data => content.extend_from_slice(&frame.payload),
            FrameKind::End => return Ok(content),
            kind => panic!("unexpected {kind:?}"),
        }
    }
}

fn writing(path: &ByteString, mode: WriteMode) -> FileOperation {
    FileOperation::Write { path: path.clone(), mode, permissions: None, parents: false }
}

fn write_as(user: &str, operation: FileOperation, content: &[u8]) -> Result<u64, Failure> {
    send(open_as(user, operation), content)
}

fn send(mut connection: Connection<UnixStream>, content: &[u8]) -> Result<u64, Failure> {
    assert_eq!(failed(connection.reply())?, Reply::Done);
    connection.send_data(content).unwrap();
    connection.send_end().unwrap();
    match failed(connection.reply())? {
        Reply::Written { bytes } => Ok(bytes),
        other => panic!("unexpected {other:?}"),
    }
}

fn write(operation: FileOperation, content: &[u8]) -> Result<u64, Failure> {
    write_as("0:0", operation, content)
}

/// Waits for something that happens after the connection closed.
fn eventually(mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never happened");
}

fn make_fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
}
