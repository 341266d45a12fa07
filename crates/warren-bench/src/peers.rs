//! The sandboxes that people know, each as the commands its users type.

mod bubblewrap;
mod docker;
mod own;
mod runtime;

pub(crate) use self::runtime::Checkpoint;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use warren_core::SandboxId;

use crate::annex::{Annex, Request};
use crate::errand::{Errand, ErrandError, Tally, Work, find_program, output_of};
use crate::ground::Ground;
use crate::machine::CgroupLayout;
use crate::plan::{Plan, Subject};

pub(crate) const TRUE: [&str; 1] = ["/bin/true"];
pub(crate) const PYTHON: [&str; 3] = ["/usr/bin/python3", "-c", "pass"];
const IDLE: [&str; 2] = ["/bin/sleep", "infinity"];

/// One of them, ready.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) subject: Subject,
    pub(crate) version: Option<String>,
    place: Place,
    pub(crate) run_true: Errand,
    pub(crate) run_python: Errand,
    pub(crate) exec_true: Option<Errand>,
    /// Done once before anything is measured.
    prepare: Vec<Errand>,
    /// Done in the end, also after a failure.
    clear: Vec<Errand>,
    /// Done first, for what a killed run left.
    clear_abandoned: Vec<Errand>,
}

/// The place where its commands are started.
#[derive(Debug)]
enum Place {
    Here,
    Annex(Arc<Mutex<Annex>>),
}

impl Peer {
    /// A subject that needs no preparation and has no sandbox to execute in.
    fn new(subject: Subject, run_true: Errand, run_python: Errand) -> Self {
        Self {
            subject,
            version: None,
            place: Place::Here,
            run_true,
            run_python,
            exec_true: None,
            prepare: Vec::new(),
            clear: Vec::new(),
            clear_abandoned: Vec::new(),
        }
    }

    /// Sets a subject up and tries whether it works here; the error is the reason why it cannot
    /// take part.
    pub(crate) fn ready(
        subject: Subject,
        ground: &Ground,
        layout: &CgroupLayout,
        live: &LiveSandbox<'_>,
    ) -> Result<Self, PeerError> {
        let peer = match subject {
            Subject::Warren => return Err(PeerError::NotInstalled),
            Subject::Host => own::host(),
            Subject::WarrenCli => own::command_line(live),
            Subject::WarrenCliNet => own::command_line_with_network(live),
            Subject::Bwrap => bubblewrap::peer(ground, &installed("bwrap")?),
            Subject::Crun => runtime::crun(ground, &installed("crun")?, layout)?,
            Subject::Runc => runtime::runc(ground, &installed("runc")?)?,
            Subject::Runsc => runtime::runsc(ground, &installed("runsc")?)?,
            Subject::Docker => docker::peer(ground, &installed("docker")?)?,
        };
        for errand in &peer.clear_abandoned {
            drop(peer.time(errand));
        }
        let complaints = ground.file("complaints");
        for errand in peer.prepare.iter().chain([&peer.run_true]).chain(&peer.exec_true) {
            let errand = errand.for_worker(0);
            match &peer.place {
                Place::Here => errand.attempt(&complaints)?,
                Place::Annex(annex) => {
                    annex.lock().time(&Request::Attempt { errand, complaints: complaints.clone() })?
                }
            };
        }
        Ok(peer)
    }

    pub(crate) fn time(&self, errand: &Errand) -> Result<Duration, ErrandError> {
        let errand = errand.for_worker(0);
        match &self.place {
            Place::Here => errand.time(),
            Place::Annex(annex) => annex.lock().time(&Request::Time(errand)),
        }
    }

    pub(crate) fn repeat(
        &self,
        errand: &Errand,
        work: Work,
        stop: &AtomicBool,
    ) -> Result<Tally, ErrandError> {
        match &self.place {
            Place::Here => errand.repeat(work, stop),
            Place::Annex(annex) => annex.lock().tally(&Request::Repeat { errand: errand.clone(), work }),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for errand in &self.clear {
            drop(self.time(errand));
        }
    }
}

/// A sandbox of Warren's own that is alive, for the command line to use.
#[derive(Debug, Clone)]
pub(crate) struct LiveSandbox<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) id: SandboxId,
}

/// The reason why a subject cannot take part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("not installed")]
    NotInstalled,
    #[error("no daemon answers")]
    NoDaemon,
    #[error("write its configuration: {0}")]
    Bundle(std::io::Error),
    #[error(transparent)]
    Errand(#[from] ErrandError),
}

fn installed(name: &str) -> Result<String, PeerError> {
    find_program(name).map(|path| path.display().to_string()).ok_or(PeerError::NotInstalled)
}

/// The first line a program prints, if it succeeds.
fn first_line(argv: &[&str]) -> Option<String> {
    let (program, arguments) = argv.split_first()?;
    let text = output_of(Command::new(program).args(arguments)).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}
