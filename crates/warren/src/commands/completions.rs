use std::io;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::error::CliError;

/// Print a script that completes warren's words in a shell.
///
/// For bash: `warren completions bash > /etc/bash_completion.d/warren`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode, CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "warren", &mut script);
        io::Write::write_all(&mut io::stdout(), &script).map_err(CliError::output)?;
        Ok(ExitCode::SUCCESS)
    }
}
