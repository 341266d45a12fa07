//! The guest protocol: frames, messages, the boot plan and a blocking client.
//!
//! [`GENERATION`] is the protocol's one version number. Messages only ever grow: a new field is
//! optional and a new request gets the next index, so a server meets agents older than itself (a
//! sandbox outlives the server that made it) and an old agent answers [`FailureCode::Unsupported`]
//! to what it does not know.

mod boot;
mod bytes;
mod client;
mod door;
mod files;
mod frame;
mod process;
mod request;
mod stage;
mod sudo;

pub use boot::{
    AgentConfig, BindMount, BootFailure, BootPlan, BootReport, FdNumber, Machine, Outside, Rlimit, STRANGER,
    ShownMount, ShownTree, TreeMount, overlay_options, shown_options,
};
pub use bytes::ByteString;
pub use client::{CallError, CallSender, Connection, parse_reply};
pub use door::DOOR_OPEN;
pub use files::{
    Attribute, Detail, EntryKind, FileCall, FileEntry, FileOperation, GrepMatch, GrepQuery, Resolved,
    WatchEvent, WatchKind, WriteMode,
};
pub use frame::{Frame, FrameDecoder, FrameError, FrameKind, HEADER_BYTES, MAX_PAYLOAD};
pub use process::{
    Attach, Control, Exit, ExitCause, LOGIN_SHELL, ProcessId, ProcessInfo, ProcessSelector, Reader,
    SignalCall, Start, Started, Stdin, TerminalSize,
};
pub use request::{
    Failure, FailureCode, FailureReason, GuestUsage, MOST_COMMAND_BYTES, Pong, Reply, Request,
};
pub use stage::{ServePlan, ServedMachine, StagePlan, Staged};
pub use sudo::{Elevate, Runs, SUDO_SOCKET};

/// The newest protocol generation this build speaks.
pub const GENERATION: u32 = 1;

/// Bytes per data frame that both sides aim for; small enough to interleave, large enough to be
/// fast.
pub const CHUNK: usize = 128 * 1024;
