use std::process::ExitCode;

use clap::Args;
use warren_core::{OwnerBond, SandboxId, SandboxWord};
use warren_wire::api::{Command, StartProcess};
use warren_wire::client::Client;
use warren_wire::guest::LOGIN_SHELL;

use super::exec::exit_code;
use super::run::Machine;
use crate::error::CliError;
use crate::global::Global;
use crate::local::{Local, LocalNetwork, Verbosity};
use crate::relay::{self, Streams};
use crate::server::Home;

/// Open a shell in a fresh sandbox, or in one that runs.
///
/// A fresh one needs no server and is removed when the shell ends.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    machine: Machine,
    /// A running sandbox, as `warren ls` lists them
    #[arg(value_name = "ID")]
    id: Option<SandboxWord>,
}

impl Shell {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let Some(word) = &self.id else {
            let local = self.machine.open_local(global, false)?;
            let network = self.machine.open_network(&local, Verbosity::Quiet)?;
            return self.fresh(&local, &network);
        };
        match global.home_of(word)? {
            (Home::Server(client), id) => through(&client, &id, self.machine.user()),
            (Home::Machine(local), id) => directly(&local, &id),
        }
    }

    fn fresh(&self, local: &Local, network: &LocalNetwork) -> Result<ExitCode, CliError> {
        let spec = self.machine.spec()?;
        let id = local.create(spec, self.machine.creation(OwnerBond::DiesWithOwner), network)?.id;
        let code = directly(local, &id);
        local.end(&id, network)?;
        code
    }
}

fn directly(local: &Local, id: &SandboxId) -> Result<ExitCode, CliError> {
    let mut start = relay::start_of(&LOGIN_SHELL.map(str::to_owned), None);
    let outcome = relay::follow(local.dial(id)?, &mut start, Streams::PassThrough)?;
    Ok(exit_code(outcome.exit_code()))
}

fn through(client: &Client, id: &SandboxId, user: Option<String>) -> Result<ExitCode, CliError> {
    let start = StartProcess {
        command: Command::Words(LOGIN_SHELL.map(str::to_owned).to_vec()),
        user,
        ..StartProcess::default()
    };
    let outcome = relay::follow_service(client, id.as_str(), start, Streams::PassThrough)?;
    Ok(exit_code(outcome.exit_code()))
}
