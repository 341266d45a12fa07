use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use warren_core::{ByteSize, Cpus, TemplateName};
use warren_wire::api::{Command, CreateSandbox, Mount, PatchSandbox, Sandbox, SandboxStatus, StartProcess};
use warren_wire::client::{Client, ClientError, SandboxQuery};
use warren_wire::guest::LOGIN_SHELL;

use super::exec::exit_code;
use super::run::parse_variable;
use super::sync::tell_conflicts;
use crate::error::CliError;
use crate::global::Global;
use crate::network::{self, NetworkFlags};
use crate::project::{Base, Direction, Work, canonical, fingerprint};
use crate::relay::{self, Streams};
use crate::server::all_pages;
use crate::ui;

/// The label that tells a project's sandbox from others.
const LABEL: &str = "warren.project";
/// Metadata: the directory it belongs to, and where that is inside.
const DIRECTORY: &str = "warren.project.directory";
const INSIDE: &str = "warren.project.inside";
/// Metadata: the directory is mounted, and not copied.
const MOUNTED: &str = "warren.project.mounted";

const EXAMPLES: &str = "\
Examples:
  warren up                              a shell in this project's sandbox
  warren up npm test
  warren up --mount --template base
  warren sync . ID --from                bring back what was done there
  warren down";

/// Work on this directory in a sandbox of its own.
///
/// The directory's sandbox is made when it is asked for first, and is the same one from then on; if
/// it was stopped, it is started again. The directory is copied to the home of its user, without
/// what .gitignore and .warrenignore name, and what you change here is sent along each time. Where
/// the sandbox changed the same file, that one stays, and is named. `warren sync` brings back what
/// was done there. With --mount the sandbox works on the directory itself.
///
/// Then the command runs there, or a shell if there is none. `warren down` stops the sandbox.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Up {
    /// The directory [default: the one you are in]
    #[arg(long, short = 'C', value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Mount the directory instead of copying it: the server must run on this machine, with
    /// --allow-mount for it
    #[arg(long)]
    mount: bool,
    /// Leave out what matches this, as a line of .gitignore; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// The template that the sandbox starts from [default: host]
    #[arg(long, value_name = "NAME")]
    template: Option<TemplateName>,
    /// Memory at most, such as 512m or 4g [default: 4g]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Processors at most, such as 2 or 0.5 [default: 2]
    #[arg(long, value_name = "COUNT")]
    cpus: Option<Cpus>,
    /// Set a variable (may be repeated)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// The user who runs it: a name, uid or uid:gid of the template
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    network: NetworkFlags,
    /// Make or start it, and run nothing
    #[arg(long, short, conflicts_with = "command")]
    detach: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Stop the sandbox of this directory; its files stay.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The directory [default: the one you are in]
    #[arg(long, short = 'C', value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Remove it, with all files in it
    #[arg(long)]
    rm: bool,
}

/// A directory and the sandboxes that may be its own.
struct Project<'a> {
    client: &'a Client,
    directory: PathBuf,
    /// The machine and the directory, which is not alone in the world.
    whole_name: String,
}

impl<'a> Project<'a> {
    fn open(client: &'a Client, directory: Option<&Path>) -> Result<Self, CliError> {
        let directory = canonical(directory.unwrap_or_else(|| Path::new(".")))?;
        let machine = std::fs::read_to_string("/etc/machine-id")
            .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
            .unwrap_or_default();
        let whole_name = format!("{}:{}", machine.trim(), directory.display());
        Ok(Self { client, directory, whole_name })
    }

    fn label(&self) -> String {
        fingerprint(&[&self.whole_name])
    }

    /// The sandbox of the directory, the newest if there are several.
    fn find(&self) -> Result<Option<Sandbox>, CliError> {
        let labels = vec![format!("{LABEL}={}", self.label())];
        let mut found = all_pages(|cursor| {
            self.client.sandboxes(&SandboxQuery { labels: labels.clone(), cursor, ..SandboxQuery::default() })
        })?;
        found.retain(|sandbox| {
            sandbox.metadata.get(DIRECTORY) == Some(&self.whole_name)
                && !matches!(sandbox.status, SandboxStatus::Failed | SandboxStatus::Stopping)
        });
        found.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        Ok(found.pop())
    }
}

impl Up {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let project = Project::open(&client, self.directory.as_deref())?;
        // Two who ask at the same time get one sandbox.
        let turn = Base::open(&project.directory, "", "")?;
        let sandbox = match project.find()? {
            Some(sandbox) => self.again(&client, sandbox)?,
            None => self.make(&project)?,
        };
        drop(turn);
        let id = sandbox.sandbox_id.as_str();
        let inside = self.put_inside(&project, &sandbox)?;
        if self.detach {
            ui::print(id);
            return Ok(ExitCode::SUCCESS);
        }
        let command = if self.command.is_empty() {
            LOGIN_SHELL.map(str::to_owned).to_vec()
        } else {
            self.command.clone()
        };
        let start = StartProcess {
            command: Command::Words(command),
            cwd: Some(inside),
            user: self.user.clone(),
            ..StartProcess::default()
        };
        let outcome = relay::follow_service(&client, id, start, Streams::PassThrough)?;
        Ok(exit_code(outcome.exit_code()))
    }

    /// The request for a new sandbox.
    fn body(&self) -> CreateSandbox {
        CreateSandbox {
            template: self.template.as_ref().map(ToString::to_string),
            memory_mib: self.memory.map(|size| size.0.div_ceil(1 << 20)),
            cpus: self.cpus.map(|cpus| f64::from(cpus.milli()) / 1000.0),
            env: self.env.iter().cloned().collect(),
            user: self.user.clone(),
            network: self.network.policy().map(|policy| network::request(&policy)),
            ..CreateSandbox::default()
        }
    }

    fn again(&self, client: &Client, sandbox: Sandbox) -> Result<Sandbox, CliError> {
        let id = &sandbox.sandbox_id;
        if self.mount && !sandbox.metadata.contains_key(MOUNTED) {
            let text = format!("{id}, the sandbox of this directory, has a copy of it and no mount");
            return Err(CliError::new(text).hint("`warren down --rm` removes it; then ask again"));
        }
        if self.body() != CreateSandbox::default() {
            ui::say(&format!(
                "{id} is there already: other flags count for a new one, after `warren down --rm`"
            ));
        }
        match sandbox.status {
            SandboxStatus::Stopped | SandboxStatus::Paused => Ok(client.resume(id)?),
            _ => Ok(sandbox),
        }
    }

    fn make(&self, project: &Project<'_>) -> Result<Sandbox, CliError> {
        let inside = format!("/home/user/{}", inside_name(&project.directory));
        let mut body = self.body();
        body.labels.insert(LABEL.to_owned(), project.label());
        body.metadata.insert(DIRECTORY.to_owned(), project.whole_name.clone());
        if self.mount {
            body.metadata.insert(MOUNTED.to_owned(), "yes".to_owned());
            body.metadata.insert(INSIDE.to_owned(), inside.clone());
            let source = project.directory.to_string_lossy().into_owned();
            body.mounts.push(Mount { source: source.clone(), target: inside, read_only: false });
            return project.client.create_sandbox(&body, None).map_err(|error| {
                let refused = matches!(&error, ClientError::Refused(problem) if problem.field.as_deref() == Some("mounts"));
                let told = CliError::from(error);
                if refused {
                    told.hint(format!("start the server with --allow-mount '{source}'"))
                } else {
                    told
                }
            });
        }
        Ok(project.client.create_sandbox(&body, None)?)
    }

    /// Sends the directory, and answers where it is.
    fn put_inside(&self, project: &Project<'_>, sandbox: &Sandbox) -> Result<String, CliError> {
        let (client, id) = (project.client, sandbox.sandbox_id.as_str());
        let remote = match sandbox.metadata.get(INSIDE) {
            Some(inside) if sandbox.metadata.contains_key(MOUNTED) => return Ok(inside.clone()),
            Some(inside) => inside.clone(),
            None => {
                let home = home_of(client, id, self.user.as_deref())?;
                let inside = format!("{home}/{}", inside_name(&project.directory));
                let mut metadata = sandbox.metadata.clone();
                metadata.insert(INSIDE.to_owned(), inside.clone());
                client.patch_sandbox(
                    id,
                    &PatchSandbox { metadata: Some(metadata), ..PatchSandbox::default() },
                )?;
                inside
            }
        };
        let user = self.user.clone();
        let work = Work {
            client,
            sandbox: id,
            directory: project.directory.clone(),
            remote: remote.clone(),
            user,
            direction: Direction::In,
            prefer: None,
            exclude: self.exclude.clone(),
            with_git: true,
            delete: false,
            dry_run: false,
        };
        let mut base = Base::open(&work.directory, id, &remote)?;
        let outcome = work.run(&mut base)?;
        if !outcome.sent.is_empty() {
            ui::say(&format!("sent {} files to {id}:{remote}", outcome.sent.len()));
        }
        for path in &outcome.left_out {
            ui::say(&format!("warren: left out, neither file nor link inside: {}", path.escape_default()));
        }
        tell_conflicts(&outcome);
        Ok(remote)
    }
}

impl Down {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let client = global.client()?;
        let project = Project::open(&client, self.directory.as_deref())?;
        let Some(sandbox) = project.find()? else {
            let text = format!("{} has no sandbox", project.directory.display());
            return Err(CliError::new(text).hint("`warren up` makes one"));
        };
        let id = sandbox.sandbox_id.as_str();
        if self.rm {
            client.delete_sandbox(id)?;
            if let Some(remote) = project_path(&sandbox, &project.directory) {
                Base::open(&project.directory, id, &remote)?.forget();
            }
        } else if sandbox.status != SandboxStatus::Stopped {
            client.stop(id)?;
        }
        Ok(())
    }
}

/// The name of a directory inside a sandbox.
pub(super) fn inside_name(directory: &Path) -> String {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.starts_with('.') || name.len() > 2).unwrap_or_else(|| "work".to_owned())
}

/// The home of a sandbox's user.
pub(super) fn home_of(client: &Client, id: &str, user: Option<&str>) -> Result<String, CliError> {
    Ok(client.stat(id, ".", user)?.path.trim_end_matches('/').to_owned())
}

/// Where `warren up` put a directory in its sandbox.
pub(super) fn project_path(sandbox: &Sandbox, directory: &Path) -> Option<String> {
    let mine = sandbox.metadata.get(DIRECTORY)?.split_once(':')?.1 == directory.display().to_string();
    sandbox.metadata.get(INSIDE).filter(|_| mine).cloned()
}
