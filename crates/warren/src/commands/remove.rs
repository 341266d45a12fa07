use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warren_core::{ErrorCode, SandboxId};
use warren_wire::client::Client;

use crate::cli::Global;
use crate::error::{CliError, is};
use crate::local::Local;
use crate::service::Place;
use crate::ui;

/// What is left of a sandbox is cleared away by the process that destroyed it, as long as that
/// lives.
const SETTLING: Duration = Duration::from_secs(30);

/// Remove sandboxes and all they hold.
///
/// What is left is the reason of their end: `warren why`. To end processes and keep files, use
/// `warren stop`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The sandboxes, as `warren ls` lists them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<SandboxId>,
}

impl Remove {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        match global.place()? {
            Place::Server(client) => self.through(&client, global),
            Place::Machine => {
                let local = Local::instead_of_server(global)?;
                self.ids.iter().try_for_each(|id| local.destroy(id))?;
                local.settle(SETTLING);
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    /// All that can be removed are, whatever becomes of the others.
    fn through(&self, client: &Client, global: &Global) -> Result<ExitCode, CliError> {
        let mut failed = None;
        for id in &self.ids {
            let removed = match client.delete_sandbox(id.as_str()) {
                Err(error) if is(&error, ErrorCode::SandboxNotFound) => remove_kept(global, id, error.into()),
                other => other.map(drop).map_err(CliError::from),
            };
            if let Err(error) = removed
                && let Some(earlier) = failed.replace(error)
            {
                ui::complain(&earlier.chain());
            }
        }
        failed.map_or(Ok(ExitCode::SUCCESS), Err)
    }
}

/// One that `warren run --keep` left is not the server's.
fn remove_kept(global: &Global, id: &SandboxId, unknown: CliError) -> Result<(), CliError> {
    match Local::holding(global, id)? {
        Some(local) => {
            local.destroy(id)?;
            local.settle(SETTLING);
            Ok(())
        }
        None => Err(unknown),
    }
}
