//! All cases, in order.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::engine::Engine;
use crate::errand::Errand;
use crate::ground::Ground;
use crate::machine::{CgroupLayout, Machine, WITHOUT_JOURNAL};
use crate::peers::{LiveSandbox, PYTHON, Peer, TRUE};
use crate::plan::{Case, PREPARED, Plan, Subject};
use crate::report::Report;
use crate::rounds::{Contender, race};
use crate::session::Session;
use crate::statistics::Lap;
use crate::stop::stop_flag;
use crate::{crowd, service, targets, throughput, walls};

/// The stock of networks of the subject [`PREPARED`].
const PREPARED_NETWORKS: u32 = 16;

/// Measures all that the plan names.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Report> {
    let stop = stop_flag()?;
    allow_open_files();
    let data_dir = &plan.data_dir;
    let engine = Engine::open(data_dir, 0)?;
    let prepared = Engine::open(data_dir, PREPARED_NETWORKS)?;
    let layout = CgroupLayout::detect();
    let ground = Ground::lay(data_dir, engine.root())?;
    let mut session = Session {
        ground: &ground,
        engine: &engine,
        prepared: &prepared,
        peers: Vec::new(),
        plan,
        report: blank_report(Machine::here(data_dir, &layout), plan.sizes.quick()),
        stop,
        talkative: io::stderr().is_terminal(),
    };
    let live = LiveSandbox { plan, id: engine.create()? };
    session.gather(&ground, &layout, &live);
    let measured = session.measure(&live);
    engine.destroy(&live.id)?;
    engine.settle()?;
    session.finish();
    measured.map(|()| session.report)
}

fn blank_report(machine: Machine, quick: bool) -> Report {
    let mut notes = NOTES.map(str::to_owned).to_vec();
    if machine.filesystem.ends_with(WITHOUT_JOURNAL) {
        notes.push(
            "the data directory is on ext4 without a journal, which makes files slowly for minutes after many were \
             removed; that weighs on those who make some for each sandbox, as warren does."
                .to_owned(),
        );
    }
    Report {
        quick,
        machine,
        rows: Vec::new(),
        skipped: Vec::new(),
        failed: Vec::new(),
        targets: Vec::new(),
        notes,
    }
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

    fn gather(&mut self, ground: &Ground, layout: &CgroupLayout, live: &LiveSandbox<'_>) {
        for &subject in Subject::value_variants() {
            if subject == Subject::Warren || !self.takes(subject) {
                continue;
            }
            self.progress(&format!("preparing {}", subject.name()));
            match Peer::ready(subject, ground, layout, live) {
                Ok(peer) => {
                    let version = peer.version.clone().map(|version| (subject.name(), version));
                    self.report.machine.versions.extend(version);
                    self.peers.push(Arc::new(peer));
                }
                Err(reason) => self.skip(subject.name(), reason.to_string()),
            }
        }
    }

    fn measure(&mut self, live: &LiveSandbox<'_>) -> anyhow::Result<()> {
        let engine = self.engine;
        if self.wants(Case::RunTrue) {
            let raced = self.race("run_true", self.cold_runs(&TRUE), |peer| Some(&peer.run_true));
            self.attempt("run_true", raced)?;
        }
        if self.wants(Case::RunPython) && Path::new(PYTHON[0]).exists() {
            self.race("run_python", self.cold_runs(&PYTHON), |peer| Some(&peer.run_python))?;
        }
        if self.wants(Case::ExecTrue) {
            let own = Contender::new(Subject::Warren.name(), || engine.exec_in(&live.id, &TRUE));
            self.race("exec_true", vec![own], |peer| peer.exec_true.as_ref())?;
        }
        if self.wants(Case::CreatesPerSecond) {
            let measured = throughput::measure(self);
            self.attempt("creates_per_second", measured)?;
        }
        if self.takes(Subject::Warren) && (self.wants(Case::IdleMemory) || self.wants(Case::CreateAt1000)) {
            let measured = crowd::measure(self);
            self.attempt("idle_memory", measured)?;
        }
        if self.takes(Subject::Warren) && self.wants(Case::Walls) {
            let measured = walls::measure(self, live);
            self.attempt("walls", measured)?;
        }
        service::measure(self)
    }

    fn race(
        &mut self,
        case: &str,
        own: Vec<Contender<'_>>,
        errand_of: impl Fn(&Peer) -> Option<&Errand>,
    ) -> anyhow::Result<()> {
        let peers = self.peers.clone();
        let mut field = if self.takes(Subject::Warren) { own } else { Vec::new() };
        field.extend(peers.iter().filter_map(|peer| {
            let errand = errand_of(peer)?;
            Some(Contender::new(peer.subject.name(), || Ok(Lap::of(peer.time(errand)?))))
        }));
        race(self, case, field)
    }

    fn finish(&mut self) {
        self.progress("clearing up");
        self.peers.clear();
        self.report.targets = targets::judge(&self.report.rows);
        self.progress("");
    }
}

/// Raises the limit of open files: each sandbox takes a few descriptors of the process that made
/// it. If that fails, the crowd fails later and says why.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    raised.unwrap_or_default();
}
