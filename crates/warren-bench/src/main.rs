//! Warren beside the sandboxes people know, on one root file system and in one run.
//!
//! Machines are noisy and drift, so only ratios taken side by side mean something: in every case
//! the subjects take turns (`rounds.rs`). Warren's native backend is measured in this process
//! (`engine.rs`), its server over HTTP (`service.rs`), all others as the commands their users type
//! (`peers.rs`). What a subject needs lies on one `Ground`, and goes with it, also when the run is
//! interrupted.

mod annex;
mod crowd;
mod engine;
mod errand;
mod ground;
mod machine;
mod oci;
mod peers;
mod plan;
mod report;
mod rounds;
mod screen;
mod service;
mod session;
mod statistics;
mod stop;
mod suite;
mod table;
mod targets;
mod throughput;
mod walls;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

use crate::plan::{Case, Plan, Sizes, Subject};
use crate::report::{Skipped, Verdict};

const EXAMPLES: &str = "\
Examples:
  warren-bench --quick
  warren-bench --only run_true,exec_true --subject warren,bwrap,crun";

/// Measure sandboxes on this machine, Warren's beside those of bubblewrap, crun, runc, docker and
/// gVisor.
///
/// All take turns in one run on the same root file system, since only ratios taken side by side
/// mean something on a machine that does other things too. Those that are not installed are left
/// out. Targets come first; the end is a failure if one was certainly missed. A full run takes most
/// of an hour.
#[derive(Debug, Parser)]
#[command(name = "warren-bench", version, after_long_help = EXAMPLES)]
struct Bench {
    /// Where sandboxes are kept while they are measured
    #[arg(long, env = "WARREN_DATA_DIR", value_name = "DIR", default_value = "/var/lib/warren")]
    data_dir: PathBuf,
    /// The program that is measured [default: `warren` beside this one]
    #[arg(long, env = "WARREN_BIN", value_name = "PROGRAM")]
    warren: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Few rounds and 100 sandboxes alive instead of 1000, within some minutes
    #[arg(long)]
    quick: bool,
    /// Measure only this (may be repeated)
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<Case>,
    /// Measure only these (may be repeated)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    subject: Vec<Subject>,
    /// Serve a benchmark that runs elsewhere, over standard input and output
    #[arg(long, hide = true)]
    annex: bool,
}

/// Fails if a target was missed, so that the run can guard what was reached.
fn main() -> anyhow::Result<ExitCode> {
    let bench = Bench::parse();
    if bench.annex {
        return annex::serve().map(|()| ExitCode::SUCCESS);
    }
    let (json, plan) = (bench.json, bench.plan()?);
    let report = suite::measure(&plan)?;
    if json {
        screen::print(&serde_json::to_string_pretty(&report)?);
    } else {
        table::print(&report);
    }
    for verdict in targets::missed(&report.targets) {
        screen::complain(&format!("missed: {}", verdict.target));
    }
    for failed in &report.failed {
        screen::complain(&format!("failed: {}: {}", failed.subject, failed.reason));
    }
    Ok(exit_code(&report.targets, &report.failed).into())
}

/// Something that was missed or broke off is a failure; something uncertain is not.
fn exit_code(verdicts: &[Verdict], failed: &[Skipped]) -> u8 {
    (!failed.is_empty() || targets::missed(verdicts).next().is_some()).into()
}

impl Bench {
    fn plan(self) -> anyhow::Result<Plan> {
        let warren = match self.warren {
            Some(path) => path,
            None => std::env::current_exe()?.with_file_name("warren"),
        };
        let warren = warren.canonicalize().with_context(|| format!("find `{}`", warren.display()))?;
        Ok(Plan {
            warren,
            data_dir: std::path::absolute(self.data_dir)?,
            sizes: if self.quick { Sizes::QUICK } else { Sizes::FULL },
            cases: self.only,
            subjects: self.subject,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::report::{Bound, Part, Skipped, Verdict};

    #[test]
    fn the_command_line_is_sound() {
        super::Bench::command().debug_assert();
    }

    #[test]
    fn the_end_is_a_failure_if_a_target_was_certainly_missed_or_a_case_broke_off() {
        let verdict = |must_met| Verdict {
            part: Part::Speed,
            target: "faster".to_owned(),
            command: "--only run_true",
            unit: "x",
            measured: 1.0,
            uncertain: 0.0,
            bound: Bound::AtMost,
            must: 1.0,
            aim: Some(0.5),
            must_met,
            aim_met: Some(false),
        };
        let code = |verdicts: &[Option<bool>]| {
            super::exit_code(&verdicts.iter().map(|met| verdict(*met)).collect::<Vec<_>>(), &[])
        };
        assert_eq!(code(&[]), 0);
        assert_eq!(code(&[Some(true), None]), 0);
        assert_eq!(code(&[Some(true), Some(false), None]), 1);
        let broken = Skipped { subject: "rollback".to_owned(), reason: "no answer".to_owned() };
        assert_eq!(super::exit_code(&[verdict(Some(true))], &[broken]), 1);
    }
}
