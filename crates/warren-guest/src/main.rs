//! The agent inside every sandbox. See `warren_wire::guest` for the protocol it serves.

mod agent;
mod boot;
mod connection;
mod door;
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
mod relay;
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

use boot::{Booted, Listener};

const USAGE: &str = "usage: warren-guest (serve (SOCKET_PATH | --fd LISTENER) [--plan (DESCRIPTOR | PATH)] \
                     | serve SOCKET_PATH --take-plan PATH | relay SOCKET_PATH | door SOCKET_PATH | boot CONTROL_DESCRIPTOR | stage CONTROL_DESCRIPTOR)";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let arguments: Vec<&OsString> = arguments.iter().collect();
    let outcome = match arguments.as_slice() {
        [mode, rest @ ..] if *mode == "serve" => serve(rest),
        [mode, path] if *mode == "door" => door(path),
        [mode, path] if *mode == "relay" => relay::carry(Path::new(path)),
        [mode, control] if *mode == "boot" => boot(control),
        [mode, control] if *mode == "stage" => stage(control),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => complain(&message),
    }
}

/// Serves calls on a socket of its own, or on one that it was given.
fn serve(words: &[&OsString]) -> Result<(), String> {
    let (listener, plan) = match words {
        [path] => (listen(path)?, None),
        [path, flag, plan] if *flag == "--take-plan" => return serve_once(path, plan),
        [flag, number] if *flag == "--fd" => (inherited(number)?, None),
        [path, flag, plan] if *flag == "--plan" => (listen(path)?, Some(plan)),
        [flag, number, second, plan] if *flag == "--fd" && *second == "--plan" => {
            (inherited(number)?, Some(plan))
        }
        _ => return Err(USAGE.to_owned()),
    };
    let booted =
        boot::serve(listener, plan.map(|plan| plan.as_os_str())).map_err(|refusal| refusal.to_string())?;
    live(booted)
}

/// Serves calls by a plan that is in nobody's way afterwards.
fn serve_once(path: &OsStr, plan: &OsStr) -> Result<(), String> {
    let booted = boot::serve(listen(path)?, Some(plan)).map_err(|refusal| refusal.to_string())?;
    std::fs::remove_file(plan).map_err(|error| format!("take the plan away: {error}"))?;
    live(booted)
}

fn listen(path: &OsStr) -> Result<Listener, String> {
    let socket = UnixListener::bind(path)
        .map_err(|error| format!("listen on `{}`: {error}", Path::new(path).display()))?;
    Ok(Listener::Own(OwnedFd::from(socket), path.into()))
}

fn inherited(number: &OsStr) -> Result<Listener, String> {
    let number = number.to_str().and_then(|text| text.parse().ok()).ok_or(USAGE)?;
    Ok(Listener::Inherited(number))
}

/// Stands in the networks that it is called to, one after another.
fn door(path: &OsStr) -> Result<(), String> {
    let listener = UnixListener::bind(path)
        .map_err(|error| format!("listen on `{}`: {error}", Path::new(path).display()))?;
    door::serve(&listener)
}

/// Mounts a sandbox's root and becomes the runtime that isolates it.
fn stage(control: &OsStr) -> Result<(), String> {
    Err(match boot::stage::run(control) {
        Some(errno) => format!("execute the runtime: {}", std::io::Error::from(errno)),
        None => "the stage's plan could not be carried out".to_owned(),
    })
}

/// Becomes PID 1 of a sandbox as the plan on the control socket says.
fn boot(control: &OsStr) -> Result<(), String> {
    let booted = boot::run(control).ok_or("the boot plan could not be carried out")?;
    live(booted)
}

fn live(booted: Booted) -> Result<(), String> {
    agent::serve(booted.doors, booted.config, booted.machine)
        .map_err(|errno| format!("serve calls: {}", std::io::Error::from(errno)))
}

#[expect(clippy::print_stderr, reason = "the one place where the agent speaks to whoever started it")]
fn complain(message: &str) -> ExitCode {
    eprintln!("warren-guest: {message}");
    ExitCode::FAILURE
}
