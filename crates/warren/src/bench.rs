//! Warren beside the sandboxes people know, on one root file system and in one run.
//!
//! Machines are noisy and drift, so only ratios taken side by side mean something: in every case the subjects take turns
//! (`rounds.rs`). Warren's native backend is measured in this process (`engine.rs`), its server over HTTP (`service.rs`), all
//! others as the commands their users type (`peers.rs`). What a subject needs lies on one `Ground`, and goes with it, also when the run is interrupted.

pub(crate) mod annex;
mod crowd;
mod engine;
mod errand;
mod ground;
mod machine;
mod oci;
mod peers;
mod report;
mod rounds;
mod service;
mod statistics;
pub(crate) mod table;
mod targets;
mod throughput;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};

use self::engine::Engine;
use self::errand::Errand;
use self::ground::Ground;
use self::machine::{CgroupLayout, Machine, WITHOUT_JOURNAL};
use self::peers::{Inhabited, PYTHON, Peer, TRUE};
use self::report::{Report, Skipped};
use self::rounds::{Contender, Lap, race};
use crate::cli::Global;
use crate::error::CliError;
use crate::local::data_dir;
use crate::ui;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    /// Over HTTP: create a sandbox and wait for its first command
    HttpCreate,
    /// The same a hundred times at once
    HttpBurst,
    /// Over HTTP: run true in a sandbox that is there
    HttpExec,
    /// Over HTTP: sandboxes made and removed per second by eight clients
    HttpCreatesPerSecond,
    /// What a server with 1000 idle sandboxes needs for itself
    HttpIdle,
    /// A server that is killed with 300 sandboxes running, and started again
    HttpRestart,
    /// A gigabyte up and down
    HttpFiles,
    /// Over HTTP: a snapshot of an idle sandbox that wrote 10 MB to 1 GB, beside `cp -a`, `docker commit` and btrfs
    Snapshot,
    /// Over HTTP: back to an earlier snapshot
    Rollback,
    /// Over HTTP: 1, 10 and 100 forks of a snapshot, until each has answered
    Fork,
    /// Over HTTP: forks of the last of 1, 50 and 200 snapshots
    Depth,
    /// `warren bisect` over 64 commands
    Bisect,
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
    /// What the server needs for each of 500 idle web sockets
    PortIdle,
    /// Through the published E2B package for Python: create, commands, fifty at once, files
    #[value(name = "e2b")]
    E2b,
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Subject {
    /// The engine, in this process
    Warren,
    /// `warren run` and `warren exec`
    WarrenCli,
    /// No sandbox at all
    Host,
    Bwrap,
    Crun,
    Runc,
    Docker,
    Runsc,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Warren => "warren",
            Self::WarrenCli => "warren_cli",
            Self::Host => "host",
            Self::Bwrap => "bwrap",
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Docker => "docker",
            Self::Runsc => "runsc",
        }
    }
}

/// What was asked for; nothing named means everything.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sizes: Sizes,
    pub(crate) cases: Vec<Case>,
    pub(crate) subjects: Vec<Subject>,
}

/// How much is done of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    rounds: usize,
    warm_ups: usize,
    windows: usize,
    window: Duration,
    crowds: &'static [usize],
}

impl Sizes {
    pub(crate) const FULL: Self =
        Self { rounds: 200, warm_ups: 5, windows: 3, window: Duration::from_secs(2), crowds: &[100, 1000] };
    /// For a look within a minute.
    pub(crate) const QUICK: Self =
        Self { rounds: 20, warm_ups: 2, windows: 1, window: Duration::from_millis(600), crowds: &[100] };
}

/// For the subject of this name.
const PREPARED_NETWORKS: usize = 16;
const PREPARED: &str = "warren_prepared";
const MOST_WORKERS: usize = 8;
const WORKERS: [usize; 4] = [1, 2, 4, MOST_WORKERS];

/// A run under way.
struct Session<'a> {
    ground: &'a Ground,
    engine: &'a Engine,
    prepared: &'a Engine,
    peers: Vec<Peer>,
    sizes: Sizes,
    cases: &'a [Case],
    subjects: &'a [Subject],
    report: Report,
    stop: Arc<AtomicBool>,
    talkative: bool,
}

/// Measures all that the plan names.
pub(crate) fn measure(global: &Global, plan: &Plan) -> Result<Report, CliError> {
    let stop = stop_flag()?;
    allow_open_files();
    let data_dir = data_dir(global)?;
    let engine = Engine::open(global)?;
    let prepared = Engine::open_prepared(global, PREPARED_NETWORKS)?;
    let layout = CgroupLayout::detect();
    let ground = Ground::lay(&data_dir, engine.root())?;
    let mut session = Session {
        ground: &ground,
        engine: &engine,
        prepared: &prepared,
        peers: Vec::new(),
        sizes: plan.sizes,
        cases: &plan.cases,
        subjects: &plan.subjects,
        report: blank_report(Machine::here(&data_dir, &layout)),
        stop,
        talkative: io::stderr().is_terminal(),
    };
    let inhabited = Inhabited { data_dir: data_dir.display().to_string(), id: engine.create()? };
    session.gather(&ground, &layout, &inhabited);
    let measured = session.measure(&inhabited);
    engine.destroy(&inhabited.id)?;
    engine.settle()?;
    session.finish();
    measured.map(|()| session.report)
}

fn blank_report(machine: Machine) -> Report {
    let mut notes = NOTES.map(str::to_owned).to_vec();
    if machine.filesystem.ends_with(WITHOUT_JOURNAL) {
        notes.push(
            "the data directory is on ext4 without a journal, which makes files slowly for minutes after many were \
             removed; that weighs on those who make some for each sandbox, as warren does."
                .to_owned(),
        );
    }
    Report { machine, rows: Vec::new(), skipped: Vec::new(), targets: Vec::new(), notes }
}

const NOTES: [&str; 3] = [
    "warren makes all namespaces with users mapped, a writable layer, cgroup limits and a system call filter. crun and \
     runc have cgroup limits but, as in their default configuration, no user namespace and no filter, and a read-only \
     root; bwrap has neither limits nor filter, and a read-only root; runsc runs without cgroups.",
    "warren_settled includes the removal of what was destroyed, which otherwise goes on in the background; what the \
     kernel removes after a process has ended is counted for nobody.",
    "warren_prepared takes its networks from a stock that is made beforehand and refilled in the background, as a \
     server does; the targets are judged without it.",
];

impl<'a> Session<'a> {
    fn cold_runs(&self, argv: &'static [&'static str]) -> Vec<Contender<'a>> {
        let of = |name, engine: &'a Engine| Contender::new(name, move || engine.cold_run(argv));
        vec![of(Subject::Warren.name(), self.engine), of(PREPARED, self.prepared)]
    }

    fn gather(&mut self, ground: &Ground, layout: &CgroupLayout, inhabited: &Inhabited) {
        for &subject in Subject::value_variants() {
            if subject == Subject::Warren || !self.takes(subject) {
                continue;
            }
            self.progress(&format!("preparing {}", subject.name()));
            match Peer::ready(subject, ground, layout, inhabited) {
                Ok(peer) => {
                    let version = peer.version.clone().map(|version| (subject.name(), version));
                    self.report.machine.versions.extend(version);
                    self.peers.push(peer);
                }
                Err(reason) => self
                    .report
                    .skipped
                    .push(Skipped { subject: subject.name().to_owned(), reason: reason.to_string() }),
            }
        }
    }

    fn measure(&mut self, inhabited: &Inhabited) -> Result<(), CliError> {
        let engine = self.engine;
        if self.wants(Case::RunTrue) {
            self.race("run_true", self.cold_runs(&TRUE), |peer| Some(&peer.run_true))?;
        }
        if self.wants(Case::RunPython) && Path::new(PYTHON[0]).exists() {
            self.race("run_python", self.cold_runs(&PYTHON), |peer| Some(&peer.run_python))?;
        }
        if self.wants(Case::ExecTrue) {
            let own = Contender::new(Subject::Warren.name(), || engine.exec_in(&inhabited.id, &TRUE));
            self.race("exec_true", vec![own], |peer| peer.exec_true.as_ref())?;
        }
        if self.wants(Case::CreatesPerSecond) {
            throughput::measure(self)?;
        }
        if self.takes(Subject::Warren) && (self.wants(Case::IdleMemory) || self.wants(Case::CreateAt1000)) {
            crowd::measure(self)?;
        }
        service::measure(self)
    }

    fn race(
        &mut self,
        case: &str,
        own: Vec<Contender<'_>>,
        errand_of: impl Fn(&Peer) -> Option<&Errand>,
    ) -> Result<(), CliError> {
        // Out of the session for the time being, since the race reports to it.
        let peers = std::mem::take(&mut self.peers);
        let mut field = if self.takes(Subject::Warren) { own } else { Vec::new() };
        field.extend(peers.iter().filter_map(|peer| {
            let errand = errand_of(peer)?;
            let lap = || Ok(Lap { time: peer.time(errand).map_err(CliError::new)?, settled: None });
            Some(Contender::new(peer.subject.name(), lap))
        }));
        let raced = race(self, case, field);
        self.peers = peers;
        raced
    }

    fn finish(&mut self) {
        self.progress("clearing up");
        self.peers.clear();
        self.report.targets = targets::judge(&self.report.rows);
        self.progress("");
    }

    fn wants(&self, case: Case) -> bool {
        self.cases.is_empty() || self.cases.contains(&case)
    }

    fn takes(&self, subject: Subject) -> bool {
        self.subjects.is_empty() || self.subjects.contains(&subject)
    }

    fn progress(&self, text: &str) {
        if self.talkative {
            ui::status(text);
        }
    }

    /// Fails once the user has asked to stop.
    fn go_on(&self) -> Result<(), CliError> {
        if self.stop.load(Ordering::Relaxed) { Err(CliError::new("interrupted")) } else { Ok(()) }
    }
}

/// A sandbox takes a few descriptors of the process that made it, and a crowd of them more than many systems give at
/// first. If it cannot be raised, the crowd fails and says why.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    raised.unwrap_or_default();
}

/// In how many rounds a slow subject takes part once.
fn slower(rounds: usize) -> usize {
    (rounds / 50).max(4)
}

/// Set when the user asks to stop, so that everything is cleared up before the end.
fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(CliError::new)?;
    }
    Ok(flag)
}
