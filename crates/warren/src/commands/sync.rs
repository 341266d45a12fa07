use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warren_core::SandboxWord;
use warren_wire::client::Client;

use super::up::{home_of, inside_name, project_path};
use crate::error::CliError;
use crate::global::Global;
use crate::project::{Base, Deed, Direction, Outcome, Prefer, Work, canonical};
use crate::ui;
use crate::which;

const EXAMPLES: &str = "\
Examples:
  warren sync . sbx…                     both ways, with the directory of the same name
  warren sync . sbx…:/home/user/app --from
  warren sync . sbx… --dry-run
  warren sync . sbx… --prefer there      the sandbox is right where both changed a file
  warren sync . sbx… --watch";

/// Carry changes between a directory and a sandbox, both ways.
///
/// The state that both sides had is remembered, so that it is known who changed what since: new and
/// changed files are carried over, and so are removals. Where both changed a file nothing is
/// overwritten: it is named as a conflict, and --prefer settles it. Files that .gitignore or
/// .warrenignore name are left alone on both sides, and .git is never brought out, since git runs
/// what is written there.
///
/// Links that lead out of the directory, and anything that is no file, are left out. Empty
/// directories are not carried. All that is sent is one entry of the sandbox's log, which `warren
/// undo` takes back.
///
/// Exit code 1: there are conflicts.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Sync {
    /// The directory of this machine
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The sandbox, and its directory [default: where `warren up` put it, else the one of the same
    /// name at home]
    #[arg(value_name = "ID[:PATH]")]
    remote: String,
    /// Only into the sandbox
    #[arg(long, conflicts_with = "from")]
    to: bool,
    /// Only out of the sandbox
    #[arg(long)]
    from: bool,
    /// Which side is right where both changed a file
    #[arg(long, value_name = "SIDE")]
    prefer: Option<Prefer>,
    /// Leave out what matches this, as a line of .gitignore; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Carry over that most of the files were removed
    #[arg(long)]
    delete: bool,
    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Go on until interrupted
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    watch: bool,
    /// The user whose rights count inside: a name, uid or uid:gid of the sandbox
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The pause between two looks at both sides.
const BETWEEN: Duration = Duration::from_secs(2);

impl Sync {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let directory = canonical(&self.directory)?;
        let (id, path) = match self.remote.split_once(':') {
            Some((id, path)) => (id, Some(path).filter(|path| !path.is_empty())),
            None => (self.remote.as_str(), None),
        };
        let id = which::find(&client, &id.parse::<SandboxWord>().map_err(CliError::new)?)?;
        let remote = self.remote_path(&client, id.as_str(), &directory, path)?;
        let work = Work {
            client: &client,
            sandbox: id.as_str(),
            directory,
            remote,
            user: self.user.clone(),
            direction: match (self.to, self.from) {
                (true, _) => Direction::In,
                (_, true) => Direction::Out,
                (false, false) => Direction::Both,
            },
            prefer: self.prefer,
            exclude: self.exclude.clone(),
            with_git: false,
            delete: self.delete,
            dry_run: self.dry_run,
        };
        loop {
            let mut base = Base::open(&work.directory, work.sandbox, &work.remote)?;
            let outcome = work.run(&mut base)?;
            drop(base);
            if !self.watch {
                ui::show(self.json, &outcome, |outcome| tell(outcome, self.dry_run));
                return Ok(ExitCode::from(u8::from(!outcome.conflicts.is_empty())));
            }
            if !outcome.is_empty() {
                tell(&outcome, false);
            }
            std::thread::sleep(BETWEEN);
        }
    }

    /// The directory of the sandbox, as an absolute path.
    fn remote_path(
        &self,
        client: &Client,
        id: &str,
        directory: &std::path::Path,
        path: Option<&str>,
    ) -> Result<String, CliError> {
        let sandbox = client.sandbox(id)?;
        let path = match path {
            Some(path) => path.trim_end_matches('/').to_owned(),
            None => match project_path(&sandbox, directory) {
                Some(path) => return Ok(path),
                None => inside_name(directory),
            },
        };
        if path.starts_with('/') {
            return Ok(path);
        }
        Ok(format!("{}/{path}", home_of(client, id, self.user.as_deref())?))
    }
}

/// Says what was carried, a line for each path.
pub(super) fn tell(outcome: &Outcome, dry_run: bool) {
    let lists = [
        ("→", &outcome.sent),
        ("←", &outcome.brought),
        ("x there", &outcome.removed_there),
        ("x here", &outcome.removed_here),
    ];
    for (mark, paths) in lists {
        paths.iter().for_each(|path| ui::print_plain(&format!("{mark} {}", path.escape_default())));
    }
    for path in &outcome.left_out {
        ui::say(&format!("warren: left out, neither file nor link inside: {}", path.escape_default()));
    }
    let mut carried = outcome.brought.iter().chain(&outcome.removed_here);
    if carried.any(|path| path.rsplit('/').next() == Some(".gitignore")) {
        ui::say("the sandbox changed a .gitignore: what it no longer names is sent the next time");
    }
    tell_conflicts(outcome);
    let (sent, brought) = (outcome.sent.len(), outcome.brought.len());
    let removed = outcome.removed_here.len() + outcome.removed_there.len();
    let would = if dry_run { "would have " } else { "" };
    ui::say(&format!("{would}sent {sent}, brought {brought}, removed {removed}"));
}

pub(super) fn tell_conflicts(outcome: &Outcome) {
    for clash in &outcome.conflicts {
        let (here, there) = (word(clash.here), word(clash.there));
        ui::say(&format!("conflict: {}: {here} here, {there} there", clash.path.escape_default()));
    }
    if !outcome.conflicts.is_empty() {
        ui::say("nothing of these was overwritten: --prefer here or --prefer there settles them");
    }
}

fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::Absent => "absent",
        Deed::Same => "the same",
        Deed::New => "new",
        Deed::Changed => "changed",
        Deed::Removed => "removed",
    }
}
