use std::path::{Component, Path};
use std::process::ExitCode;

use clap::Args;
use warren_core::SandboxWord;
use warren_wire::api::{Conflict, ConflictRule, Promote as PromoteBody, Promoted};
use warren_wire::client::{Client, ClientError};

use super::history::{print_ended, way_back};
use crate::error::CliError;
use crate::exit::NO;
use crate::global::Global;
use crate::travel::present::{print_changes, print_conflicts, short};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  warren promote \"$fork\"                      what it would do
  warren promote \"$fork\" --apply
  warren promote \"$fork\" --apply --path /home/user/app
  warren promote \"$fork\" --apply --theirs     the fork is right where both changed";

/// Merge what a fork changed into the sandbox it came from.
///
/// Without --apply nothing is changed: the answer shows what the merge would do. Both sides are
/// compared with the state that the fork began with. Text that was changed in different places is
/// joined. A path that both sides changed differently is a conflict, and with conflicts nothing is
/// merged unless --ours or --theirs settles them. With --path, changes elsewhere are neither merged
/// nor in conflict.
///
/// Exit code 1: there are conflicts.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Promote {
    /// The fork
    #[arg(value_name = "FORK")]
    fork: SandboxWord,
    /// Another sandbox than the one it is a fork of
    #[arg(long, value_name = "SBX")]
    into: Option<SandboxWord>,
    /// Do it
    #[arg(long)]
    apply: bool,
    /// Where both changed a path, keep that of the sandbox that is merged into
    #[arg(long, conflicts_with = "theirs")]
    ours: bool,
    /// Where both changed a path, take that of the fork
    #[arg(long)]
    theirs: bool,
    /// End commands that run in the sandbox that is merged into
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    extent: Extent,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The options that say which changes are taken.
#[derive(Debug, Args)]
pub(super) struct Extent {
    /// Merge only what changed at or below this path
    #[arg(long, value_name = "DIR", value_parser = parse_path)]
    pub(super) path: Option<String>,
    /// Leave out what matches this, as a line of .gitignore in --path, else in the root; may be
    /// repeated
    #[arg(long, value_name = "PATTERN")]
    pub(super) exclude: Vec<String>,
    /// Leave out what the fork's .gitignore files name, such as what a build made
    #[arg(long)]
    pub(super) gitignore: bool,
}

/// A path inside a sandbox. What the server would refuse is refused before anything is done.
fn parse_path(text: &str) -> Result<String, String> {
    let path = Path::new(text);
    if path.is_absolute() && !path.components().any(|part| part == Component::ParentDir) {
        return Ok(text.to_owned());
    }
    Err("a path inside the sandbox begins with a slash and has no `..`".to_owned())
}

impl Promote {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let conflicts = match (self.ours, self.theirs) {
            (true, _) => ConflictRule::Ours,
            (_, true) => ConflictRule::Theirs,
            (false, false) => ConflictRule::Refuse,
        };
        let body = PromoteBody {
            into: self.into.as_ref().map(ToString::to_string),
            apply: self.apply,
            conflicts,
            force: self.force,
            path: self.extent.path.clone(),
            leave_ignored: self.extent.gitignore,
            exclude: self.extent.exclude.clone(),
        };
        let promoted = match promote(&global.client()?, self.fork.as_str(), &body)? {
            Ok(promoted) => promoted,
            Err(conflicts) => {
                print_conflicts(&conflicts);
                return Err(refused(conflicts.len()));
            }
        };
        let unsettled = !promoted.conflicts.is_empty() && conflicts == ConflictRule::Refuse;
        ui::show(self.json, &promoted, |promoted| self.tell(promoted));
        Ok(ExitCode::from(u8::from(unsettled)))
    }

    fn tell(&self, promoted: &Promoted) {
        print_changes(&promoted.changes, promoted.truncated);
        print_conflicts(&promoted.conflicts);
        match &promoted.applied {
            Some(applied) => {
                print_ended(&applied.ended);
                let was = short(&applied.safety.snapshot_id);
                ui::say(&format!(
                    "merged into {}; what was there is {was}: {}",
                    promoted.into,
                    way_back(applied)
                ));
            }
            None if promoted.changes.is_empty() && promoted.conflicts.is_empty() => {
                let below = self.extent.path.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
                ui::say(&format!("there is nothing{below} to merge into {}", promoted.into));
            }
            None if !promoted.conflicts.is_empty() && !self.ours && !self.theirs => {
                ui::say("with conflicts nothing is merged: --ours or --theirs settles them");
            }
            None => ui::say("nothing was changed: --apply does it"),
        }
    }
}

/// Merges, and tells the conflicts apart from other refusals.
pub(super) fn promote(
    client: &Client,
    fork: &str,
    body: &PromoteBody,
) -> Result<Result<Promoted, Vec<Conflict>>, CliError> {
    match client.promote(fork, body) {
        Ok(promoted) => Ok(Ok(promoted)),
        Err(ClientError::Refused(problem)) if problem.details.contains_key("conflicts") => {
            let conflicts = problem.details.get("conflicts").cloned().unwrap_or_default();
            Ok(Err(serde_json::from_value(conflicts).map_err(CliError::new)?))
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn refused(conflicts: usize) -> CliError {
    let paths = if conflicts == 1 { "path" } else { "paths" };
    CliError::new(format!("both sides changed {conflicts} {paths}, and nothing was merged"))
        .hint("`warren promote FORK --apply` with --ours or --theirs settles it")
        .exit(NO)
}
