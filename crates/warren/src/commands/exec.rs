use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warren_core::{SandboxId, SandboxWord, parse_duration};
use warren_wire::api::{Command, Exec as ExecBody, StartProcess};
use warren_wire::client::Client;

use crate::error::CliError;
use crate::global::Global;
use crate::local::Local;
use crate::relay::{self, TerminalFlags};
use crate::server::Home;
use crate::time::whole_seconds;
use crate::ui;
use crate::variable::{self, Variable};

const EXAMPLES: &str = "\
Examples:
  warren exec \"$id\" ls -la
  warren exec -it \"$id\" bash
  warren exec -w /srv -e DEBUG=1 \"$id\" make test
  warren exec -d --tag web \"$id\" python3 -m http.server && warren logs -f \"$id\" tag:web";

/// Run a command in a sandbox that runs.
///
/// Streams and exit code as with `warren run`. If the server restarts meanwhile, the command runs
/// on and its output goes on where it was.
///
/// All from the command's name on belongs to the command. `--` may stand before it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Exec {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// End the command after this long, such as 90s or 10m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// The user who runs it: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// The directory it starts in
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<String>,
    /// Set a variable; without a value it has the one it has here (may be repeated)
    #[arg(long, short, value_name = "NAME[=VALUE]", value_parser = Variable::parse)]
    env: Vec<Variable>,
    #[command(flatten)]
    terminal: TerminalFlags,
    /// Leave it running and print its number
    #[arg(long, short, conflicts_with_all = ["interactive", "tty"])]
    detach: bool,
    /// A name to find it by, with `warren ps` and `warren logs`
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// Print one JSON document with output and exit code instead of passing output through
    #[arg(long, conflicts_with = "detach")]
    json: bool,
    /// The command and its arguments; options of warren come before it
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let ended = match global.home_of(&self.id)? {
            (Home::Server(client), id) => self.through(&client, id.as_str()),
            (Home::Machine(local), id) => self.directly(&local, &id),
        };
        ended.map_err(|error| error.of_command(&self.command))
    }

    fn through(&self, client: &Client, id: &str) -> Result<ExitCode, CliError> {
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
        let outcome = relay::follow_service(client, id, self.start(), self.terminal.streams())?;
        Ok(exit_code(outcome.exit_code()))
    }

    fn directly(&self, local: &Local, id: &SandboxId) -> Result<ExitCode, CliError> {
        if self.json || self.detach {
            return Err(
                CliError::new("--json and --detach need a server").hint("start one with `warren serve`")
            );
        }
        let mut start = relay::start_of(&self.command, self.timeout);
        start.user = self.user.clone().map(Into::into);
        start.cwd = self.workdir.clone().map(Into::into);
        start.env =
            variable::settled(&self.env).map(|(name, value)| format!("{name}={value}").into()).collect();
        start.tag = self.tag.clone().map(Into::into);
        let outcome = relay::follow(local.dial(id)?, &mut start, self.terminal.streams())?;
        Ok(exit_code(outcome.exit_code()))
    }

    fn start(&self) -> StartProcess {
        StartProcess {
            command: Command::Words(self.command.clone()),
            env: variable::settled(&self.env).collect(),
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
            env: variable::settled(&self.env).collect(),
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
