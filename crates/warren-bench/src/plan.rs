//! The cases, subjects and sizes of a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

/// The subject that takes its networks from a stock.
pub(crate) const PREPARED: &str = "warren_prepared";
pub(crate) const MOST_WORKERS: usize = 8;
pub(crate) const WORKERS: [usize; 4] = [1, 2, 4, MOST_WORKERS];

/// A thing to measure. Those from `FirstCreate` on need a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Case {
    /// Create a sandbox, run true in it, destroy it
    RunTrue,
    /// The same with an empty Python program
    RunPython,
    /// Run true in a sandbox that is there
    ExecTrue,
    /// Sandboxes per second with 1, 2, 4 and 8 at once
    CreatesPerSecond,
    /// Memory of the whole machine for each idle sandbox
    IdleMemory,
    /// The last of 1000 creates, all alive, against the first
    #[value(name = "create_at_1000")]
    CreateAt1000,
    /// Behind each OCI runtime: a new sandbox's answer beside the bare runtime's own run, an exec
    /// beside native's, and a move beside a stop and a start
    Walls,
    /// The first create in a fresh data directory against later ones, over HTTP and by `warren run`
    FirstCreate,
    /// Over HTTP: create a sandbox and wait for its first command, beside the engine
    HttpCreate,
    /// The same from a warm pool
    HttpClaim,
    /// The same a hundred times at once
    HttpBurst,
    /// Over HTTP: run true in a sandbox that is there
    HttpExec,
    /// Over HTTP: sandboxes made and removed per second by eight clients
    HttpCreatesPerSecond,
    /// Memory and processor of a server with 1000 idle sandboxes
    HttpIdle,
    /// A server that is killed with 300 sandboxes running, and started again
    HttpRestart,
    /// A gigabyte up and down
    HttpFiles,
    /// Over HTTP: a snapshot of an idle sandbox that wrote a little, beside the engine's create
    SnapshotIdle,
    /// Over HTTP: a snapshot of an idle sandbox that wrote 10 MB to 1 GB, beside `cp -a`, `docker
    /// commit` and btrfs
    Snapshot,
    /// Over HTTP: back to an earlier snapshot
    Rollback,
    /// Over HTTP: 1, 10 and 100 forks of a snapshot, until each has answered
    Fork,
    /// Over HTTP: forks of the last of 1, 50 and 200 snapshots
    Depth,
    /// `warren bisect` over 64 commands
    Bisect,
    /// `pip install`, `npm ci` and `git clone` without a network, inside and outside
    Installs,
    /// Over HTTP: the cost of more sandboxes alive, and of a longer history
    Growth,
    /// Over HTTP: create with a network and without one
    NetworkCreate,
    /// Over HTTP: the last of 1000 sandboxes with a network, all alive, against the first
    NetworkCrowd,
    /// Bytes and connections out of a sandbox, beside a bare veth pair with masquerade
    NetworkTraffic,
    /// A request to an application in a sandbox, through the proxy and past it
    PortRequest,
    /// Requests to an application in a sandbox per second, by 32 clients
    PortRequestsPerSecond,
    /// Memory of the server for each of 500 idle web sockets
    PortIdle,
    /// Through the published E2B package for Python: create, commands, fifty at once, files
    #[value(name = "e2b")]
    E2b,
}

/// A program or library to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Subject {
    /// The engine, in this process
    Warren,
    /// `warren run --net none` and `warren exec`
    WarrenCli,
    /// `warren run` with the network it has by default
    WarrenCliNet,
    /// No sandbox at all
    Host,
    Bwrap,
    Crun,
    Runc,
    Docker,
    Runsc,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Warren => "warren",
            Self::WarrenCli => "warren_cli",
            Self::WarrenCliNet => "warren_cli_net",
            Self::Host => "host",
            Self::Bwrap => "bwrap",
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Docker => "docker",
            Self::Runsc => "runsc",
        }
    }
}

/// The wishes of the command line; empty lists mean everything.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The program that is measured.
    pub(crate) warren: PathBuf,
    pub(crate) data_dir: PathBuf,
    pub(crate) sizes: Sizes,
    pub(crate) cases: Vec<Case>,
    pub(crate) subjects: Vec<Subject>,
}

/// The amount of work in each case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) rounds: usize,
    pub(crate) warm_ups: usize,
    pub(crate) windows: usize,
    pub(crate) window: Duration,
    pub(crate) crowds: &'static [usize],
    /// Rounds of what takes some seconds each.
    pub(crate) long_rounds: usize,
    /// Sandboxes alive at once while growth is measured.
    pub(crate) alive: &'static [usize],
    /// Entries of a sandbox's history.
    pub(crate) history: &'static [usize],
}

impl Sizes {
    pub(crate) const FULL: Self = Self {
        rounds: 200,
        warm_ups: 5,
        windows: 4,
        window: Duration::from_secs(2),
        crowds: &[100, 1000],
        long_rounds: 9,
        alive: &[1, 10, 100, 500],
        history: &[1, 100, 1000, 5000],
    };
    /// This is but a look.
    pub(crate) fn quick(&self) -> bool {
        self.rounds < Self::FULL.rounds
    }

    /// For a look within some minutes.
    pub(crate) const QUICK: Self = Self {
        rounds: 20,
        warm_ups: 2,
        windows: 3,
        window: Duration::from_millis(400),
        crowds: &[100],
        long_rounds: 3,
        alive: &[1, 10, 100],
        history: &[1, 100, 1000],
    };
}
