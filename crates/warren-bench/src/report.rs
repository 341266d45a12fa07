use std::time::Duration;

use serde::Serialize;

use crate::errand::Tally;
use crate::machine::Machine;
use crate::statistics::{Samples, uncertain_mean};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Measured in few rounds.
    pub(crate) quick: bool,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
    pub(crate) skipped: Vec<Skipped>,
    /// Cases that broke off, and subjects that failed in the middle of one.
    pub(crate) failed: Vec<Skipped>,
    pub(crate) targets: Vec<Verdict>,
    /// Remarks that help to read the figures.
    pub(crate) notes: Vec<String>,
}

/// One subject in one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) subject: String,
    pub(crate) n: usize,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Figures {
    /// The median may be wrong by as much as `uncertain_ms`.
    Time { median_ms: f64, p99_ms: f64, uncertain_ms: f64 },
    /// The rates of the windows are there to be compared with others of the same turn.
    Rate { per_second: f64, uncertain_per_second: f64, windows: Vec<f64> },
    /// Other programs changed the machine's memory meanwhile by as much as `uncertain_kib` for
    /// each.
    Memory { kib_each: f64, uncertain_kib: f64 },
    /// A server's own needs.
    Server { memory_mib: f64, core_percent: f64 },
    /// A file's size.
    Size { mib: f64 },
    /// One large file, and how much the server grew meanwhile.
    Transfer { mb_per_second: f64, uncertain_mb_per_second: f64, grown_mib: f64 },
}

impl Figures {
    pub(crate) fn times(samples: &Samples) -> Self {
        Self::Time {
            median_ms: samples.median_ms(),
            p99_ms: samples.p99_ms(),
            uncertain_ms: samples.uncertain_ms(),
        }
    }

    /// The rate of several windows.
    pub(crate) fn rate(windows: &[Tally]) -> Self {
        let mut sum = Tally { count: 0, elapsed: Duration::ZERO };
        windows.iter().for_each(|window| sum.add(*window));
        let windows: Vec<f64> = windows.iter().map(Tally::per_second).collect();
        let uncertain_per_second = uncertain_mean(&windows);
        Self::Rate { per_second: sum.per_second(), uncertain_per_second, windows }
    }

    /// The one that is compared.
    pub(crate) fn main(&self) -> f64 {
        match *self {
            Self::Time { median_ms, .. } => median_ms,
            Self::Rate { per_second, .. } => per_second,
            Self::Memory { kib_each, .. } => kib_each,
            Self::Server { memory_mib, .. } => memory_mib,
            Self::Size { mib } => mib,
            Self::Transfer { mb_per_second, .. } => mb_per_second,
        }
    }

    /// The amount by which that one may be wrong.
    pub(crate) fn uncertain(&self) -> f64 {
        match *self {
            Self::Time { uncertain_ms, .. } => uncertain_ms,
            Self::Rate { uncertain_per_second, .. } => uncertain_per_second,
            Self::Memory { uncertain_kib, .. } => uncertain_kib,
            Self::Transfer { uncertain_mb_per_second, .. } => uncertain_mb_per_second,
            Self::Server { .. } | Self::Size { .. } => 0.0,
        }
    }
}

/// A target, and whether Warren reaches it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) part: Part,
    pub(crate) target: String,
    /// The arguments of `warren-bench` that measure it.
    pub(crate) command: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) measured: f64,
    pub(crate) uncertain: f64,
    pub(crate) bound: Bound,
    pub(crate) must: f64,
    pub(crate) aim: Option<f64>,
    /// Absent if the figure is too uncertain to say.
    pub(crate) must_met: Option<bool>,
    pub(crate) aim_met: Option<bool>,
}

/// The part of the targets that one belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// The speed that users meet.
    Speed,
    Growth,
    /// Reached before, and to be kept.
    Kept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtMost,
    AtLeast,
}

/// Something that could not take part, or not to the end.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) subject: String,
    pub(crate) reason: String,
}

pub(crate) fn find<'a>(rows: &'a [Row], case: &str, subject: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.case == case && row.subject == subject)
}
