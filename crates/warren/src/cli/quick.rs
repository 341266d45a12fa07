//! Reading the commands that are called most, without the table of all commands: making that takes
//! longer than starting a small program does.
//!
//! A line that this does not understand (a mistake, a call for help) is read again with the whole
//! table, which answers.

use std::ffi::OsString;

use clap::{Args, FromArgMatches as _};

use super::{Cli, Command};
use crate::commands::{copy, create, exec, fork, list, remove, run, shell, snapshot};
use crate::global::Global;

/// Reads the command line if its command is one of these.
pub(super) fn read(words: &[OsString]) -> Option<Cli> {
    // A value of an option may be taken for a command here. The command is then unknown to the
    // table, and all is read again.
    words.iter().skip(1).filter_map(|word| word.to_str()).find_map(|word| match word {
        "run" => Some(alone::<run::Run>("run", words, Command::Run)),
        "exec" => Some(alone::<exec::Exec>("exec", words, Command::Exec)),
        "shell" => Some(alone::<shell::Shell>("shell", words, Command::Shell)),
        "create" => Some(alone::<create::Create>("create", words, Command::Create)),
        "ls" => Some(alone::<list::List>("ls", words, Command::Ls)),
        "rm" => Some(alone::<remove::Remove>("rm", words, Command::Rm)),
        "cp" => Some(alone::<copy::Copy>("cp", words, Command::Cp)),
        "snapshot" => Some(alone::<snapshot::Snapshot>("snapshot", words, Command::Snapshot)),
        "fork" => Some(alone::<fork::Fork>("fork", words, Command::Fork)),
        _ => None,
    })?
}

/// Reads the command line with a table that has one command.
fn alone<A: Args>(name: &'static str, words: &[OsString], named: fn(A) -> Command) -> Option<Cli> {
    let command = A::augment_args(clap::Command::new(name));
    let table = Global::augment_args(clap::Command::new("warren")).subcommand(command);
    let matches = table.try_get_matches_from(words).ok()?;
    let (_, own) = matches.subcommand()?;
    let command = named(A::from_arg_matches(own).ok()?);
    Some(Cli { global: Global::from_arg_matches(&matches).ok()?, command })
}
