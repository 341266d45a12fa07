use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warren_core::{SandboxId, parse_duration};

use crate::cli::Global;
use crate::error::CliError;
use crate::local::Local;
use crate::relay::{self, Streams};

/// Run a command in a sandbox that was kept.
///
/// Streams and exit code as with `warren run`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The sandbox, as `warren ls` lists them
    id: SandboxId,
    /// End the command after this long, such as 90s or 10m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// Who runs it: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// Where it starts
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let local = Local::open(global)?;
        let mut start = relay::start_of(&self.command, self.timeout);
        start.user = self.user.map(Into::into);
        start.cwd = self.workdir.map(Into::into);
        let outcome = relay::follow(local.dial(&self.id)?, &mut start, Streams::PassThrough)?;
        Ok(ExitCode::from(u8::try_from(outcome.exit_code() & 0xff).unwrap_or(1)))
    }
}
