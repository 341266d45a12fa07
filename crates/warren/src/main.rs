//! The `warren` command. Each subcommand is a file in `commands/`; `local.rs` opens this machine's
//! data directory, `service.rs` finds the server, `network.rs` reads and shows policies, and
//! `travel.rs` holds what the commands about a sandbox's history share.

mod cli;
mod commands;
mod error;
mod local;
mod network;
mod relay;
mod service;
mod time;
mod travel;
mod ui;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::dispatch(cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
