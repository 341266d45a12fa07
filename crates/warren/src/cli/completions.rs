use std::io;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use crate::error::CliError;
use crate::global::Global;
use crate::ui;

/// Print a script that completes warren's words in a shell.
///
/// For bash: `warren completions bash > /etc/bash_completion.d/warren`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, _: &Global) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "warren", &mut script);
        ui::write(&mut io::stdout(), &script)
    }
}
