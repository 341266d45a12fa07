//! The boot plan: what the native backend tells the agent to do before it becomes PID 1 of a
//! sandbox.
//!
//! Everything the host owns arrives as an inherited file descriptor. The plan holds no host path
//! and no secret, so nothing of the kind can be found in the agent's memory later.

use minicbor::{Decode, Encode};

use super::ByteString;

/// An inherited descriptor, by number.
pub type FdNumber = i32;

/// The whole plan, one message on the control socket. Steps are done in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct BootPlan {
    /// cgroup v1 `tasks` files to join by writing `0`.
    #[n(0)]
    pub cgroup_tasks: Vec<FdNumber>,
    /// The network namespace to enter, set up by the host.
    #[n(1)]
    pub network: FdNumber,
    #[n(2)]
    pub hostname: ByteString,
    /// First host id of the sandbox's range.
    #[n(3)]
    pub id_base: u32,
    /// Overlay file systems: the first is the root, others are mounted below it.
    #[n(4)]
    pub trees: Vec<TreeMount>,
    /// A detached mount that holds, for tree number n, the directories `upper-n` and `work-n`.
    #[n(16)]
    pub writable: FdNumber,
    /// A prepared `/dev`, a detached mount.
    #[n(5)]
    pub dev: FdNumber,
    #[n(6)]
    pub binds: Vec<BindMount>,
    /// Size of `/dev/shm`.
    #[n(7)]
    pub shm_bytes: u64,
    /// The user namespace to enter, already mapped.
    #[n(8)]
    pub user_namespace: FdNumber,
    #[n(9)]
    pub cpus: Vec<u32>,
    #[n(10)]
    pub rlimits: Vec<Rlimit>,
    /// Capabilities that stay, as a bit mask.
    #[n(11)]
    pub capabilities: u64,
    /// A seccomp program, in the kernel's own encoding.
    #[cbor(n(12), with = "minicbor::bytes")]
    pub seccomp: Vec<u8>,
    /// The listening socket on which calls arrive.
    #[n(13)]
    pub listener: FdNumber,
    /// Present: when the other end of this socket closes, the sandbox ends.
    #[n(14)]
    pub lifeline: Option<FdNumber>,
    #[n(15)]
    pub agent: AgentConfig,
    /// Absent: `/proc` tells of the host, and `/sys` is empty.
    #[n(17)]
    pub machine: Option<Machine>,
    /// Directories of the machine itself that the sandbox has no writable layer on yet.
    #[cbor(n(18), default)]
    pub shown: Vec<ShownTree>,
    /// Where to ask for a writable layer on those, once somebody inside can use one.
    #[n(19)]
    pub outside: Option<Outside>,
}

/// The way to the process that made the sandbox. The agent has no right to mount any more when
/// somebody needs a layer, so it sends the sandbox's name and the writing end of a pipe, which the
/// other side closes when the layer is there or cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Outside {
    /// A socket that keeps messages apart, shared by all sandboxes of that process.
    #[n(0)]
    pub socket: FdNumber,
    #[n(1)]
    pub sandbox: String,
}

/// One overlay.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TreeMount {
    /// Absolute path inside the sandbox.
    #[n(0)]
    pub at: ByteString,
    /// Detached mounts, the topmost first.
    #[n(1)]
    pub lowers: Vec<FdNumber>,
    /// The part of the machine itself that lies below them.
    #[n(2)]
    pub shown: Option<ShownMount>,
}

/// A directory of the machine itself, as detached mounts. They are shown as one overlay, which a
/// stranger to the machine mounts: the kernel opens what is behind an overlay with the rights of
/// its mounter, so that only what everybody on the machine may read can be read inside, by anyone,
/// however new it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ShownMount {
    /// Whiteouts for the names that are not for everybody.
    #[n(0)]
    pub hidden: FdNumber,
    #[n(1)]
    pub machine: FdNumber,
    /// Set if its ids are mapped. Where they are not, root inside is nobody to its files, and has
    /// no right over them.
    #[n(2)]
    pub mapped: bool,
}

/// One such directory, where it is seen.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ShownTree {
    /// Absolute path inside the sandbox.
    #[n(0)]
    pub at: ByteString,
    #[n(1)]
    pub mount: ShownMount,
}

/// The user and group that owns nothing on the machine and in no sandbox. Beside the ids that
/// sandboxes are given, which are used by nothing else on common distributions.
pub const STRANGER: u32 = 0x7fff_fffe;

/// One host directory or file given to the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct BindMount {
    /// A detached mount with its flags already set.
    #[n(0)]
    pub source: FdNumber,
    #[n(1)]
    pub at: ByteString,
    #[n(2)]
    pub directory: bool,
}

/// A resource limit, soft and hard alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Rlimit {
    #[n(0)]
    pub resource: u32,
    #[n(1)]
    pub value: u64,
}

/// The machine that a sandbox sees: its own limits, and where the agent reads how much of them is
/// used. A gauge that a host does not have reads as zero.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Machine {
    #[n(0)]
    pub memory_bytes: u64,
    #[n(1)]
    pub cpus: u32,
    /// When it was switched on, by the host's boot-time clock. Not later than the agent's own
    /// start, so that no process is older than its machine.
    #[n(2)]
    pub began_ns: u64,
    /// A detached mount, read-only, that holds what is the same for all such machines: the files
    /// `cpuinfo` and `vmstat`, for `/proc`, the directory `sys`, and the program `sudo`.
    #[n(3)]
    pub tree: FdNumber,
    /// The control group's `memory.current`, or `memory.usage_in_bytes` on v1.
    #[n(4)]
    pub memory_used: Option<FdNumber>,
    /// The control group's `memory.stat`.
    #[n(5)]
    pub memory_stat: Option<FdNumber>,
    /// The control group's `cpu.stat`, or `cpuacct.usage` on v1.
    #[n(6)]
    pub cpu_used: Option<FdNumber>,
}

/// The agent's settings on any backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct AgentConfig {
    /// `KEY=VALUE` for every process.
    #[n(0)]
    pub env: Vec<ByteString>,
    /// As [`super::Start::user`]; absent: root.
    #[n(1)]
    pub user: Option<ByteString>,
    /// Absent: the user's home.
    #[n(2)]
    pub cwd: Option<ByteString>,
}

/// The agent's one answer to a plan.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum BootReport {
    #[n(0)]
    Ready,
    #[n(1)]
    Failed(#[n(0)] BootFailure),
}

/// Which step of the plan could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, thiserror::Error)]
#[error("{step}: {detail}")]
pub struct BootFailure {
    /// The layer of isolation, such as `overlay` or `seccomp`.
    #[n(0)]
    pub step: String,
    #[n(1)]
    pub detail: String,
    #[n(2)]
    pub errno: Option<i32>,
}

/// One value of a mount option may have this many bytes, its end included.
const MOST_OPTION_BYTES: usize = 256;

/// The options of the overlay that a tree of a root is, in their order. Every mount of one, at the
/// start or later, has them.
pub fn overlay_options(lowers: &[String], upper: String, work: String) -> Vec<(&'static str, String)> {
    let joined = lowers.join(":");
    let mut options: Vec<(&'static str, String)> = if joined.len() < MOST_OPTION_BYTES {
        vec![("lowerdir", joined)]
    } else {
        lowers.iter().map(|lower| ("lowerdir+", lower.clone())).collect()
    };
    options.extend([("source", "overlay".to_owned()), ("upperdir", upper), ("workdir", work)]);
    let fixed = [("redirect_dir", "on"), ("metacopy", "off"), ("index", "off"), ("xino", "off")];
    options.extend(fixed.map(|(key, value)| (key, value.to_owned())));
    options
}

/// The options of the overlay that shows a directory of the machine itself, see [`ShownMount`].
pub fn shown_options(hidden: &str, machine: &str) -> Vec<(&'static str, String)> {
    let fixed = [
        ("source", "overlay"),
        ("redirect_dir", "nofollow"),
        ("metacopy", "off"),
        ("index", "off"),
        ("xino", "off"),
    ];
    let mut options = vec![("lowerdir", format!("{hidden}:{machine}"))];
    options.extend(fixed.map(|(key, value)| (key, value.to_owned())));
    options
}
