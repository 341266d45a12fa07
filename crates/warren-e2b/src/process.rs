//! The messages of the service `process.Process`: commands and terminals of a sandbox. Messages
//! with the same fields are one type: their names do not travel.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::json::{self, json_enum, json_oneof};
use crate::rpc::Empty;

pub type ListRequest = Empty;
pub type UpdateResponse = Empty;
pub type SendInputResponse = Empty;
pub type StreamInputResponse = Empty;
pub type SendSignalResponse = Empty;
pub type CloseStdinResponse = Empty;
pub type CloseStdinRequest = ConnectRequest;
pub type StreamInputStart = ConnectRequest;
pub type ConnectResponse = StartResponse;
/// Nothing happened, and the stream lives.
pub type KeepAlive = Empty;

/// A program to be run.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessConfig {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub cmd: String,
    #[prost(string, repeated, tag = "2")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub args: Vec<String>,
    #[prost(btree_map = "string, string", tag = "3")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub envs: BTreeMap<String, String>,
    /// The user's home where it is not said.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A terminal.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct Pty {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<PtySize>,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct PtySize {
    #[prost(uint32, tag = "1")]
    #[serde(with = "json::number", skip_serializing_if = "json::is_default")]
    pub cols: u32,
    #[prost(uint32, tag = "2")]
    #[serde(with = "json::number", skip_serializing_if = "json::is_default")]
    pub rows: u32,
}

/// A process that runs.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessInfo {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ProcessConfig>,
    #[prost(uint32, tag = "2")]
    #[serde(with = "json::number", skip_serializing_if = "json::is_default")]
    pub pid: u32,
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// All that runs.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListResponse {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub processes: Vec<ProcessInfo>,
}

/// Starts a process, and follows it.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StartRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessConfig>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Input can be sent. Absent means yes: older clients do not know the flag.
    #[prost(bool, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
}

/// Changes the size of a process's terminal.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
}

/// Which process is meant.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ProcessSelector {
    #[prost(oneof = "Selector", tags = "1, 2")]
    pub selector: Option<Selector>,
}

/// The name of a process.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Selector {
    #[prost(uint32, tag = "1")]
    Pid(u32),
    #[prost(string, tag = "2")]
    Tag(String),
}

json_oneof!(ProcessSelector.selector: Selector { Pid = "pid" as Number, Tag = "tag" as Plain });

/// Follows a process that was started before.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
}

/// One event of a process that this call started.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StartResponse {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<ProcessEvent>,
}

/// An event of a process.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ProcessEvent {
    #[prost(oneof = "Event", tags = "1, 2, 3, 4")]
    pub event: Option<Event>,
}

/// The kinds of events.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Event {
    #[prost(message, tag = "1")]
    Start(StartEvent),
    #[prost(message, tag = "2")]
    Data(DataEvent),
    #[prost(message, tag = "3")]
    End(EndEvent),
    #[prost(message, tag = "4")]
    Keepalive(KeepAlive),
}

json_oneof!(ProcessEvent.event: Event {
    Start = "start" as Plain,
    Data = "data" as Plain,
    End = "end" as Plain,
    Keepalive = "keepalive" as Plain,
});

/// The process runs.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StartEvent {
    #[prost(uint32, tag = "1")]
    #[serde(with = "json::number", skip_serializing_if = "json::is_default")]
    pub pid: u32,
}

/// It wrote something.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DataEvent {
    #[prost(oneof = "Output", tags = "1, 2, 3")]
    pub output: Option<Output>,
}

/// Where it wrote to.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Output {
    #[prost(bytes = "bytes", tag = "1")]
    Stdout(Bytes),
    #[prost(bytes = "bytes", tag = "2")]
    Stderr(Bytes),
    #[prost(bytes = "bytes", tag = "3")]
    Pty(Bytes),
}

json_oneof!(DataEvent.output: Output {
    Stdout = "stdout" as Encoded,
    Stderr = "stderr" as Encoded,
    Pty = "pty" as Encoded,
});

/// It ended.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndEvent {
    /// −1 where a signal ended it.
    #[prost(sint32, tag = "1")]
    #[serde(with = "json::number", skip_serializing_if = "json::is_default", alias = "exit_code")]
    pub exit_code: i32,
    #[prost(bool, tag = "2")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub exited: bool,
    #[prost(string, tag = "3")]
    #[serde(deserialize_with = "json::or_default", skip_serializing_if = "json::is_default")]
    pub status: String,
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Input for a process.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ProcessInput {
    #[prost(oneof = "Input", tags = "1, 2")]
    pub input: Option<Input>,
}

/// Where it goes.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum Input {
    #[prost(bytes = "bytes", tag = "1")]
    Stdin(Bytes),
    #[prost(bytes = "bytes", tag = "2")]
    Pty(Bytes),
}

json_oneof!(ProcessInput.input: Input { Stdin = "stdin" as Encoded, Pty = "pty" as Encoded });

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct SendInputRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<ProcessInput>,
}

/// One message of a stream of input: the first says whose.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamInputRequest {
    #[prost(oneof = "StreamInput", tags = "1, 2, 3")]
    pub event: Option<StreamInput>,
}

/// The kinds of messages in a stream of input.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum StreamInput {
    #[prost(message, tag = "1")]
    Start(StreamInputStart),
    #[prost(message, tag = "2")]
    Data(StreamInputData),
    #[prost(message, tag = "3")]
    Keepalive(KeepAlive),
}

json_oneof!(StreamInputRequest.event: StreamInput {
    Start = "start" as Plain,
    Data = "data" as Plain,
    Keepalive = "keepalive" as Plain,
});

/// Its field is the second: there never was a first.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamInputData {
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<ProcessInput>,
}

#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct SendSignalRequest {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSelector>,
    #[prost(enumeration = "Signal", tag = "2")]
    #[serde(with = "signal_json", skip_serializing_if = "json::is_default")]
    pub signal: i32,
}

/// The signals that can be sent, by their usual numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Signal {
    Unspecified = 0,
    Sigkill = 9,
    Sigterm = 15,
}

json_enum!(Signal in signal_json {
    Unspecified = "SIGNAL_UNSPECIFIED",
    Sigkill = "SIGNAL_SIGKILL",
    Sigterm = "SIGNAL_SIGTERM",
});
