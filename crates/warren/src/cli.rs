//! The command line: the options of every command, and the commands.

mod completions;
mod examples;
mod habits;
mod help;
mod manual;
mod quick;
mod words;

use std::ffi::OsString;
use std::process::{ExitCode, Termination};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use self::completions::Completions;
use self::manual::Manual;
use self::words::CompleteWords;
use crate::commands::{
    attempt, backends, bisect, code, config, context, copy, create, default, diff, doctor, events, exec,
    fork, forward, history, inspect, keys, list, logs, mcp, move_sandbox, net, pause, port, processes,
    promote, remove, rename, run, secret, serve, service, sessions, shell, snapshot, stats, storage, sync,
    template, tls, tool, transfer, up, upgrade, why,
};
use crate::error::CliError;
use crate::global::Global;

/// Every agent its own computer.
///
/// Warren runs programs in isolated machines that start in milliseconds. `warren run` needs no
/// server, no image and no download: it makes a fresh machine, runs one command in it, and takes it
/// away again. `warren serve` keeps machines for as long as they are needed; most other commands
/// talk to it.
#[derive(Debug, Parser)]
#[command(name = "warren", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Reads the command line, the program's name first.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    if let Some(read) = quick::read(&words) {
        return Ok(read);
    }
    parse_by_whole_table(words)
}

fn parse_by_whole_table(words: Vec<OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(&words).or_else(|error| match error.kind() {
        ErrorKind::InvalidSubcommand => habits::read(words, error),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(help::improved(Cli::command()).try_get_matches_from(words).err().unwrap_or(error))
        }
        _ => Err(error),
    })
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
    Up(up::Up),
    Down(up::Down),
    Create(create::Create),
    Exec(exec::Exec),
    #[command(alias = "list")]
    Ls(list::List),
    #[command(visible_alias = "show", alias = "describe")]
    Inspect(inspect::Inspect),
    Ps(processes::Processes),
    Kill(processes::Kill),
    Cp(copy::Copy),
    Sync(sync::Sync),
    Logs(logs::Logs),
    Port(port::Port),
    Forward(forward::Forward),
    Pause(pause::Pause),
    #[command(visible_alias = "start", alias = "unpause")]
    Resume(pause::Resume),
    Stop(pause::Stop),
    #[command(aliases = ["delete", "remove"])]
    Rm(remove::Remove),
    Rename(rename::Rename),
    Move(move_sandbox::Move),
    Default(default::Default),
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
    Mcp(mcp::Mcp),
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
    Backends(backends::Backends),
    #[command(subcommand)]
    Template(template::Template),
    #[command(subcommand)]
    Storage(storage::Storage),
    #[command(subcommand)]
    Config(config::Config),
    #[command(subcommand)]
    Context(context::Contextual),
    #[command(subcommand)]
    Tls(tls::Tls),
    Doctor(doctor::Doctor),
    Upgrade(upgrade::Upgrade),
    Completions(Completions),
    #[command(hide = true)]
    CompleteWords(CompleteWords),
    #[command(hide = true)]
    Man(Manual),
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
