mod background;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use warren_core::{
    ByteSize, Cpus, IsolationKind, Limits, Mount, MountAccess, OwnerBond, Profile, RootImage, RootImageName,
    SandboxId, SandboxName, SandboxSpec, TemplateName, Usage, parse_duration,
};
use warren_wire::api::{self, CreateSandbox, Tier};
use warren_wire::guest::ExitCause;

use super::exec::exit_code;
use crate::error::CliError;
use crate::global::Global;
use crate::interrupt::Noted;
use crate::local::{Creation, Local, LocalNetwork, Verbosity, Wall};
use crate::network::{self, NetworkFlags};
use crate::relay::{self, Outcome, Streams, TerminalFlags};
use crate::tunnel::{Agent, Doors, Pair, parse_pair};
use crate::ui;
use crate::variable::{self, Variable};
use crate::word::{parse_word, word};

const EXAMPLES: &str = "\
Examples:
  warren run python3 script.py < input.txt
  warren run -it bash
  warren run -m 512m --cpus 1 --timeout 60s make test
  warren run -v \"$PWD:/work\" -w /work pytest
  warren run --backend native --strict make test
  warren run -p 8080:80 python3 -m http.server 80
  warren run --net allow=pypi.org,files.pythonhosted.org pip download requests
  warren run --net learn make deps        at the end, the smallest policy for what it reached
  warren run --json ./flaky-test | jq .exit_code";

/// Run one command in a fresh sandbox and remove it afterwards.
///
/// Standard input, output and error pass through unchanged, and the command's exit code is
/// warren's. On a terminal the command gets one too. Exit codes of warren's own: 124 the time limit
/// ended it, 125 warren failed, 126 the command cannot be executed, 127 it was not found, 137 it
/// was killed, by its memory limit for instance.
///
/// With --json, `cause` is `exited`, `signalled`, `timed_out`, `oom` (its memory limit) or
/// `sandbox_ended`.
///
/// All from the command's name on belongs to the command. `--` may stand before it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Run {
    #[command(flatten)]
    machine: Machine,
    /// End the command after this long, such as 90s or 10m
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
    /// Leave the sandbox running afterwards and print its id on standard error
    #[arg(long)]
    keep: bool,
    /// A name to call it by afterwards
    #[arg(long, value_name = "NAME", requires = "keep")]
    name: Option<SandboxName>,
    /// Leave the command running in a sandbox that stays, and print the sandbox's id
    #[arg(long, short, conflicts_with_all = ["keep", "interactive", "tty"])]
    detach: bool,
    /// Reach a port of the sandbox on this machine's loopback while the command runs (may be
    /// repeated)
    #[arg(long, short, value_name = "[LOCAL:]PORT", value_parser = parse_pair)]
    publish: Vec<Pair>,
    #[command(flatten)]
    terminal: TerminalFlags,
    /// Remove the sandbox when the command ends, as happens anyway
    #[arg(long, conflicts_with_all = ["keep", "detach"])]
    rm: bool,
    /// Say on standard error what network it has, and what of it is refused
    #[arg(long)]
    verbose: bool,
    /// Print one JSON document with output, exit code and usage instead of passing output through
    #[arg(long)]
    json: bool,
    /// The command and its arguments; options of warren come before it
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The options that describe a sandbox.
#[derive(Debug, Args)]
pub(crate) struct Machine {
    /// The template that the sandbox starts from [default: host]
    #[arg(long, value_name = "NAME")]
    template: Option<TemplateName>,
    /// The image of its backend that the sandbox starts from, such as python:3.12 of Docker
    #[arg(long, value_name = "IMAGE", conflicts_with = "template")]
    image: Option<RootImageName>,
    /// Memory at most, such as 512m or 4g [default: 4g]
    #[arg(long, short, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Processors at most, such as 2 or 0.5 [default: 2]
    #[arg(long, value_name = "COUNT")]
    cpus: Option<Cpus>,
    /// Processes and threads at most [default: 1024]
    #[arg(long, value_name = "COUNT")]
    pids: Option<u32>,
    /// Disk at most, a hard limit [default: 10g, as hard as the host can make it]
    #[arg(long, value_name = "SIZE")]
    disk: Option<ByteSize>,
    /// Files at most, a hard limit [default: 1000000]
    #[arg(long, value_name = "COUNT")]
    inodes: Option<u64>,
    /// Set a variable; without a value it has the one it has here (may be repeated)
    #[arg(long, short, value_name = "NAME[=VALUE]", value_parser = Variable::parse)]
    env: Vec<Variable>,
    /// Where the command starts, inside the sandbox
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<PathBuf>,
    /// The user who runs it: a name, uid or uid:gid of the template
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// Give the sandbox a host directory or file (may be repeated)
    #[arg(long, short = 'v', visible_alias = "volume", value_name = "SRC:DST[:ro]", value_parser = parse_mount)]
    mount: Vec<Mount>,
    /// The sandbox's own name
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
    #[command(flatten)]
    network: NetworkFlags,
    /// Leave out ptrace, process_vm access, modify_ldt, splice and vmsplice as well
    #[arg(long)]
    strict: bool,
    /// The backend that isolates it [default: the first that can]
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// The tier that its backend must have: namespaces, user_kernel, vm or remote
    #[arg(long, value_name = "TIER", value_parser = parse_word::<Tier>)]
    tier: Option<Tier>,
}

impl Machine {
    pub(crate) fn spec(&self) -> Result<SandboxSpec, CliError> {
        let defaults = Limits::default();
        let mut spec = SandboxSpec::new(self.template.clone().unwrap_or_else(TemplateName::host));
        spec.image = self.image.clone().map(RootImage::from);
        spec.limits = Limits {
            memory: self.memory.unwrap_or(defaults.memory),
            cpus: self.cpus.unwrap_or(defaults.cpus),
            pids: self.pids.unwrap_or(defaults.pids),
            disk: self.disk.unwrap_or(defaults.disk),
            inodes: self.inodes.unwrap_or(defaults.inodes),
            ..defaults
        };
        spec.env = variable::settled(&self.env).collect();
        spec.user.clone_from(&self.user);
        spec.workdir.clone_from(&self.workdir);
        spec.hostname.clone_from(&self.hostname);
        spec.profile = if self.strict { Profile::Strict } else { Profile::Standard };
        spec.mounts = self.mount.iter().map(canonical).collect::<Result<_, _>>()?;
        Ok(spec)
    }

    /// The same for a server, which has its own defaults.
    pub(crate) fn body(&self) -> Result<CreateSandbox, CliError> {
        let mebibytes = |size: ByteSize| size.0.div_ceil(1 << 20);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mount = |mount: &Mount| {
            // The server may be on another machine, where an absolute path is its own.
            let source = if mount.source.is_absolute() { mount.clone() } else { canonical(mount)? };
            let read_only = mount.access == MountAccess::ReadOnly;
            Ok(api::Mount { source: text(&source.source), target: text(&mount.target), read_only })
        };
        Ok(CreateSandbox {
            template: self.template.as_ref().map(ToString::to_string),
            image: self.image.as_ref().map(ToString::to_string),
            memory_mib: self.memory.map(mebibytes),
            cpus: self.cpus.map(|cpus| f64::from(cpus.milli()) / 1000.0),
            pids: self.pids,
            disk_mib: self.disk.map(mebibytes),
            inodes: self.inodes,
            env: variable::settled(&self.env).collect(),
            user: self.user.clone(),
            workdir: self.workdir.as_deref().map(text),
            hostname: self.hostname.clone(),
            network: self.network.policy().map(|policy| network::request(&policy)),
            mounts: self.mount.iter().map(mount).collect::<Result<_, CliError>>()?,
            profile: self.strict.then_some(api::Profile::Strict),
            backend: self.backend.clone(),
            tier: self.tier,
            ..CreateSandbox::default()
        })
    }

    /// Opens this machine with the wall that was asked for, for a sandbox that stays or not.
    pub(crate) fn open_local(&self, global: &Global, stays: bool) -> Result<Local, CliError> {
        let tier =
            self.tier.map(|tier| word(&tier).parse::<IsolationKind>()).transpose().map_err(CliError::new)?;
        let template = self.template.clone().unwrap_or_else(TemplateName::host);
        let wall = Wall { backend: self.backend.as_deref(), tier, template: &template, stays };
        Local::behind(global, wall)
    }

    /// Opens the network that was asked for.
    pub(crate) fn open_network(&self, local: &Local, verbosity: Verbosity) -> Result<LocalNetwork, CliError> {
        LocalNetwork::open(local, self.network.policy(), verbosity)
    }

    pub(crate) fn user(&self) -> Option<String> {
        self.user.clone()
    }

    pub(crate) fn creation(&self, owner: OwnerBond) -> Creation {
        Creation { owner, disk_limit_required: self.disk.is_some() || self.inodes.is_some() }
    }
}

/// Why the command ended, in the words of `/v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Cause {
    Exited,
    Signalled,
    TimedOut,
    /// The sandbox had no memory left, and a process of it was killed.
    Oom,
    SandboxEnded,
}

/// The document that `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    sandbox_id: String,
    exit_code: i32,
    cause: Cause,
    stdout: String,
    stderr: String,
    /// Output beyond what a report holds was left out.
    truncated: bool,
    duration_ms: u64,
    usage: Usage,
    /// The mode of its network.
    network: String,
    /// The reason why it had no network, unless that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_network: Option<String>,
}

impl Run {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        if self.detach {
            return self.in_background(global);
        }
        let mut spec = self.machine.spec()?;
        let local = Arc::new(self.machine.open_local(global, self.keep)?);
        let naming = self.name.as_ref().map(|name| local.give(name, &mut spec)).transpose()?;
        let owner = if self.keep { OwnerBond::Outlives } else { OwnerBond::DiesWithOwner };
        let limits = spec.limits.clone();
        let network = self.open_network(&local)?;
        // Nobody relays signals yet. What was made meanwhile is taken away, not left.
        let noted = Noted::begin().map_err(CliError::new)?;
        let created = local.create(spec, self.machine.creation(owner), &network)?;
        drop(naming);
        if noted.end() {
            local.end(&created.id, &network)?;
            return Err(CliError::interrupted());
        }
        let outcome = self.follow(&local, &created.id);
        let usage = local.usage(&created.id);
        network.settle();
        if self.keep {
            let called = self.name.as_ref().map_or(created.id.as_str(), SandboxName::as_str);
            let id = &created.id;
            ui::say(&format!("warren: kept as {id}; `warren shell {called}`, `warren rm {called}`"));
        } else {
            local.end(&created.id, &network)?;
        }
        let outcome = outcome.map_err(|error| error.of_command(&self.command))?;
        let cause = cause(&outcome, &usage);
        if let Some(reason) = explain(cause, self.timeout, &limits) {
            ui::complain(&reason);
        }
        if let Some(learned) = network.learned() {
            ui::say(&format!("warren: what it reached: {learned}"));
        }
        let code = outcome.exit_code();
        if self.json {
            ui::print_json(&Report {
                sandbox_id: created.id.to_string(),
                exit_code: code,
                cause,
                stdout: String::from_utf8_lossy(&outcome.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&outcome.stderr).into_owned(),
                truncated: outcome.truncated,
                duration_ms: outcome.exit.map_or(0, |exit| exit.duration_ms),
                usage,
                network: word(&network.mode()),
                no_network: network.missing,
            });
        }
        Ok(exit_code(code))
    }

    fn follow(&self, local: &Arc<Local>, id: &SandboxId) -> Result<Outcome, CliError> {
        let doors = Doors::open(&self.publish, None, id)?;
        doors.serve(&Arc::new(Agent { local: Arc::clone(local), id: id.clone() }));
        let streams = if self.json { Streams::Captured } else { self.terminal.streams() };
        relay::follow(local.dial(id)?, &mut relay::start_of(&self.command, self.timeout), streams)
    }

    /// The network of the sandbox. One that is kept has none: nobody would look after its link.
    fn open_network(&self, local: &Local) -> Result<LocalNetwork, CliError> {
        if !self.keep {
            let verbosity = if self.verbose { Verbosity::Verbose } else { Verbosity::Quiet };
            return self.machine.open_network(local, verbosity);
        }
        self.kept_network()
    }

    fn kept_network(&self) -> Result<LocalNetwork, CliError> {
        match self.machine.network.policy() {
            Some(policy) if !policy.is_none() => {
                Err(CliError::new("--keep: the network of a sandbox ends with the command that made it")
                    .hint("`warren create --net …` makes one that stays, with a server to look after it"))
            }
            Some(_) | None => Ok(LocalNetwork::closed()),
        }
    }
}

fn cause(outcome: &Outcome, usage: &Usage) -> Cause {
    let killed = outcome.exit_code() != 0 && usage.oom_kills > 0;
    match outcome.exit.map(|exit| exit.cause) {
        Some(ExitCause::TimedOut) => Cause::TimedOut,
        _ if killed => Cause::Oom,
        Some(ExitCause::Exited) => Cause::Exited,
        Some(ExitCause::Signalled { .. }) => Cause::Signalled,
        None => Cause::SandboxEnded,
    }
}

fn explain(cause: Cause, timeout: Option<Duration>, limits: &Limits) -> Option<String> {
    match cause {
        Cause::TimedOut => {
            timeout.map(|timeout| format!("the command was ended after its time limit of {timeout:?}"))
        }
        Cause::Oom => Some(format!(
            "the sandbox reached its memory limit of {} and a process was killed: raise it with --memory",
            limits.memory
        )),
        Cause::SandboxEnded => Some("the sandbox ended while the command ran".to_owned()),
        Cause::Exited | Cause::Signalled => None,
    }
}

/// Reads `NAME=VALUE`.
pub(crate) fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

fn parse_mount(text: &str) -> Result<Mount, String> {
    let form = || "write SRC:DST or SRC:DST:ro, with an absolute DST".to_owned();
    let mut parts = text.split(':');
    let (source, target) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(form)?);
    let access = match (parts.next(), parts.next()) {
        (None, None) | (Some("rw"), None) => MountAccess::ReadWrite,
        (Some("ro"), None) => MountAccess::ReadOnly,
        _ => return Err(form()),
    };
    if source.is_empty() || !target.starts_with('/') {
        return Err(form());
    }
    Ok(Mount { source: source.into(), target: target.into(), access })
}

/// Resolves the source once, with the rights of this user; it is not looked up again.
fn canonical(mount: &Mount) -> Result<Mount, CliError> {
    let source = mount.source.canonicalize().map_err(|error| {
        CliError::new(format!("--mount: `{}` cannot be used: {error}", mount.source.display()))
    })?;
    Ok(Mount { source, ..mount.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_in_the_words_of_the_service() {
        use warren_wire::api;
        for (ours, theirs) in [
            (Cause::Exited, api::ExitCause::Exited),
            (Cause::Signalled, api::ExitCause::Signalled),
            (Cause::TimedOut, api::ExitCause::TimedOut),
        ] {
            assert_eq!(word(&ours), word(&theirs));
        }
        assert_eq!(word(&Cause::Oom), word(&api::DeathCause::Oom));
        assert_eq!(word(&Cause::SandboxEnded), warren_core::ErrorCode::SandboxEnded.as_str());
    }

    #[test]
    fn a_label_has_a_name_and_a_value() {
        assert_eq!(parse_variable("A=b=c").unwrap(), ("A".to_owned(), "b=c".to_owned()));
        assert!(parse_variable("A").is_err() && parse_variable("=b").is_err());
    }
}
