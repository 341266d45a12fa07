use serde::{Deserialize, Serialize};

use super::process::{ProcessExit, Signal, StartProcess};

/// The first message of a client on a process's WebSocket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum StreamOpening {
    /// Start a process and follow it. Its standard input is open.
    Start(StartProcess),
    /// Follow a process that runs or ran.
    Attach(StreamAttach),
}

/// Which process to follow, and from where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamAttach {
    /// A process's number, `pid:N` or `tag:NAME`.
    pub process: String,
    /// The position in its output to go on from; zero is the beginning.
    #[serde(default)]
    pub from: u64,
}

/// A text message of a client. Binary ones are bytes for the process's standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum StreamCommand {
    /// There is no more input.
    StdinClose,
    Resize {
        columns: u16,
        rows: u16,
    },
    Signal {
        signal: Signal,
    },
}

/// A text message of the server. Binary ones are output: one byte for the stream (1 standard
/// output, 2 standard error), then the bytes. Over server-sent events, the type is the event's name
/// and the rest its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamNotice {
    /// The first message.
    Started(StreamStarted),
    /// Output was lost.
    Missed(StreamMissed),
    /// The last message: how the process ended.
    Exited(ProcessExit),
    /// Why the stream ends early.
    Error(StreamError),
}

/// A process that is followed from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamStarted {
    /// Never used again while the sandbox lives, unlike the pid.
    pub process_id: u64,
    pub pid: u32,
    /// Where the first byte of output stands that follows.
    pub position: u64,
}

/// Output that was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamMissed {
    /// How much of it.
    pub bytes: u64,
    /// Where the output that follows begins.
    pub position: u64,
}

/// Why a stream ends early, as a problem's code and detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamError {
    pub code: String,
    pub detail: String,
}

/// The data of a server-sent event with output; its name says of which stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputPiece {
    /// Where its first byte stands, both streams counted together.
    pub position: u64,
    /// In the encoding that was asked for. As `utf8`, no character is ever cut.
    pub data: String,
}
