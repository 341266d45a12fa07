use std::process::ExitCode;

use clap::Args;
use warren_core::{Isolation, OwnerBond, SandboxId};

use crate::cli::Global;
use crate::error::CliError;
use crate::local::Local;
use crate::relay::{self, Streams};

use super::run::Machine;

/// Open a shell in a fresh sandbox, or in one that runs.
///
/// A fresh one is removed when the shell ends.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    machine: Machine,
    /// A running sandbox, as `warren ls` lists them
    #[arg(value_name = "ID")]
    id: Option<SandboxId>,
}

/// The user's login shell if the sandbox has it, else the one every sandbox has.
const SHELL: [&str; 3] = ["/bin/sh", "-c", "test -x \"$SHELL\" && exec \"$SHELL\" -l || exec /bin/sh -l"];

impl Shell {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let local = Local::open(global)?;
        let (id, fresh) = match self.id {
            Some(id) => (id, false),
            None => {
                let spec = self.machine.spec()?;
                (local.create(spec, self.machine.creation(OwnerBond::DiesWithOwner))?.id, true)
            }
        };
        let mut start = relay::start_of(&SHELL.map(str::to_owned), None);
        let outcome = relay::follow(local.dial(&id)?, &mut start, Streams::PassThrough);
        if fresh {
            local.backend.destroy(&id)?;
        }
        Ok(ExitCode::from(u8::try_from(outcome?.exit_code() & 0xff).unwrap_or(1)))
    }
}
