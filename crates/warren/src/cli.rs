//! The command line: the options of every command, and the commands.

mod completions;

use std::process::{ExitCode, Termination};

use clap::{Parser, Subcommand};

use self::completions::Completions;
use crate::commands::{
    attempt, bisect, code, config, copy, create, diff, doctor, events, exec, fork, forward, history, keys,
    list, logs, net, pause, port, processes, promote, remove, run, secret, serve, service, sessions, shell,
    snapshot, stats, storage, template, tls, tool, transfer, why,
};
use crate::error::CliError;
use crate::global::Global;

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

/// The commands and their arguments.
macro_rules! commands {
    ($($(#[$clap:meta])* $name:ident($args:ty),)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command { $($(#[$clap])* $name($args),)* }

        impl Cli {
            pub(crate) fn run(self) -> Result<ExitCode, CliError> {
                match self.command {
                    $(Command::$name(args) => args.run(&self.global).map(Termination::report),)*
                }
            }
        }
    };
}

commands! {
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
    Completions(Completions),
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
