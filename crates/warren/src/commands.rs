pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod list;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod template;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::error::CliError;

pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let global = &cli.global;
    match cli.command {
        Command::Run(args) => args.run(global),
        Command::Shell(args) => args.run(global),
        Command::Exec(args) => args.run(global),
        Command::Ls(args) => args.run(global),
        Command::Rm(args) => args.run(global),
        Command::Template(args) => args.run(global),
        Command::Doctor(args) => args.run(global),
        Command::Bench(args) => args.run(global),
    }
}
