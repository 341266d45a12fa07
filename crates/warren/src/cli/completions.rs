use std::io;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::error::CliError;
use crate::global::Global;
use crate::ui;

/// Print a script that completes warren's words in a shell.
///
/// For bash: `warren completions bash > /etc/bash_completion.d/warren`. In bash, zsh and fish names
/// and ids of sandboxes, snapshots, templates, secrets and keys are completed too; the server is
/// asked for them.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, _: &Global) -> Result<(), CliError> {
        ui::write(&mut io::stdout(), &script(self.shell))
    }
}

/// The script of the words that are known, with what asks for the others.
fn script(shell: Shell) -> Vec<u8> {
    let mut known = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "warren", &mut known);
    let asking = match shell {
        Shell::Bash => include_str!("completions/words.bash"),
        Shell::Fish => include_str!("completions/words.fish"),
        Shell::Zsh => {
            known = renamed(known);
            include_str!("completions/words.zsh")
        }
        _ => "",
    };
    known.extend_from_slice(asking.as_bytes());
    known
}

/// zsh calls the function that has the name of the file, so ours takes that name.
fn renamed(known: Vec<u8>) -> Vec<u8> {
    let known = String::from_utf8_lossy(&known);
    let functions = known.split("\nif [ \"$funcstack[1]\"").next().unwrap_or(&known);
    functions.replacen("\n_warren() {", "\n_warren_known() {", 1).into_bytes()
}
