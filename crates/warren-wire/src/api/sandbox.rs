use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{HistoryMode, Network, NetworkRequest, NetworkUsage, Tier, WallChoice};

/// A new sandbox. Fields that are left out take the server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"template": "host", "memory_mib": 512, "cpus": 1.5, "ttl_s": 3600, "labels": {"team": "search"}})))]
pub struct CreateSandbox {
    /// A name to call it by instead of its id, unique among the owner's sandboxes that are not
    /// removed. It does not begin with `sbx` or `snap-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "web"))]
    pub name: Option<String>,
    /// The template its files start from. Left out: the one of its type, or of the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$", example = "host"))]
    pub template: Option<String>,
    /// The image of its backend's own that its files start from, instead of a template: such as
    /// `python:3.12` of a container engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,254}$", example = "python:3.12")
    )]
    pub image: Option<String>,
    /// The snapshot whose files it starts with. A template or an image that is given as well must
    /// be the one below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^snap-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub snapshot_id: Option<String>,
    /// Which snapshots are taken without being asked for. Left out: as the server is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryMode>,
    /// Its purpose.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<SandboxType>,
    /// Memory of all its processes, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 16, maximum = 4_194_304, example = 512))]
    pub memory_mib: Option<u64>,
    /// Processors, in steps of 0.001.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0.01, maximum = 1024, example = 1.5))]
    pub cpus: Option<f64>,
    /// Processes and threads together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 4, maximum = 4_000_000))]
    pub pids: Option<u32>,
    /// The most that it may write to its root, in MiB. Asked for, the limit is hard or the request
    /// fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 8, maximum = 1_073_741_824))]
    pub disk_mib: Option<u64>,
    /// Files and directories it may make in its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 64, maximum = 1_099_511_627_776_i64))]
    pub inodes: Option<u64>,
    /// Open files of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 32, maximum = 1_048_576))]
    pub open_files: Option<u64>,
    /// Time to live, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400, example = 3600))]
    pub ttl_s: Option<u64>,
    /// Variables of every process, on top of the template's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::variables))]
    pub env: BTreeMap<String, String>,
    /// For filters: at most 64, keys of 1 to 128 bytes, values of at most 1024, without control
    /// characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words))]
    pub labels: BTreeMap<String, String>,
    /// Anything to remember with it: at most 64 entries, keys of 1 to 128 bytes, values of at
    /// most 1024.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words))]
    pub metadata: BTreeMap<String, String>,
    /// A user of the template, by name or as `uid[:gid]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(pattern = "^[A-Za-z0-9_.$][A-Za-z0-9_.$-]{0,63}(:[A-Za-z0-9_.$][A-Za-z0-9_.$-]{0,63})?$")
    )]
    pub user: Option<String>,
    /// Where processes start, absolute. It was called `workdir`, which is still understood.
    // Sent by its old name, which older servers know.
    #[serde(alias = "cwd", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(rename = "cwd", pattern = "^/", max_length = 4095, example = "/home/user")
    )]
    pub workdir: Option<String>,
    /// The name that the sandbox calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$"))]
    pub hostname: Option<String>,
    /// Where its packets may go. Left out: as the server is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRequest>,
    /// Directories and files of the host. The server refuses those that its configuration does not
    /// allow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_items = 64))]
    pub mounts: Vec<Mount>,
    /// How much of the kernel it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The backend that must serve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 63, example = "native"))]
    pub backend: Option<String>,
    /// The tier that its backend must have. Left out, with `backend` too: the first backend that
    /// can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// The treatment of its files when its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
    /// How long it may be idle, without a client, and frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutsRequest>,
    /// The name of its user, in the caller's own words. Left out: the name of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(
            min_length = 1,
            max_length = 200,
            pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
        )
    )]
    pub client: Option<String>,
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Sandbox {
    #[cfg_attr(feature = "schema", schema(pattern = "^sbx[a-z2-7]{26}$"))]
    pub sandbox_id: String,
    /// Its name, unique among the owner's sandboxes that are not removed. Absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The session that was made with it. Only in the answer to a create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Where agents use it over the Model Context Protocol. Only in answers about one sandbox, of
    /// the server that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_url: Option<String>,
    pub status: SandboxStatus,
    /// Present while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<PausedBy>,
    /// The template its files started from. Not used where `image` is present.
    pub template: String,
    /// The image of its backend that its files started from, instead of a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(rename = "type")]
    pub kind: SandboxType,
    /// Which backend isolates it.
    pub backend: String,
    /// The wall that was asked for, by its create or by its last move. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<WallChoice>,
    /// Why it cannot be reached: its backend is away. It is kept, and `status` is the last that is
    /// known. Absent when it can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    /// Absent: the template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where processes start. Absent: the template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The same as `cwd`, for clients that know it by this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(deprecated))]
    pub workdir: Option<String>,
    /// Absent: the template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Where its packets may go.
    pub network: Network,
    pub profile: Profile,
    pub limits: Limits,
    pub mounts: Vec<Mount>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    /// When its time to live ends.
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub expires_at: String,
    pub on_expiry: OnExpiry,
    pub timeouts: Timeouts,
    /// How long the last create or resume took, in milliseconds.
    pub made_in_ms: u64,
    /// Counts the changes of the sandbox: what to wait on.
    pub generation: u64,
    /// How it ended. Present once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death: Option<Death>,
    /// It ended, and a resume starts it again with the files it had.
    pub resumable: bool,
    /// Which snapshots are taken without being asked for.
    #[serde(default)]
    pub history: HistoryMode,
    /// Turns completed.
    #[serde(default)]
    pub turn: u32,
    /// The snapshot that its files come from. Absent until the first is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// The sandbox of which it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
}

/// Freezes a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"drain_ms": 2000})))]
pub struct PauseSandbox {
    /// How long commands and tool calls that somebody waits for may still take, in milliseconds.
    /// Left out: as the server is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 600_000))]
    pub drain_ms: Option<u64>,
}

/// A change of a sandbox that exists. Fields that are left out stay as they are; maps are replaced
/// as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"labels": {"team": "search"}, "ttl_s": 7200})))]
pub struct PatchSandbox {
    /// The name from now on. Null takes the name away.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schema(value_type = Option<String>, pattern = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", example = "web")
    )]
    pub name: Option<Option<String>>,
    /// The labels from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words_or_null))]
    pub labels: Option<BTreeMap<String, String>>,
    /// The metadata from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(schema_with = super::schema::words_or_null))]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Time to live, in seconds, counted from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub ttl_s: Option<u64>,
    /// The treatment of its files when its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
}

/// A value that may be null, which is not the same as left out.
fn nullable<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(reader).map(Some)
}

/// Where a sandbox stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SandboxStatus {
    Creating,
    Syncing,
    Ready,
    Paused,
    Stopping,
    Stopped,
    Failed,
}

/// A sandbox that paused for idleness goes on at the next request; one that was paused by request
/// waits for a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum PausedBy {
    Request,
    Idleness,
}

/// The purpose of a sandbox: a template and defaults under one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SandboxType {
    #[default]
    Terminal,
    /// Pages are found and read: a browser's tools, and no shell unless it is asked for.
    Research,
    /// A browser that agents drive by Playwright's MCP server.
    PlaywrightMcp,
}

/// How much of the kernel a sandbox may use: `standard` is ordinary development work, debuggers
/// included; `strict` is without ptrace and a few other calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Profile {
    #[default]
    Standard,
    Strict,
}

/// The treatment of a sandbox when its time is over: with `keep` its processes end, its files stay,
/// and it can be resumed; with `pause` its processes are frozen until it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum OnExpiry {
    #[default]
    Keep,
    Delete,
    Pause,
}

/// A directory or file of the host, given to the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Mount {
    /// On the host, absolute.
    #[cfg_attr(feature = "schema", schema(pattern = "^/", max_length = 4095))]
    pub source: String,
    /// Inside the sandbox, absolute.
    #[cfg_attr(feature = "schema", schema(pattern = "^/", max_length = 4095))]
    pub target: String,
    /// True if the sandbox may only read it.
    #[serde(default)]
    pub read_only: bool,
}

/// The most that a sandbox may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Limits {
    pub memory_mib: u64,
    pub cpus: f64,
    pub pids: u32,
    pub disk_mib: u64,
    pub inodes: u64,
    pub open_files: u64,
    pub ttl_s: u64,
}

/// Times that differ from the server's own, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TimeoutsRequest {
    /// An idle sandbox is frozen after this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub active_s: Option<u64>,
    /// A session without its client expires after this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub detached_s: Option<u64>,
    /// A frozen sandbox is stopped after this long; its files stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub suspended_s: Option<u64>,
}

/// How long a sandbox may be in each state before the next milder one follows, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Timeouts {
    /// An idle sandbox is frozen after this long.
    pub active_s: u64,
    /// A session without its client expires after this long.
    pub detached_s: u64,
    /// A frozen sandbox is stopped after this long; its files stay.
    pub suspended_s: u64,
}

/// How a sandbox ended, and what could be seen of it at that moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Death {
    pub cause: DeathCause,
    /// The name in the request that ended it, where the cause is `killed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<String>,
    /// The reason, in one sentence.
    pub detail: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    /// The end of what its processes wrote last, as far as somebody read it.
    pub last_output: String,
    /// Its processes at the end, the newest last: `pid argv…`.
    pub processes: Vec<String>,
    /// Absent when it could not be read any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The last point in its history that can be gone back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Its files are still there, and it can be resumed.
    pub files_kept: bool,
}

/// The cause of a sandbox's end: its first process by itself, want of memory, a time limit of its
/// session, idleness, its time to live, somebody's request, a full disk, the backend, or the end of
/// the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum DeathCause {
    Exit,
    Oom,
    Timeout,
    Idle,
    Ttl,
    Killed,
    DiskFull,
    BackendError,
    HostRestart,
}

/// The resources that a sandbox uses and has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Usage {
    pub memory_bytes: u64,
    pub memory_peak_bytes: u64,
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// Processes and threads.
    pub pids: u64,
    /// The bytes that the sandbox alone holds on disk.
    pub disk_bytes: u64,
    /// Files and directories of its own.
    pub inodes: u64,
    /// Processes that were killed for want of memory.
    pub oom_kills: u64,
    /// Bytes read from and written to devices.
    pub io_bytes: u64,
    /// Established TCP connections with the outside.
    pub connections: u64,
    /// The traffic of its link. Absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUsage>,
}

/// The sandbox that requests of an owner go to when they name none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetDefaultSandbox {
    /// One of the owner's sandboxes: its id, the beginning of it, its name or `@last`.
    #[cfg_attr(feature = "schema", schema(pattern = "^(@last|@default|[a-z][a-z0-9-]{0,62})$"))]
    pub sandbox_id: String,
}
