use minicbor::{Decode, Decoder, Encode};

use super::{
    Attach, Exit, FileCall, FileEntry, GrepMatch, ProcessInfo, ProcessSelector, SignalCall, Start, Started,
    TerminalSize, WatchEvent,
};

/// The first message on a connection. The doc of each variant names its answer; every call may
/// instead be answered by [`Reply::Failed`]. All of these are of generation 1.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// [`Reply::Pong`].
    #[n(0)]
    Ping,
    /// [`Reply::Started`]; a follower then gets Stdout and Stderr frames, [`Reply::Missed`] where
    /// some were lost, and [`Reply::Exited`]. It may send Data and End (stdin) and
    /// [`super::Control`] messages.
    #[n(1)]
    Start(#[n(0)] Start),
    /// As a follower of [`Request::Start`].
    #[n(2)]
    Attach(#[n(0)] Attach),
    /// Then Data frames for the process's stdin; End closes it. [`Reply::Done`] when all is written
    /// (End sent or `keep_open` and the host's write side closed).
    #[n(3)]
    Input {
        #[n(0)]
        process: ProcessSelector,
        /// End finishes this call but leaves the process's stdin open.
        #[n(1)]
        keep_open: bool,
    },
    /// [`Reply::Done`].
    #[n(4)]
    Signal(#[n(0)] SignalCall),
    /// [`Reply::Done`].
    #[n(5)]
    Resize {
        #[n(0)]
        process: ProcessSelector,
        #[n(1)]
        size: TerminalSize,
    },
    /// [`Reply::Exited`], at once if it has already ended.
    #[n(6)]
    Wait {
        #[n(0)]
        process: ProcessSelector,
    },
    /// [`Reply::Processes`] any number of times, then End.
    #[n(7)]
    List,
    /// See [`super::FileOperation`].
    #[n(8)]
    File(#[n(0)] FileCall),
    /// [`Reply::Done`] once connected to this TCP port on the sandbox's loopback; then Data both
    /// ways, End per direction.
    #[n(9)]
    Connect {
        #[n(0)]
        port: u16,
    },
    /// [`Reply::Usage`].
    #[n(10)]
    Usage,
    /// [`Reply::Done`]; then the agent ends every call and closes its door, so that nothing of the
    /// host is left in it, and opens the door again where it was as soon as it may. Only from an
    /// agent that made its own socket, and not while a file call runs. No byte that is damaged
    /// makes another call's number this one.
    #[n(300)]
    LetGo,
}

/// An answer of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    #[n(0)]
    Pong(#[n(0)] Pong),
    #[n(1)]
    Started(#[n(0)] Started),
    #[n(2)]
    Exited(#[n(0)] Exit),
    /// The follower lost this many output bytes; what follows starts at `position`.
    #[n(3)]
    Missed {
        #[n(0)]
        bytes: u64,
        #[n(1)]
        position: u64,
    },
    #[n(4)]
    Processes(#[n(0)] Vec<ProcessInfo>),
    #[n(5)]
    Done,
    #[n(6)]
    Entry(#[n(0)] FileEntry),
    #[n(7)]
    Entries(#[n(0)] Vec<FileEntry>),
    #[n(8)]
    Matches(#[n(0)] Vec<GrepMatch>),
    #[n(9)]
    Changed(#[n(0)] Vec<WatchEvent>),
    #[n(10)]
    Written {
        #[n(0)]
        bytes: u64,
    },
    #[n(11)]
    Usage(#[n(0)] GuestUsage),
    #[n(12)]
    Failed(#[n(0)] Failure),
}

/// The agent's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Pong {
    #[n(0)]
    pub generation: u32,
    #[n(1)]
    pub version: String,
    #[n(2)]
    pub uptime_ms: u64,
}

/// Figures seen from inside; the host's own come from the backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct GuestUsage {
    /// Processes in the sandbox, the agent included.
    #[n(0)]
    pub processes: u32,
    /// Processes started by call that have not ended.
    #[n(1)]
    pub running: u32,
    /// Open connections to the agent, this one included.
    #[n(2)]
    pub connections: u32,
    /// Output bytes held in rings.
    #[n(3)]
    pub ring_bytes: u64,
    #[n(4)]
    pub disk_used_bytes: u64,
    #[n(5)]
    pub disk_total_bytes: u64,
    #[n(6)]
    pub uptime_ms: u64,
    /// The agent's own resident memory.
    #[n(7)]
    pub agent_resident_bytes: u64,
}

/// A call's typed refusal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    #[n(0)]
    pub code: FailureCode,
    /// Readable alone: what was being done to which object, and why it failed.
    #[n(1)]
    pub message: String,
    /// The kernel's error number, where one was the reason.
    #[n(2)]
    pub errno: Option<i32>,
    /// More than the code says, where callers act on it.
    #[n(3)]
    pub reason: Option<FailureReason>,
}

/// The most bytes of a command with its arguments and variables. An agent keeps them for its list
/// of processes.
pub const MOST_COMMAND_BYTES: usize = 512 * 1024;

/// A refusal within a code that callers tell from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode)]
#[cbor(index_only)]
pub enum FailureReason {
    /// The sandbox knows no user of that name.
    #[n(0)]
    UnknownUser,
    /// The command, with its arguments and variables, is larger than a sandbox takes.
    #[n(1)]
    TooLarge,
    /// One that a newer agent has and this version does not.
    #[n(255)]
    Newer,
}

/// Unlike a code, a reason that is not known is no error: the code still says enough.
impl<'b, C> Decode<'b, C> for FailureReason {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Ok(match decoder.u32()? {
            0 => Self::UnknownUser,
            1 => Self::TooLarge,
            _ => Self::Newer,
        })
    }
}

impl Failure {
    /// A refusal with no error of the kernel behind it.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), errno: None, reason: None }
    }

    /// A refusal because the kernel refused, with its number.
    pub fn of_kernel(code: FailureCode, message: impl Into<String>, errno: i32) -> Self {
        Self { errno: Some(errno), ..Self::new(code, message) }
    }

    /// The refusal of a user that the sandbox does not know.
    pub fn unknown_user(message: impl Into<String>) -> Self {
        Self { reason: Some(FailureReason::UnknownUser), ..Self::new(FailureCode::Invalid, message) }
    }

    /// The refusal of a command that has more bytes, with its arguments and variables, than fit.
    pub fn too_large(bytes: usize, most: usize) -> Self {
        let message =
            format!("the command has {bytes} bytes with its arguments and variables, and {most} is the most");
        Self { reason: Some(FailureReason::TooLarge), ..Self::new(FailureCode::Invalid, message) }
    }

    /// True if the sandbox knows no such user. Agents from before there were reasons, which may
    /// still run, are understood by their words.
    pub fn is_unknown_user(&self) -> bool {
        match self.reason {
            Some(reason) => reason == FailureReason::UnknownUser,
            None => {
                self.code == FailureCode::Invalid
                    && self.errno.is_none()
                    && self.message.starts_with("look up user")
            }
        }
    }
}

/// The kind of refusal; callers branch on this and never on the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum FailureCode {
    /// The request is malformed or a value is out of range.
    #[n(0)]
    Invalid,
    /// This agent's generation does not know the request.
    #[n(1)]
    Unsupported,
    /// No such process, file, user or listening port.
    #[n(2)]
    NotFound,
    #[n(3)]
    AlreadyExists,
    /// The named user may not do this.
    #[n(4)]
    PermissionDenied,
    /// Not what the call is for: reading a directory, listing a file, opening a device.
    #[n(5)]
    WrongKind,
    /// The process has ended or its stdin is closed.
    #[n(6)]
    Ended,
    /// A limit of the agent or of the sandbox is reached.
    #[n(7)]
    Exhausted,
    /// Any other error of the kernel; `errno` says which.
    #[n(8)]
    Io,
}
