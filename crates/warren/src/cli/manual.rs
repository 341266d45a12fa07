use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::Cli;
use crate::error::CliError;
use crate::global::Global;

/// Write the manual's pages, one for each command, into a directory.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// A directory that is there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Manual {
    pub(super) fn run(self, _: &Global) -> Result<(), CliError> {
        clap_mangen::generate_to(Cli::command(), &self.directory)
            .map_err(|error| CliError::at(&self.directory, error))
    }
}
