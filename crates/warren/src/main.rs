//! The `warren` command. Each subcommand is a file in `commands/`; `local.rs` opens this machine's
//! data directory, `server.rs` finds the server, `contexts.rs` keeps names of servers, `which.rs`
//! finds the sandbox that a word means, `network.rs` reads and shows policies, `project.rs` carries
//! a directory into a sandbox and back, and
//! `travel.rs` holds what the commands about a sandbox's history share.

mod cli;
mod commands;
mod contexts;
mod copying;
mod error;
mod exit;
mod global;
mod hidden;
mod interrupt;
mod local;
mod mcp;
mod network;
mod project;
mod relay;
mod server;
mod settings;
mod time;
mod travel;
mod tunnel;
mod ui;
mod variable;
mod which;
mod word;

use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = match cli::parse(std::env::args_os().collect()) {
        Ok(parsed) => parsed,
        Err(error) => {
            drop(error.print());
            return if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if parsed.global.quiet {
        ui::be_quiet();
    }
    parsed.run().unwrap_or_else(|error| ui::report(&error))
}
