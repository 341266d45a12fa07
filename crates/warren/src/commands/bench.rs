use std::process::ExitCode;

use clap::Args;

use crate::bench::{self, Case, Plan, Sizes, Subject};
use crate::cli::Global;
use crate::error::CliError;
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren bench --quick
  warren bench --only run_true,exec_true --subject warren,bwrap,crun";

/// Measure sandboxes on this machine, Warren's beside those of bubblewrap, crun, runc, docker and gVisor.
///
/// All take turns in one run on the same root file system, since only ratios taken side by side mean something on a
/// machine that does other things too. Those that are not installed are left out. A full run takes several minutes.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Bench {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Few rounds and 100 sandboxes alive instead of 1000, within a minute
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

impl Bench {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        if self.annex {
            return bench::annex::serve();
        }
        let sizes = if self.quick { Sizes::QUICK } else { Sizes::FULL };
        let report = bench::measure(global, &Plan { sizes, cases: self.only, subjects: self.subject })?;
        if self.json {
            ui::print_json(&report);
        } else {
            bench::table::print(&report);
        }
        Ok(ExitCode::SUCCESS)
    }
}
