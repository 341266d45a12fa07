use serde::Serialize;

use crate::machine::Machine;
use crate::statistics::Samples;

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
    pub(crate) skipped: Vec<Skipped>,
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

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Figures {
    Time {
        median_ms: f64,
        p99_ms: f64,
    },
    Rate {
        per_second: f64,
    },
    /// Other programs changed the machine's memory meanwhile by as much as `uncertain_kib` for
    /// each.
    Memory {
        kib_each: f64,
        uncertain_kib: f64,
    },
    /// A server's own needs.
    Server {
        memory_mib: f64,
        core_percent: f64,
    },
    /// One large file, and how much the server grew meanwhile.
    Transfer {
        mb_per_second: f64,
        grown_mib: f64,
    },
}

impl Figures {
    pub(crate) fn times(samples: &Samples) -> Self {
        Self::Time { median_ms: samples.median_ms(), p99_ms: samples.p99_ms() }
    }

    /// The one that is compared.
    pub(crate) fn main(self) -> f64 {
        match self {
            Self::Time { median_ms, .. } => median_ms,
            Self::Rate { per_second } => per_second,
            Self::Memory { kib_each, .. } => kib_each,
            Self::Server { memory_mib, .. } => memory_mib,
            Self::Transfer { mb_per_second, .. } => mb_per_second,
        }
    }
}

/// A target, and whether Warren reaches it.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) target: String,
    pub(crate) unit: &'static str,
    pub(crate) measured: f64,
    pub(crate) must: f64,
    pub(crate) aim: Option<f64>,
    /// Absent if the figure is too uncertain to say.
    pub(crate) must_met: Option<bool>,
    pub(crate) aim_met: Option<bool>,
}

/// A subject that could not take part.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) subject: String,
    pub(crate) reason: String,
}

pub(crate) fn find<'a>(rows: &'a [Row], case: &str, subject: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.case == case && row.subject == subject)
}
