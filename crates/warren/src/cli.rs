use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{bench, doctor, exec, list, remove, run, shell, template};

const EXAMPLES: &str = "\
Try:
  warren run -- python3 -c 'print(\"hello\")'
  warren shell
  warren doctor";

/// Every agent its own computer.
///
/// Warren runs programs in isolated machines that start in milliseconds. `warren run` needs no server, no image and no
/// download: it makes a fresh machine, runs one command in it, and takes it away again.
#[derive(Debug, Parser)]
#[command(name = "warren", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Where sandboxes and templates are kept [default: /var/lib/warren for root, else ~/.local/share/warren]
    #[arg(long, global = true, env = "WARREN_DATA_DIR", value_name = "DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// End the process right after the named step (tests of crash recovery; debug builds only)
    #[arg(long, global = true, env = "WARREN_CRASH_AT", hide = true)]
    pub(crate) crash_at: Option<warren_isolate::CrashPoint>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Shell(shell::Shell),
    Exec(exec::Exec),
    Ls(list::List),
    Rm(remove::Remove),
    #[command(subcommand)]
    Template(template::Template),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
