use std::time::Duration;

use clap::Args;
use warren_core::{ErrorCode, SandboxWord};
use warren_wire::client::Client;

use crate::error::{CliError, is};
use crate::global::Global;
use crate::local::Local;
use crate::server::Place;
use crate::ui;

/// The wait for the removal of a sandbox's files, which this process does in the background.
const SETTLING: Duration = Duration::from_secs(30);

/// Remove sandboxes and all they hold.
///
/// Only the reason of their end is kept, for `warren why`. To end processes and keep files, use
/// `warren stop`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The sandboxes, as `warren ls` lists them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<SandboxWord>,
}

impl Remove {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        match global.place()? {
            Place::Server(client) => self.through(&client, global),
            Place::Machine => {
                let local = Local::instead_of_server(global)?;
                self.ids.iter().try_for_each(|word| local.destroy(&local.find(word)?))?;
                local.settle(SETTLING);
                Ok(())
            }
        }
    }

    /// Removes all that can be removed, even if others cannot.
    fn through(&self, client: &Client, global: &Global) -> Result<(), CliError> {
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
        failed.map_or(Ok(()), Err)
    }
}

/// Removes a sandbox that `warren run --keep` left and no server knows.
fn remove_kept(global: &Global, word: &SandboxWord, unknown: CliError) -> Result<(), CliError> {
    match global.kept(word)? {
        Some((local, id)) => {
            local.destroy(&id)?;
            local.settle(SETTLING);
            Ok(())
        }
        None => Err(unknown),
    }
}
