use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warren_core::{SandboxWord, parse_duration};
use warren_wire::api::{Command, ConflictRule, Fork as ForkBody, OnExpiry, Promote, StartProcess};
use warren_wire::client::Client;

use super::exec::exit_code;
use super::promote::{Extent, promote, refused};
use crate::error::CliError;
use crate::global::Global;
use crate::relay::{self, Streams};
use crate::time::whole_seconds;
use crate::travel::present::{print_conflicts, short, summary};
use crate::travel::throwaway::{Forks, with_forks};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren try \"$id\" npm install left-pad --check 'npm test'
  warren try \"$id\" --check 'make test' sh -c 'sed -i s/old/new/ src/*.c'
  warren try \"$id\" --check 'black --check .' black .
  warren try \"$id\" --path /home/user/app -- make install
  warren try \"$id\" ./risky.sh";

/// Run a command in a fork, and keep what it did only if a check passes.
///
/// Everything up to `--check` is the command, and the rest is the check: one word is a line for the
/// shell, several are a program and its arguments. If the command has a `--check` of its own, give
/// the check before the command; then all that follows is the command. Without a check, the command
/// itself must succeed.
///
/// Both run in a fork with their output passed through. If they succeed, the fork's changes are
/// merged into the sandbox, with --path those at or below it. If not, the sandbox stays as it was,
/// and the exit code is that of the command or check that failed. The fork is removed in any case.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Try {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// A line for the shell that must succeed for the changes to be kept
    #[arg(long, value_name = "CMD2")]
    check: Option<String>,
    /// End the command, or the check, after this long, such as 90s or 10m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION", default_value = "1h")]
    timeout: Duration,
    /// The user who runs them: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// The directory they start in
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<String>,
    /// Take the fork's paths where the sandbox changed the same ones meanwhile
    #[arg(long)]
    theirs: bool,
    /// End commands that run in the sandbox when merging
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    extent: Extent,
    /// The command and its arguments, and with --check the check
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The fork lives this much longer than it may be needed, in case nobody removes it.
const SPARE: Duration = Duration::from_secs(600);

impl Try {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let plan = plan(self.check.as_deref(), &self.command)?;
        let (client, id) = global.sandbox(&self.id)?;
        let this = Self { id: id.into(), ..self };
        let remover = client.clone();
        with_forks(
            move |id| drop(remover.delete_sandbox(id)),
            move |forks| this.attempt(&client, forks, &plan),
        )
    }

    fn attempt(&self, client: &Client, forks: &Forks, plan: &Plan) -> Result<ExitCode, CliError> {
        let body = ForkBody {
            client: Some("warren try".to_owned()),
            ttl_s: Some(whole_seconds(self.timeout.saturating_mul(2).saturating_add(SPARE))),
            on_expiry: Some(OnExpiry::Delete),
            ..ForkBody::default()
        };
        let fork = forks.first_of(client.fork_sandbox(self.id.as_str(), &body)?)?;
        let start = |command: &Command| StartProcess {
            command: command.clone(),
            cwd: self.workdir.clone(),
            user: self.user.clone(),
            timeout_s: Some(whole_seconds(self.timeout)),
            ..StartProcess::default()
        };
        let ran = relay::follow_service(client, &fork.id, start(&plan.command), Streams::PassThrough)?;
        if ran.exit_code() != 0 {
            ui::say("warren: the command failed, and nothing was kept");
            return Ok(exit_code(ran.exit_code()));
        }
        if let Some(check) = &plan.check {
            let checked = relay::watch_service(client, &fork.id, start(check))?;
            if checked.exit_code() != 0 {
                ui::say("warren: the check failed, and nothing was kept");
                return Ok(exit_code(checked.exit_code()));
            }
        }
        self.keep(client, &fork.id)
    }

    fn keep(&self, client: &Client, fork: &str) -> Result<ExitCode, CliError> {
        let conflicts = if self.theirs { ConflictRule::Theirs } else { ConflictRule::Refuse };
        let into = Some(self.id.to_string());
        let body = Promote {
            into,
            apply: true,
            conflicts,
            force: self.force,
            path: self.extent.path.clone(),
            leave_ignored: self.extent.gitignore,
            exclude: self.extent.exclude.clone(),
        };
        match promote(client, fork, &body)? {
            Ok(promoted) if promoted.changes.is_empty() => {
                let below = self.extent.path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default();
                ui::say(&format!("warren: it changed nothing{below}"));
            }
            Ok(promoted) => {
                let was = promoted.applied.map(|applied| short(&applied.safety.snapshot_id));
                let was = was.map(|was| format!("; before it: {was}")).unwrap_or_default();
                let what = summary(&promoted.changes, promoted.truncated);
                ui::say(&format!("warren: kept, {what}{was}"));
            }
            Err(conflicts) => {
                print_conflicts(&conflicts);
                return Err(refused(conflicts.len()));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The command and its check.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    command: Command,
    check: Option<Command>,
}

/// Splits the words into the command and the check.
fn plan(check: Option<&str>, words: &[String]) -> Result<Plan, CliError> {
    if let Some(line) = check {
        let check = Some(Command::Shell(line.to_owned()));
        return Ok(Plan { command: Command::Words(words.to_vec()), check });
    }
    let mut parts = words.split(|word| word == "--check");
    let (command, check) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return Err(CliError::new("there is more than one --check after the command")
            .hint("write the check before it: warren try SBX --check 'CMD2' -- CMD"));
    }
    if command.is_empty() {
        return Err(CliError::new("there is no command before --check"));
    }
    let check = match check {
        None => None,
        Some([]) => return Err(CliError::new("--check is followed by no command")),
        Some([line]) => Some(Command::Shell(line.clone())),
        Some(words) => Some(Command::Words(words.to_vec())),
    };
    Ok(Plan { command: Command::Words(command.to_vec()), check })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_check_follows_the_command() {
        let one = plan(None, &words("make all --check true")).unwrap();
        assert_eq!(one.command, Command::Words(words("make all")));
        assert_eq!(one.check, Some(Command::Shell("true".to_owned())));
        let many = plan(None, &words("make --check make test")).unwrap();
        assert_eq!(many.check, Some(Command::Words(words("make test"))));
        assert_eq!(plan(None, &words("make")).unwrap().check, None);
    }

    #[test]
    fn a_check_before_the_dashes_leaves_the_command_alone() {
        let plan = plan(Some("pytest"), &words("black --check .")).unwrap();
        assert_eq!(plan.command, Command::Words(words("black --check .")));
        assert_eq!(plan.check, Some(Command::Shell("pytest".to_owned())));
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        for text in ["a --check b --check c", "--check b", "a --check"] {
            assert!(plan(None, &words(text)).is_err(), "{text}");
        }
    }
}
