use minicbor::{Decode, Encode};

use super::ByteString;

/// The agent's own number for a process: never reused while the sandbox lives, unlike a pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct ProcessId(#[n(0)] pub u64);

/// How a call names the process it is about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ProcessSelector {
    #[n(0)]
    Id(#[n(0)] ProcessId),
    #[n(1)]
    Pid(#[n(0)] u32),
    /// The newest process started with this tag.
    #[n(2)]
    Tag(#[n(0)] ByteString),
}

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct TerminalSize {
    #[n(0)]
    pub columns: u16,
    #[n(1)]
    pub rows: u16,
}

/// The standard input of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Stdin {
    /// Nothing: end of file at once.
    #[default]
    #[n(0)]
    Null,
    /// Bytes that the host sends in data frames, on this connection or by
    /// [`super::Request::Input`].
    #[n(1)]
    Piped,
}

/// Runs the user's login shell if the sandbox has it, else the shell that every sandbox has. The
/// journal knows it by its name.
pub const LOGIN_SHELL: [&str; 3] =
    ["/bin/sh", "-c", "test -x \"$SHELL\" && exec \"$SHELL\" -l || exec /bin/sh -l"];

/// Starts a process. Answered by [`Started`]; the starter's connection then follows the output as
/// [`Start::follow`] asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Start {
    #[n(0)]
    pub argv: Vec<ByteString>,
    /// `KEY=VALUE` each, on top of the sandbox's own variables.
    #[n(1)]
    pub env: Vec<ByteString>,
    /// Absent: the sandbox's working directory, else the user's home.
    #[n(2)]
    pub cwd: Option<ByteString>,
    /// A name from the sandbox's passwd file, or `uid` or `uid:gid`. Absent: the sandbox's default
    /// user.
    #[n(3)]
    pub user: Option<ByteString>,
    #[n(4)]
    pub stdin: Stdin,
    /// Present: the process gets a terminal of this size, and all output is standard output.
    #[n(5)]
    pub terminal: Option<TerminalSize>,
    #[n(6)]
    pub tag: Option<ByteString>,
    /// After this long the process group is killed and the exit cause is [`ExitCause::TimedOut`].
    #[n(7)]
    pub timeout_ms: Option<u64>,
    /// Present: this connection follows the process until it ends. Absent: it gets [`Started`] and
    /// closes.
    #[n(8)]
    pub follow: Option<Reader>,
    /// The process counts as running until nobody holds its output any more, background children
    /// included; a signal sent by call ends that waiting. Absent: it ends when it exits, and what
    /// others write later is not told.
    #[n(9)]
    pub until_closed: Option<bool>,
}

/// How a follower's pace acts on the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Reader {
    /// The process waits for this reader once the ring is full. When such a reader disconnects, its
    /// place is held for a grace period, so that a client that dials again in time loses nothing.
    #[default]
    #[n(0)]
    Holds,
    /// The process never waits; a reader that falls behind the ring is told how much it missed.
    #[n(1)]
    Skips,
}

/// Follows a process that was started earlier, replaying what the ring still holds from `from` on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Attach {
    #[n(0)]
    pub process: ProcessSelector,
    /// Position in the process's output (both streams counted together); 0 is the beginning, and
    /// `u64::MAX` the end: only what is written from now on.
    #[n(1)]
    pub from: u64,
    #[n(2)]
    pub reader: Reader,
}

/// The first answer to [`Start`] and [`Attach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Started {
    #[n(0)]
    pub process: ProcessId,
    #[n(1)]
    pub pid: u32,
    /// Position of the first output byte that follows on this connection.
    #[n(2)]
    pub position: u64,
}

/// A message that a follower may send while the process runs.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Control {
    #[n(0)]
    Resize(#[n(0)] TerminalSize),
    #[n(1)]
    Signal {
        #[n(0)]
        signal: i32,
    },
}

/// Sends a signal to a process, or to its whole process group.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SignalCall {
    #[n(0)]
    pub process: ProcessSelector,
    #[n(1)]
    pub signal: i32,
    #[n(2)]
    pub group: bool,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Exit {
    /// The exit code; for a signal, 128 plus its number, as shells count.
    #[n(0)]
    pub code: i32,
    #[n(1)]
    pub cause: ExitCause,
    #[n(2)]
    pub duration_ms: u64,
    /// All output bytes the process wrote, kept or not.
    #[n(3)]
    pub output_bytes: u64,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum ExitCause {
    #[n(0)]
    Exited,
    #[n(1)]
    Signalled {
        #[n(0)]
        signal: i32,
    },
    #[n(2)]
    TimedOut,
}

/// One row of the process list.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ProcessInfo {
    #[n(0)]
    pub process: ProcessId,
    #[n(1)]
    pub pid: u32,
    #[n(2)]
    pub argv: Vec<ByteString>,
    #[n(3)]
    pub tag: Option<ByteString>,
    #[n(4)]
    pub terminal: bool,
    /// Present once the process has ended.
    #[n(5)]
    pub exit: Option<Exit>,
    /// Milliseconds since the process was started.
    #[n(6)]
    pub age_ms: u64,
    /// Oldest output position the ring still holds, and the position after the newest byte.
    #[n(7)]
    pub kept_from: u64,
    #[n(8)]
    pub kept_to: u64,
    #[n(9)]
    pub cwd: ByteString,
    #[n(10)]
    pub env: Vec<ByteString>,
}
