use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A command, as its words or as one line for the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a list of words, or one line for the shell")]
pub enum Command {
    /// A line for `/bin/sh -c`.
    Shell(String),
    /// The program and its arguments.
    Words(Vec<String>),
}

impl Default for Command {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

/// A command to run to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"command": "make test", "timeout_s": 60})))]
pub struct Exec {
    pub command: Command,
    /// Variables on top of the sandbox's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::variables))]
    pub env: BTreeMap<String, String>,
    /// Left out: the sandbox's working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub cwd: Option<String>,
    /// A user of the sandbox, by name or as `uid[:gid]`. Left out: the sandbox's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
    /// Its standard input, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Its standard input, in base64. Not with `stdin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_base64: Option<String>,
    /// After so many seconds it is killed, with its process group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub timeout_s: Option<u64>,
    /// A name to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub tag: Option<String>,
    /// How its output is written in answers.
    #[serde(default)]
    pub encoding: Encoding,
    /// How much of each stream is kept: its beginning and its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 67_108_864))]
    pub max_output_bytes: Option<u64>,
}

/// How bytes are written in JSON. As `utf8`, bytes that are no text become U+FFFD.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Encoding {
    #[default]
    Utf8,
    Base64,
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ExecResult {
    /// Never used again while the sandbox lives, unlike the pid.
    pub process_id: u64,
    pub pid: u32,
    /// 128 plus the signal's number for one that was killed, as shells count.
    pub exit_code: i32,
    pub cause: ExitCause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub duration_ms: u64,
    pub stdout: String,
    pub stderr: String,
    /// Bytes it wrote, kept or not.
    pub stdout_bytes: u64,
    /// Bytes it wrote, kept or not.
    pub stderr_bytes: u64,
    /// Something in the middle was left out.
    pub stdout_truncated: bool,
    /// Something in the middle was left out.
    pub stderr_truncated: bool,
    pub encoding: Encoding,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ExitCause {
    Exited,
    Signalled,
    TimedOut,
}

/// A command to start and leave running.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"command": ["python3", "-m", "http.server"], "tag": "web", "port": 8000})))]
pub struct StartProcess {
    pub command: Command,
    /// Variables on top of the sandbox's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::variables))]
    pub env: BTreeMap<String, String>,
    /// Left out: the sandbox's working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4095))]
    pub cwd: Option<String>,
    /// A user of the sandbox, by name or as `uid[:gid]`. Left out: the sandbox's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub user: Option<String>,
    /// After so many seconds it is killed, with its process group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub timeout_s: Option<u64>,
    /// A name to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 255))]
    pub tag: Option<String>,
    /// Give it a terminal of this size. All its output is then standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// Keep its standard input open for what is sent later. Otherwise it finds the end at once.
    #[serde(default)]
    pub stdin_open: bool,
    /// It will listen on this port, which it finds in `PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 65_535))]
    pub port: Option<u16>,
}

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TerminalSize {
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 65_535, example = 80))]
    pub columns: u16,
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 65_535, example = 24))]
    pub rows: u16,
}

/// A process in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Process {
    /// Never used again while the sandbox lives, unlike the pid.
    pub process_id: u64,
    pub pid: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    pub cwd: String,
    /// True if it has a terminal.
    pub terminal: bool,
    pub status: ProcessStatus,
    /// Present once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exited: Option<ProcessExit>,
    /// The same as `exited`, for clients that know it by this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(deprecated))]
    pub exit: Option<ProcessExit>,
    /// Milliseconds since it was started.
    pub age_ms: u64,
    /// The part of its output that can still be read.
    pub output: OutputRange,
    /// Where it listens, for one that was started with a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The URL at which the port is reached from outside, by those whom the port lets in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Where a process stands. A process with a port is `starting` until the port answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ProcessStatus {
    Starting,
    Running,
    Exited,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProcessExit {
    /// 128 plus the signal's number for one that was killed, as shells count.
    pub exit_code: i32,
    pub cause: ExitCause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub duration_ms: u64,
}

/// Positions in a process's output, both streams counted together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OutputRange {
    /// The oldest byte that is still kept.
    pub from: u64,
    /// After the newest byte.
    pub to: u64,
}

/// The processes of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProcessList {
    pub items: Vec<Process>,
}

/// A signal, by name, with or without `SIG`, or by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the name of a signal, or its number")]
pub enum Signal {
    Number(i32),
    Name(String),
}

/// Sends a signal to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SendSignal {
    pub signal: Signal,
    /// To its whole process group.
    #[serde(default)]
    pub group: bool,
}
