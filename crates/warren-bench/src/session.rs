//! A run under way: what is ready, what was found so far, and whether to go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Engine;
use crate::errand::Tally;
use crate::ground::Ground;
use crate::peers::Peer;
use crate::plan::{Case, Plan, Subject};
use crate::report::{Figures, Report, Row, Skipped};
use crate::screen;
use crate::statistics::Samples;

pub(crate) struct Session<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) ground: &'a Ground,
    pub(crate) engine: &'a Engine,
    pub(crate) prepared: &'a Engine,
    pub(crate) peers: Vec<Arc<Peer>>,
    pub(crate) report: Report,
    pub(crate) stop: Arc<AtomicBool>,
    /// Progress is shown.
    pub(crate) talkative: bool,
}

impl Session<'_> {
    pub(crate) fn wants(&self, case: Case) -> bool {
        self.plan.cases.is_empty() || self.plan.cases.contains(&case)
    }

    pub(crate) fn takes(&self, subject: Subject) -> bool {
        self.plan.subjects.is_empty() || self.plan.subjects.contains(&subject)
    }

    /// A subject that is ready.
    pub(crate) fn peer(&self, subject: Subject) -> Option<Arc<Peer>> {
        self.peers.iter().find(|peer| peer.subject == subject).cloned()
    }

    pub(crate) fn progress(&self, text: &str) {
        if self.talkative {
            screen::status(text);
        }
    }

    /// Fails once the user has asked to stop.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(anyhow::anyhow!("interrupted")) } else { Ok(()) }
    }

    pub(crate) fn enter(&mut self, case: &str, subject: &str, n: usize, figures: Figures) {
        self.report.rows.push(Row { case: case.to_owned(), subject: subject.to_owned(), n, figures });
    }

    pub(crate) fn enter_times(&mut self, case: &str, subject: &str, samples: &Samples) {
        self.enter(case, subject, samples.len(), Figures::times(samples));
    }

    pub(crate) fn enter_rate(&mut self, case: &str, subject: &str, windows: &[Tally]) {
        let count: u64 = windows.iter().map(|window| window.count).sum();
        let n = usize::try_from(count).unwrap_or(usize::MAX);
        self.enter(case, subject, n, Figures::rate(windows));
    }

    /// Notes the failure of a case and goes on with the next, unless the user has asked to stop.
    pub(crate) fn attempt(&mut self, case: &str, measured: anyhow::Result<()>) -> anyhow::Result<()> {
        if let Err(error) = measured {
            self.go_on()?;
            self.fail(case, format!("{error:#}"));
        }
        Ok(())
    }

    /// Notes that something failed which works elsewhere.
    pub(crate) fn fail(&mut self, what: &str, reason: String) {
        self.report.failed.push(Skipped { subject: what.to_owned(), reason });
    }

    /// Notes that a subject could not take part.
    pub(crate) fn skip(&mut self, subject: &str, reason: String) {
        self.report.skipped.push(Skipped { subject: subject.to_owned(), reason });
    }
}
