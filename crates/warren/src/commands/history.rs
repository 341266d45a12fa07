//! Going back and forth through a sandbox's states, and looking at what led to them.

use std::process::ExitCode;

use clap::Args;
use warren_core::{ByteSize, SandboxId, SandboxWord};
use warren_wire::api::{
    CompleteTurn, EndedProcess, JournalEntry, PathState, Rollback as RollbackBody, RolledBack, Steps,
    WayBackBy,
};
use warren_wire::client::{Client, JournalQuery};

use crate::error::CliError;
use crate::exit::NO;
use crate::global::Global;
use crate::time::age_of;
use crate::travel::point;
use crate::travel::present::{action, ending, one_line, short};
use crate::ui;

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  warren rollback \"$id\" green
  warren rollback \"$id\" 5c1f0a2e --force
  warren undo \"$id\"";

/// Give a sandbox the files of a snapshot again.
///
/// It keeps its id. Its processes end, and the state that is replaced is kept as a snapshot, so
/// that nothing is lost. Refused while a command runs that somebody waits for, unless --force ends
/// it.
#[derive(Debug, Args)]
#[command(after_long_help = ROLLBACK_EXAMPLES)]
pub(crate) struct Rollback {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// The snapshot: its id, the beginning of it, or its name
    #[arg(value_name = "SNAP")]
    snapshot: String,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
struct How {
    /// End commands that run, and go back even if states in between were not kept
    #[arg(long, short)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Rollback {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox(&self.id)?;
        let to = point::snapshot_of(&client, &id, &self.snapshot)?;
        self.how.go(&client, &id, to.as_str())
    }
}

impl How {
    fn go(&self, client: &Client, id: &SandboxId, to: &str) -> Result<(), CliError> {
        let body = RollbackBody { snapshot_id: to.to_owned(), force: self.force };
        self.tell(&client.rollback(id.as_str(), &body)?);
        Ok(())
    }

    fn tell(&self, done: &RolledBack) {
        ui::show(self.json, done, |done| {
            let to = match &done.to.name {
                Some(name) => format!("{} ({name})", short(&done.to.snapshot_id)),
                None => short(&done.to.snapshot_id),
            };
            ui::tell(&format!("now at {to}, {} old", age_of(&done.to.created_at)));
            print_ended(&done.ended);
            match done.memory {
                Some(true) => ui::say("its processes go on where they were"),
                Some(false) => ui::say("files only: its processes cannot go on here"),
                None => {}
            }
            ui::say(&format!("what was there is {}: {}", short(&done.safety.snapshot_id), way_back(done)));
        });
    }
}

/// Names the commands that ended with the state that was left.
pub(super) fn print_ended(ended: &[EndedProcess]) {
    for process in ended {
        ui::say(&format!("ended: {}", one_line(&process.command, 80)));
    }
}

/// The command that leads to what was replaced.
pub(super) fn way_back(done: &RolledBack) -> String {
    let id = done.sandbox.name.as_ref().unwrap_or(&done.sandbox.sandbox_id);
    let command = match done.back {
        Some(back) => {
            let word = match back.by {
                WayBackBy::Undo => "undo",
                WayBackBy::Redo => "redo",
            };
            if back.steps == 1 { format!("{word} {id}") } else { format!("{word} {id} -n {}", back.steps) }
        }
        None => format!("rollback {id} {}", short(&done.safety.snapshot_id)),
    };
    format!("`warren {command}` goes back to it")
}

const GOTO_EXAMPLES: &str = "\
Examples:
  warren goto \"$id\" 17        the state that entry 17 of `warren log` left
  warren goto \"$id\" green
  warren goto \"$id\" 5c1f0a2e";

/// Give a sandbox the files it had after an entry of its log, or at a snapshot.
///
/// As `warren rollback`, for numbers of `warren log` too.
#[derive(Debug, Args)]
#[command(after_long_help = GOTO_EXAMPLES)]
pub(crate) struct Goto {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// An entry's number, or a snapshot's id, the beginning of that, or its name
    #[arg(value_name = "ENTRY|SNAP")]
    to: String,
    #[command(flatten)]
    how: How,
}

impl Goto {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox(&self.id)?;
        let to = point::state_of(&client, &id, &self.to)?;
        self.how.go(&client, &id, to.as_str())
    }
}

/// Take back what was last done to a sandbox's files.
///
/// The last operation that changed something is taken back: a command, a tool, a file that was
/// written, a merge, a rollback. Changes of background programs since then go with it, and the
/// programs end. Nothing is lost: `warren redo` brings it back, until something else is changed. If
/// the state before the operation was not kept, more would have to be taken back, and that is
/// refused unless you give --force.
#[derive(Debug, Args)]
pub(crate) struct Undo {
    #[command(flatten)]
    moves: Moves,
}

/// Bring back what was undone.
#[derive(Debug, Args)]
pub(crate) struct Redo {
    #[command(flatten)]
    moves: Moves,
}

#[derive(Debug, Args)]
struct Moves {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// How many operations
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    #[command(flatten)]
    how: How,
}

impl Moves {
    fn body(&self) -> Steps {
        Steps { steps: self.steps, force: self.how.force }
    }
}

impl Undo {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let moves = self.moves;
        moves.how.tell(&global.client()?.undo(moves.id.as_str(), &moves.body())?);
        Ok(())
    }
}

impl Redo {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let moves = self.moves;
        moves.how.tell(&global.client()?.redo(moves.id.as_str(), &moves.body())?);
        Ok(())
    }
}

const LOG_EXAMPLES: &str = "\
Examples:
  warren log \"$id\"
  warren log \"$id\" -n 100 --json | jq '.[] | select(.exit_code != 0)'
  warren diff \"$id\":16 \"$id\":17        what entry 17 changed";

/// Show what was done in a sandbox, the newest first.
///
/// Each entry has a number, the command and its exit code, the number of files that it changed, and
/// the snapshot of the state that it left, if that was kept. `warren goto` takes the number.
#[derive(Debug, Args)]
#[command(after_long_help = LOG_EXAMPLES)]
pub(crate) struct Log {
    /// The sandbox, alive or ended [default: the default sandbox]
    id: Option<SandboxWord>,
    /// How many entries
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 25, conflicts_with = "all")]
    limit: u32,
    /// All of them
    #[arg(long, short)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The number of entries in one request.
const PAGE: u32 = 200;

impl Log {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let (client, id) = global.sandbox_or_default(self.id.as_ref())?;
        let most = if self.all { None } else { usize::try_from(self.limit).ok() };
        let entries = entries(&client, id.as_str(), most, true)?;
        let headings = ["ENTRY", "AGE", "TURN", "EXIT", "CHANGED", "AFTER", "COMMAND"];
        ui::show_table(self.json, headings, &entries, row);
        if !self.json {
            say_not_kept(&entries);
        }
        Ok(())
    }
}

/// Says why the states after some entries were not kept.
pub(super) fn say_not_kept(entries: &[JournalEntry]) {
    for entry in entries {
        if let Some(reason) = &entry.not_kept {
            ui::say(&format!("the state after entry {} was not kept: {reason}", entry.number));
        }
    }
}

/// A sandbox's journal, the newest entry first.
pub(super) fn entries(
    client: &Client,
    sandbox: &str,
    most: Option<usize>,
    count: bool,
) -> Result<Vec<JournalEntry>, CliError> {
    let mut entries = Vec::new();
    let mut before = None;
    loop {
        let left = most.map_or(usize::MAX, |most| most.saturating_sub(entries.len()));
        if left == 0 {
            return Ok(entries);
        }
        let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = client.journal(sandbox, &JournalQuery { before, limit: Some(limit), count })?;
        let empty = page.items.is_empty();
        entries.extend(page.items);
        before = page.next_before;
        if before.is_none() || empty {
            return Ok(entries);
        }
    }
}

fn row(entry: &JournalEntry) -> [String; 7] {
    [
        entry.number.to_string(),
        age_of(&entry.began_at),
        entry.turn.to_string(),
        ending(entry),
        entry.changed.map(|changed| changed.to_string()).unwrap_or_default(),
        match &entry.not_kept {
            Some(_) => "not kept".to_owned(),
            None => entry.after_id.as_deref().map(short).unwrap_or_default(),
        },
        one_line(&action(entry), 80),
    ]
}

const BLAME_EXAMPLES: &str = "\
Examples:
  warren blame \"$id\" /etc/hosts
  warren blame \"$id\" /home/user/main.py --json | jq -r '.items[0].command'";

/// Show what last wrote a file: a command, an upload, a session at a terminal.
///
/// Several are shown if they overlapped. A directory stands for all that is below it. For a file
/// that is gone, it shows what removed it.
///
/// Exit code 1: there is no such file, and no known state had one.
#[derive(Debug, Args)]
#[command(after_long_help = BLAME_EXAMPLES)]
pub(crate) struct Blame {
    /// The sandbox, alive or ended
    id: SandboxWord,
    /// The path inside, absolute
    path: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Blame {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode, CliError> {
        let blame = global.client()?.blame(self.id.as_str(), &self.path)?;
        if self.json {
            ui::print_json(&blame);
        } else if blame.items.is_empty() {
            let told = match blame.state {
                Some(PathState::Changed) => "was changed, and no entry of the log says by what",
                Some(PathState::Removed) => "was removed, and no entry of the log says by what",
                Some(PathState::NeverThere) => return Err(no_such_file(&blame.path)),
                Some(PathState::AsItBegan | PathState::Unknown) | None => "is as the sandbox began with it",
            };
            ui::print_plain(&format!("{} {told}", blame.path));
        } else {
            if blame.state == Some(PathState::Removed) {
                ui::say(&format!("{} is not there any more; it was removed by", blame.path));
            }
            let rows: Vec<_> = blame
                .items
                .iter()
                .map(|entry| {
                    let [number, age, turn, exit, _, after, command] = row(entry);
                    [number, age, turn, exit, after, command]
                })
                .collect();
            ui::print_table(["ENTRY", "AGE", "TURN", "EXIT", "AFTER", "COMMAND"], &rows);
        }
        let missing = blame.state == Some(PathState::NeverThere);
        Ok(if missing { ExitCode::from(NO) } else { ExitCode::SUCCESS })
    }
}

fn no_such_file(path: &str) -> CliError {
    CliError::new(format!("there is no {path} in the sandbox, and no state is known in which there was"))
        .exit(NO)
}

/// Complete a turn, and keep the state it left.
///
/// Turns count an agent's work: one for each answer, with any number of commands.
#[derive(Debug, Args)]
pub(crate) struct Turn {
    /// The sandbox, as `warren ls` lists them
    id: SandboxWord,
    /// A name for its snapshot
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Turn {
    pub(crate) fn run(self, global: &Global) -> Result<(), CliError> {
        let body = CompleteTurn { name: self.name, session_id: None };
        let turn = global.client()?.complete_turn(self.id.as_str(), &body)?;
        ui::show(self.json, &turn, |turn| {
            let used = turn.space_used_bytes.map(|used| format!(", {} used", ByteSize(used)));
            let snapshot = short(&turn.snapshot.snapshot_id);
            ui::print(&format!("turn {}: {snapshot}{}", turn.turn, used.unwrap_or_default()));
        });
        Ok(())
    }
}
