use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warren_core::{Isolation, SandboxId};

use crate::cli::Global;
use crate::error::CliError;
use crate::local::Local;

/// Remove sandboxes and all they hold.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The sandboxes, as `warren ls` lists them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<SandboxId>,
}

impl Remove {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let local = Local::open(global)?;
        self.ids.iter().try_for_each(|id| local.backend.destroy(id))?;
        local.backend.settle(Duration::from_secs(30));
        Ok(ExitCode::SUCCESS)
    }
}
