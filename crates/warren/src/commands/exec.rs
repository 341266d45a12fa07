use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warren_core::{SandboxId, parse_duration};
use warren_wire::api::{Command, Exec as ExecBody, StartProcess};
use warren_wire::client::Client;

use super::run::parse_variable;
use crate::error::CliError;
use crate::global::Global;
use crate::local::Local;
use crate::relay::{self, Streams};
use crate::server::Home;
use crate::time::whole_seconds;
use crate::ui;

/// Run a command in a sandbox that runs.
///
/// Streams and exit code as with `warren run`. If the server restarts meanwhile, the command runs
/// on and its output goes on where it was.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The sandbox, as `warren ls` lists them
    id: SandboxId,
    /// End the command after this long, such as 90s or 10m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// The user who runs it: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// The directory it starts in
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<String>,
    /// Set a variable (may be repeated)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Leave it running and print its number
    #[arg(long, short)]
    detach: bool,
    /// A name to find it by, with `warren ps` and `warren logs`
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// Print one JSON document with output and exit code instead of passing output through
    #[arg(long, conflicts_with = "detach")]
    json: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        match global.home_of(&self.id)? {
            Home::Server(client) => self.through(&client),
            Home::Machine(local) => self.directly(&local),
        }
    }

    fn through(&self, client: &Client) -> Result<ExitCode, CliError> {
        let id = self.id.as_str();
        if self.json {
            let result = client.exec(id, &self.body())?;
            ui::print_json(&result);
            return Ok(exit_code(result.exit_code));
        }
        if self.detach {
            let process = client.start_process(id, &self.start())?;
            ui::print(&process.process_id.to_string());
            return Ok(ExitCode::SUCCESS);
        }
        let outcome = relay::follow_service(client, id, self.start(), Streams::PassThrough)?;
        Ok(exit_code(outcome.exit_code()))
    }

    fn directly(&self, local: &Local) -> Result<ExitCode, CliError> {
        if self.json || self.detach {
            return Err(
                CliError::new("--json and --detach need a server").hint("start one with `warren serve`")
            );
        }
        let mut start = relay::start_of(&self.command, self.timeout);
        start.user = self.user.clone().map(Into::into);
        start.cwd = self.workdir.clone().map(Into::into);
        start.env = self.env.iter().map(|(name, value)| format!("{name}={value}").into()).collect();
        start.tag = self.tag.clone().map(Into::into);
        let outcome = relay::follow(local.dial(&self.id)?, &mut start, Streams::PassThrough)?;
        Ok(exit_code(outcome.exit_code()))
    }

    fn start(&self) -> StartProcess {
        StartProcess {
            command: Command::Words(self.command.clone()),
            env: self.env.iter().cloned().collect(),
            cwd: self.workdir.clone(),
            user: self.user.clone(),
            timeout_s: self.timeout.map(whole_seconds),
            tag: self.tag.clone(),
            ..StartProcess::default()
        }
    }

    fn body(&self) -> ExecBody {
        ExecBody {
            command: Command::Words(self.command.clone()),
            env: self.env.iter().cloned().collect(),
            cwd: self.workdir.clone(),
            user: self.user.clone(),
            timeout_s: self.timeout.map(whole_seconds),
            tag: self.tag.clone(),
            ..ExecBody::default()
        }
    }
}

/// The exit code of a command in a sandbox, for this process.
pub(crate) fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
