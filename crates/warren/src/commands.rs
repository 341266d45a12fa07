pub(crate) mod attempt;
pub(crate) mod bisect;
pub(crate) mod code;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod fork;
pub(crate) mod forward;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod net;
pub(crate) mod pause;
pub(crate) mod port;
pub(crate) mod processes;
pub(crate) mod promote;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod storage;
pub(crate) mod template;
pub(crate) mod tls;
pub(crate) mod tool;
pub(crate) mod transfer;
pub(crate) mod why;

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::{Cli, Command};
use crate::error::CliError;

pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let global = &cli.global;
    match cli.command {
        Command::Run(args) => args.run(global),
        Command::Serve(args) => args.run(global),
        Command::Service(args) => args.run(global),
        Command::Shell(args) => args.run(global),
        Command::Create(args) => args.run(global),
        Command::Exec(args) => args.run(global),
        Command::Ls(args) => args.run(global),
        Command::Ps(args) => args.run(global),
        Command::Kill(args) => args.run(global),
        Command::Cp(args) => args.run(global),
        Command::Logs(args) => args.run(global),
        Command::Port(args) => args.run(global),
        Command::Forward(args) => args.run(global),
        Command::Pause(args) => args.run(global),
        Command::Resume(args) => args.run(global),
        Command::Stop(args) => args.run(global),
        Command::Rm(args) => args.run(global),
        Command::Why(args) => args.run(global),
        Command::Snapshot(args) => args.run(global),
        Command::Snapshots(args) => args.run(global),
        Command::Rollback(args) => args.run(global),
        Command::Undo(args) => args.run(global),
        Command::Redo(args) => args.run(global),
        Command::Goto(args) => args.run(global),
        Command::Log(args) => args.run(global),
        Command::Blame(args) => args.run(global),
        Command::Turn(args) => args.run(global),
        Command::Fork(args) => args.run(global),
        Command::Promote(args) => args.run(global),
        Command::Try(args) => args.run(global),
        Command::Bisect(args) => args.run(global),
        Command::Diff(args) => args.run(global),
        Command::Export(args) => args.run(global),
        Command::Import(args) => args.run(global),
        Command::Tool(args) => args.run(global),
        Command::Code(args) => args.run(global),
        Command::Net(args) => args.run(global),
        Command::Secret(args) => args.run(global),
        Command::Sessions(args) => args.run(global),
        Command::Runs(args) => args.run(global),
        Command::Events(args) => args.run(global),
        Command::Keys(args) => args.run(global),
        Command::Stats(args) => args.run(global),
        Command::Health(args) => args.run(global),
        Command::Template(args) => args.run(global),
        Command::Storage(args) => args.run(global),
        Command::Config(args) => args.run(global),
        Command::Tls(args) => args.run(global),
        Command::Doctor(args) => args.run(global),
        Command::Completions(args) => args.run(),
    }
}

/// A value of the interface as its own word, such as `paused`.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
