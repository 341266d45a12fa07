use std::process::ExitCode;

use clap::Args;
use warren_wire::api::{DiffKind, FileDiff};
use warren_wire::client::{Client, DiffQuery};

use crate::error::CliError;
use crate::global::Global;
use crate::travel::point::{self, Point};
use crate::travel::present::{print_changes, summary};
use crate::ui::{self, Colour};
use crate::word::word;

const EXAMPLES: &str = "\
Examples:
  warren diff \"$id\":green \"$id\"          since the snapshot `green`
  warren diff \"$id\":16 \"$id\":17          what entry 17 of `warren log` changed
  warren diff \"$id\" \"$fork\" --text /etc
  warren diff \"$id\" --exit-code          has it changed since its last snapshot?";

/// Show what differs between two states.
///
/// A state is a sandbox as it is now, or a snapshot: its id, the beginning of it, its name, or SBX:
/// with a name or the number of an entry of `warren log`. One sandbox alone is compared with its
/// last snapshot.
///
/// Paths that were added have a +, changed ones a ~, removed ones a -.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Diff {
    /// The earlier state; left out, the default sandbox
    #[arg(value_name = "A", default_value = "@default", hide_default_value = true)]
    from: String,
    /// The later state
    #[arg(value_name = "B")]
    to: Option<String>,
    /// Only what is at or below this path
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Show how lines differ, as a unified diff
    #[arg(long, short = 'p', conflicts_with = "stat")]
    text: bool,
    /// Show paths and sizes; the default
    #[arg(long)]
    stat: bool,
    /// Answer 1 if there is a difference
    #[arg(long)]
    exit_code: bool,
    /// Most paths that are shown
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let client = global.client()?;
        let (to, path) = self.second();
        let (from, to) = points(&client, &self.from, to)?;
        let wanted = DiffQuery { from, to, path, text: self.text, limit: self.limit };
        let diff = client.diff(&wanted)?;
        ui::show(self.json, &diff, |diff| {
            if !self.text {
                return print_changes(&diff.items, diff.truncated);
            }
            diff.items.iter().for_each(print_text);
            if diff.truncated {
                ui::say(&summary(&diff.items, true));
            }
        });
        let differs = !diff.items.is_empty() || diff.truncated;
        Ok(ExitCode::from(u8::from(differs && self.exit_code)))
    }

    /// A second word that begins with a slash is the path.
    fn second(&self) -> (Option<&str>, Option<String>) {
        match (&self.to, &self.path) {
            (Some(word), None) if word.starts_with('/') => (None, Some(word.clone())),
            (to, path) => (to.as_deref(), path.clone()),
        }
    }
}

fn points(client: &Client, from: &str, to: Option<&str>) -> Result<(String, String), CliError> {
    let context = match (point::sandbox_in(client, from)?, to) {
        (None, Some(to)) => point::sandbox_in(client, to)?,
        (context, _) => context,
    };
    let first = point::point(client, from, context.as_ref())?;
    if let Some(to) = to {
        let second = point::point(client, to, context.as_ref())?;
        return Ok((first.as_str().to_owned(), second.as_str().to_owned()));
    }
    let Point::Sandbox(id) = &first else {
        return Err(CliError::new(format!("there is nothing to compare `{from}` with"))
            .hint("give a second state: a sandbox, or another snapshot"));
    };
    match client.sandbox(id.as_str())?.snapshot_id {
        Some(head) => Ok((head, id.to_string())),
        None => Err(CliError::new(format!("{id} has no snapshot to be compared with"))
            .hint(format!("`warren snapshot {id}` takes one"))),
    }
}

/// The two names above the hunks of a file, as `git diff` has them.
fn header(change: &FileDiff) -> [String; 2] {
    let (before, after) = (format!("a{}", change.path), format!("b{}", change.path));
    let nothing = || "/dev/null".to_owned();
    match change.kind {
        DiffKind::Added => [nothing(), after],
        DiffKind::Changed => [before, after],
        DiffKind::Removed => [before, nothing()],
    }
}

fn print_text(change: &FileDiff) {
    let [before, after] = header(change);
    let strong = |text: &str| ui::print_coloured(text, Some(Colour::Bold));
    strong(&format!("diff a{path} b{path}", path = change.path));
    if let Some(note) = note(change) {
        ui::print_coloured(&note, None);
        return;
    }
    strong(&format!("--- {before}"));
    strong(&format!("+++ {after}"));
    for line in change.text.as_deref().unwrap_or_default().split_inclusive('\n') {
        ui::print_coloured(line.strip_suffix('\n').unwrap_or(line), colour_of(line));
    }
}

/// The line for a file that has no hunks.
fn note(change: &FileDiff) -> Option<String> {
    let [before, after] = header(change);
    if change.binary {
        return Some(format!("Binary files {before} and {after} differ"));
    }
    if change.too_large {
        return Some(format!("Files {before} and {after} differ, and are too large to be shown"));
    }
    match (&change.text, &change.before, &change.after) {
        (Some(text), ..) if !text.is_empty() => None,
        (_, Some(was), Some(is)) => Some(format!(
            "{} {} {}:{} → {} {} {}:{}",
            word(&was.kind),
            was.mode,
            was.uid,
            was.gid,
            word(&is.kind),
            is.mode,
            is.uid,
            is.gid
        )),
        (_, None, Some(is)) => Some(format!("new {} {}", word(&is.kind), is.mode)),
        (_, Some(was), None) => Some(format!("removed {} {}", word(&was.kind), was.mode)),
        (_, None, None) => Some(String::new()),
    }
}

fn colour_of(line: &str) -> Option<Colour> {
    match line.as_bytes().first() {
        Some(b'+') => Some(Colour::Green),
        Some(b'-') => Some(Colour::Red),
        Some(b'@') => Some(Colour::Cyan),
        _ => None,
    }
}
