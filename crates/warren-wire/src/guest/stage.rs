//! The plans of a sandbox that another runtime isolates. The agent's binary runs twice for it: once
//! as the stage, which mounts the root in a mount table of its own and then becomes the runtime,
//! and once inside, where it serves.

use minicbor::{Decode, Encode};

use super::{AgentConfig, BootPlan, ByteString, FdNumber, Rlimit};

/// The plan of the stage, one message on the control socket; [`super::BootReport`] answers it. Once
/// everything is mounted the stage executes the runtime, so this plan holds paths of the host.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StagePlan {
    /// Of this the stage does what has to be done outside: control groups, network, mounts.
    #[n(0)]
    pub boot: BootPlan,
    /// An empty directory of the host over which everything is mounted, see [`Staged`]. Nobody but
    /// the runtime sees that.
    #[n(1)]
    pub place: ByteString,
    /// Mounts that the runtime must not find.
    #[n(2)]
    pub hidden: Vec<ByteString>,
    /// The runtime, by its absolute path, and its words.
    #[n(3)]
    pub program: ByteString,
    #[n(4)]
    pub arguments: Vec<ByteString>,
    #[n(5)]
    pub environment: Vec<ByteString>,
    /// Become the descriptors 3, 4, and so on. After them come those of [`StagePlan::made`].
    #[n(6)]
    pub descriptors: Vec<FdNumber>,
    /// The runtime's standard input; absent: the null device.
    #[n(7)]
    pub input: Option<FdNumber>,
    /// The runtime's standard output and error.
    #[n(8)]
    pub output: FdNumber,
    /// The runtime runs as root of the sandbox's user namespace, and not as the host's.
    #[n(9)]
    pub enters: Option<bool>,
}

impl StagePlan {
    /// The number of descriptors that the stage opens for the agent, for [`ServedMachine`].
    pub fn made(&self) -> usize {
        if self.boot.machine.is_some() { MADE } else { 0 }
    }
}

/// `sudo`'s door and the covers.
const MADE: usize = 1 + Staged::COVERED.len();

/// Names below [`StagePlan::place`].
#[derive(Debug)]
pub struct Staged;

impl Staged {
    pub const ROOT: &'static str = "root";
    pub const DEV: &'static str = "dev";
    pub const RUN: &'static str = "run";
    /// A prepared tree: `cpuinfo`, and the directory `sys`.
    pub const MACHINE: &'static str = "machine";
    /// Files that cover those of `/proc`; they are read-only here.
    pub const COVERS: &'static str = "covers";
    /// The covered files of `/proc`, in the order of their descriptors.
    pub const COVERED: [&'static str; 4] = ["meminfo", "stat", "uptime", "loadavg"];

    /// An overlay below the root.
    pub fn tree(number: usize) -> String {
        format!("tree-{number}")
    }

    /// A directory of the machine without a writable layer.
    pub fn shown(number: usize) -> String {
        format!("shown-{number}")
    }

    /// A directory or file that is mounted as it is.
    pub fn bind(number: usize) -> String {
        format!("bind-{number}")
    }
}

/// The plan of an agent that finds itself isolated, from the descriptor or file that its command
/// line names. Everything in it only takes something away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct ServePlan {
    #[n(0)]
    pub agent: AgentConfig,
    #[n(1)]
    pub rlimits: Vec<Rlimit>,
    #[n(2)]
    pub cpus: Vec<u32>,
    /// A seccomp program, in the kernel's own encoding; empty: none.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub seccomp: Vec<u8>,
    /// As [`BootPlan::lifeline`].
    #[n(4)]
    pub lifeline: Option<FdNumber>,
    #[n(5)]
    pub machine: Option<ServedMachine>,
    /// A pipe by its path, for an agent that is given no descriptors. Once nobody has it open for
    /// writing any more, the agent ends.
    #[n(6)]
    pub lifeline_at: Option<ByteString>,
}

/// The descriptors behind the machine that a sandbox sees.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ServedMachine {
    /// As [`super::Machine`], without a tree.
    #[n(0)]
    pub memory_bytes: u64,
    #[n(1)]
    pub cpus: u32,
    #[n(2)]
    pub began_ns: u64,
    #[n(3)]
    pub memory_used: Option<FdNumber>,
    #[n(4)]
    pub memory_stat: Option<FdNumber>,
    #[n(5)]
    pub cpu_used: Option<FdNumber>,
    /// The first of those that the stage opened.
    #[n(6)]
    pub made: FdNumber,
}
