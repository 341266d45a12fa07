use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    attempt, bisect, code, completions, config, copy, create, diff, doctor, events, exec, fork, forward,
    history, keys, list, logs, net, pause, port, processes, promote, remove, run, secret, serve, service,
    sessions, shell, snapshot, stats, storage, template, tls, tool, transfer, why,
};

const EXAMPLES: &str = "\
Try:
  warren run -- python3 -c 'print(\"hello\")'
  warren shell
  warren serve
  warren doctor";

/// Every agent its own computer.
///
/// Warren runs programs in isolated machines that start in milliseconds. `warren run` needs no
/// server, no image and no download: it makes a fresh machine, runs one command in it, and takes it
/// away again. `warren serve` keeps machines for as long as they are needed; most other commands
/// talk to it.
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
    /// Where sandboxes and templates are kept [default: /var/lib/warren]
    #[arg(long, global = true, env = "WARREN_DATA_DIR", value_name = "DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The server to talk to, such as http://127.0.0.1:7777 [default: the one of the data
    /// directory]
    #[arg(long, global = true, env = "WARREN_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The key to show to the server [default: the local server's]
    #[arg(long, global = true, env = "WARREN_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// End the process right after the named step (tests of crash recovery; debug builds only)
    #[arg(long, global = true, env = "WARREN_CRASH_AT", hide = true)]
    pub(crate) crash_at: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Serve(serve::Serve),
    #[command(subcommand)]
    Service(service::Service),
    Shell(shell::Shell),
    #[command(visible_alias = "up")]
    Create(create::Create),
    Exec(exec::Exec),
    Ls(list::List),
    Ps(processes::Processes),
    Kill(processes::Kill),
    Cp(copy::Copy),
    Logs(logs::Logs),
    Port(port::Port),
    Forward(forward::Forward),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Stop(pause::Stop),
    Rm(remove::Remove),
    Why(why::Why),
    Snapshot(snapshot::Snapshot),
    Snapshots(snapshot::Snapshots),
    Rollback(history::Rollback),
    Undo(history::Undo),
    Redo(history::Redo),
    Goto(history::Goto),
    Log(history::Log),
    Blame(history::Blame),
    Turn(history::Turn),
    Fork(fork::Fork),
    Promote(promote::Promote),
    Try(attempt::Try),
    Bisect(bisect::Bisect),
    Diff(diff::Diff),
    Export(transfer::Export),
    Import(transfer::Import),
    Tool(tool::Tool),
    #[command(subcommand)]
    Code(code::Code),
    Net(net::Net),
    Secret(secret::Secrets),
    Sessions(sessions::Sessions),
    Runs(sessions::Runs),
    Events(events::Events),
    #[command(subcommand)]
    Keys(keys::Keys),
    Stats(stats::Stats),
    Health(stats::Health),
    #[command(subcommand)]
    Template(template::Template),
    #[command(subcommand)]
    Storage(storage::Storage),
    #[command(subcommand)]
    Config(config::Config),
    #[command(subcommand)]
    Tls(tls::Tls),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
