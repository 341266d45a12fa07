use serde::{Deserialize, Serialize};

use super::process::{ExitCause, Signal, StartProcess};

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
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum StreamNotice {
    /// The first message; `position` is that of the first byte of output that follows.
    Started { process_id: u64, pid: u32, position: u64 },
    /// Output was lost; what follows starts at `position`.
    Missed { bytes: u64, position: u64 },
    /// The last message: how the process ended.
    Exited {
        exit_code: i32,
        cause: ExitCause,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        duration_ms: u64,
    },
    /// Why the stream ends early, as a problem's code and detail.
    Error { code: String, detail: String },
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
