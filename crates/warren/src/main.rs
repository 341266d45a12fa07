//! The `warren` command. Each subcommand is a file in `commands/`; `local.rs` opens this machine's
//! data directory, `server.rs` finds the server, `network.rs` reads and shows policies, and
//! `travel.rs` holds what the commands about a sandbox's history share.

mod cli;
mod commands;
mod error;
mod global;
mod local;
mod network;
mod relay;
mod server;
mod settings;
mod time;
mod travel;
mod ui;
mod word;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::Cli::parse().run().unwrap_or_else(|error| ui::report(&error))
}
