//! The agent inside every sandbox. See `warren_wire::guest` for the protocol it serves.

mod agent;
mod boot;
mod connection;
mod failure;
mod files;
mod identity;
mod machine;
mod outbox;
mod outside;
mod poll;
mod process;
mod processes;
mod program;
mod ring;
mod spawn;
mod sys;
mod timers;
mod usage;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;

use agent::Doors;
use warren_wire::guest::AgentConfig;

const USAGE: &str = "usage: warren-guest (serve SOCKET_PATH | boot CONTROL_DESCRIPTOR)";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let arguments: Vec<&OsString> = arguments.iter().collect();
    let outcome = match arguments.as_slice() {
        [mode, path] if *mode == "serve" => serve(Path::new(path)),
        [mode, control] if *mode == "boot" => boot(control),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => complain(&message),
    }
}

/// Serves calls on a socket of its own.
fn serve(path: &Path) -> Result<(), String> {
    let listener =
        UnixListener::bind(path).map_err(|error| format!("listen on `{}`: {error}", path.display()))?;
    let doors = Doors { listener: OwnedFd::from(listener), lifeline: None, sudo: None, outside: None };
    agent::serve(doors, AgentConfig::default(), None)
        .map_err(|errno| format!("serve calls: {}", std::io::Error::from(errno)))
}

/// Becomes PID 1 of a sandbox as the plan on the control socket says.
fn boot(control: &OsStr) -> Result<(), String> {
    let booted = boot::run(control).ok_or("the boot plan could not be carried out")?;
    agent::serve(booted.doors, booted.config, booted.machine)
        .map_err(|errno| format!("serve calls: {}", std::io::Error::from(errno)))
}

#[expect(clippy::print_stderr, reason = "the one place where the agent speaks to whoever started it")]
fn complain(message: &str) -> ExitCode {
    eprintln!("warren-guest: {message}");
    ExitCode::FAILURE
}
