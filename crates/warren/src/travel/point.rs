//! The states that words of the command line mean.

use std::time::{Duration, Instant};

use warren_core::{SandboxId, SandboxWord, SnapshotId};
use warren_wire::api::{JournalEntry, Snapshot, SnapshotReason};
use warren_wire::client::{Client, JournalQuery, SnapshotQuery};

use super::present::short;
use crate::error::CliError;
use crate::server::all_pages;
use crate::which;

/// A state that commands look at: a snapshot, or a sandbox as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Point {
    Sandbox(SandboxId),
    Snapshot(SnapshotId),
}

impl Point {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Sandbox(id) => id.as_str(),
            Self::Snapshot(id) => id.as_str(),
        }
    }
}

/// The shortest text that is taken for the beginning of an id.
const SHORTEST_BEGINNING: usize = 6;

/// Every snapshot of a sandbox, or of the caller if none is named, the oldest first.
pub(crate) fn snapshots(client: &Client, sandbox: Option<&str>) -> Result<Vec<Snapshot>, CliError> {
    let sandbox = sandbox.map(str::to_owned);
    let mut snapshots = all_pages(|cursor| {
        client.snapshots(&SnapshotQuery { sandbox: sandbox.clone(), cursor, ..SnapshotQuery::default() })
    })?;
    snapshots.reverse();
    Ok(snapshots)
}

/// The snapshot that a word means within a sandbox: an id or its beginning, or a name.
pub(crate) fn snapshot_of(client: &Client, sandbox: &SandboxId, word: &str) -> Result<SnapshotId, CliError> {
    if let Ok(id) = word.parse() {
        return Ok(id);
    }
    choose(word, &snapshots(client, Some(sandbox.as_str()))?, &in_sandbox(sandbox))
}

/// As [`snapshot_of`], but a number means the state after that entry of the journal.
pub(crate) fn state_of(client: &Client, sandbox: &SandboxId, word: &str) -> Result<SnapshotId, CliError> {
    if let Ok(id) = word.parse() {
        return Ok(id);
    }
    let known = snapshots(client, Some(sandbox.as_str()))?;
    let named = known.iter().any(|snapshot| snapshot.name.as_deref() == Some(word));
    match word.parse::<u64>() {
        Ok(number) if named => Err(CliError::new(format!(
            "`{word}` is both a snapshot's name and the number of the journal's entry {number}"
        ))
        .hint("give the snapshot's id: `warren snapshots` lists it, `warren log` that of an entry")),
        Ok(number) if word.len() < SHORTEST_BEGINNING => after_entry(client, sandbox, number),
        _ => choose(word, &known, &in_sandbox(sandbox)),
    }
}

/// The wait for a state that is just being captured.
const PATIENCE: Duration = Duration::from_secs(2);

fn after_entry(client: &Client, sandbox: &SandboxId, number: u64) -> Result<SnapshotId, CliError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let entry = entry(client, sandbox, number)?;
        if let Some(reason) = entry.not_kept {
            let error = CliError::new(format!("the state after entry {number} was not kept: {reason}"));
            return Err(error.hint(format!("`warren log {sandbox}` shows which states there are")));
        }
        match entry.after_id {
            Some(id) => return id.parse().map_err(CliError::new),
            // The state that a command left is captured in the background.
            None if entry.ended_at.is_some() && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
            }
            None => {
                let error = CliError::new(format!("the state after entry {number} was not captured"));
                return Err(error.hint(format!(
                    "`warren log {sandbox}` shows which were; a sandbox's --history says which are"
                )));
            }
        }
    }
}

fn entry(client: &Client, sandbox: &SandboxId, number: u64) -> Result<JournalEntry, CliError> {
    let wanted = JournalQuery { before: Some(number.saturating_add(1)), limit: Some(1), count: false };
    let found = client.journal(sandbox.as_str(), &wanted)?.items.into_iter().next();
    found.filter(|entry| entry.number == number).ok_or_else(|| {
        CliError::new(format!("the journal has no entry {number}"))
            .hint(format!("`warren log {sandbox}` shows the journal"))
    })
}

/// The sandbox or snapshot that a word means: a word for a sandbox, a snapshot's id, `SBX:SNAP`, or
/// a name that only one snapshot has. A word without a sandbox is looked up in `context`, if there
/// is one, and means a sandbox of that name only if no snapshot has it; without a context it means
/// the sandbox.
pub(crate) fn point(client: &Client, word: &str, context: Option<&SandboxId>) -> Result<Point, CliError> {
    match parse(word) {
        Word::Sandbox(sandbox) => which::find(client, &sandbox).map(Point::Sandbox),
        Word::Snapshot(id) => Ok(Point::Snapshot(id)),
        Word::Within(sandbox, rest) => within(client, &sandbox, rest, word).map(Point::Snapshot),
        Word::Name(word) => match context {
            Some(sandbox) => match (state_of(client, sandbox, word), named(client, word)) {
                (Ok(state), _) => Ok(Point::Snapshot(state)),
                (Err(_), Ok(Some(id))) => Ok(Point::Sandbox(id)),
                (Err(error), _) => Err(error),
            },
            None => match named(client, word)? {
                Some(id) => Ok(Point::Sandbox(id)),
                None => anywhere(client, word).map(Point::Snapshot),
            },
        },
    }
}

/// The snapshot that a word means, where a sandbox will not do.
pub(crate) fn snapshot(client: &Client, word: &str) -> Result<SnapshotId, CliError> {
    match parse(word) {
        Word::Snapshot(id) => Ok(id),
        Word::Within(sandbox, rest) => within(client, &sandbox, rest, word),
        Word::Name(word) => anywhere(client, word),
        Word::Sandbox(id) => Err(CliError::new(format!("`{id}` is a sandbox, not a snapshot"))
            .hint(format!("`warren snapshots {id}` lists its snapshots"))),
    }
}

/// The sandbox that a word names, alone or with a snapshot.
pub(crate) fn sandbox_in(client: &Client, word: &str) -> Result<Option<SandboxId>, CliError> {
    match parse(word) {
        Word::Sandbox(sandbox) | Word::Within(sandbox, _) => which::find_if_any(client, &sandbox),
        Word::Name(word) => named(client, word),
        Word::Snapshot(_) => Ok(None),
    }
}

/// The snapshot of a sandbox; where there is no such sandbox, the one that has the whole as its
/// name.
fn within(client: &Client, sandbox: &SandboxWord, rest: &str, whole: &str) -> Result<SnapshotId, CliError> {
    match sandbox {
        SandboxWord::Name(_) => match which::find_if_any(client, sandbox)? {
            Some(id) => state_of(client, &id, rest),
            None => anywhere(client, whole),
        },
        sandbox => state_of(client, &which::find(client, sandbox)?, rest),
    }
}

fn anywhere(client: &Client, word: &str) -> Result<SnapshotId, CliError> {
    choose(word, &snapshots(client, None)?, "")
}

/// The sandbox of that name, if it can be one.
fn named(client: &Client, word: &str) -> Result<Option<SandboxId>, CliError> {
    match word.parse() {
        Ok(name) => which::find_if_any(client, &SandboxWord::Name(name)),
        Err(_) => Ok(None),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Word<'a> {
    /// No name: that may be a snapshot's, too.
    Sandbox(SandboxWord),
    Snapshot(SnapshotId),
    Within(SandboxWord, &'a str),
    Name(&'a str),
}

fn parse(word: &str) -> Word<'_> {
    if let Ok(id) = word.parse() {
        return Word::Snapshot(id);
    }
    match word.parse() {
        Ok(SandboxWord::Name(_)) => return Word::Name(word),
        Ok(sandbox) => return Word::Sandbox(sandbox),
        Err(_) => {}
    }
    match word.split_once(':').map(|(sandbox, rest)| (sandbox.parse(), rest)) {
        Some((Ok(sandbox), rest)) if !rest.is_empty() => Word::Within(sandbox, rest),
        _ => Word::Name(word),
    }
}

fn in_sandbox(sandbox: &SandboxId) -> String {
    format!(" of {sandbox}")
}

/// Means the first snapshot of a sandbox, unless another one has this name.
const START: &str = "start";

/// The one snapshot that has this name, or else an id that begins so.
fn choose(word: &str, snapshots: &[Snapshot], of: &str) -> Result<SnapshotId, CliError> {
    let named: Vec<&Snapshot> =
        snapshots.iter().filter(|snapshot| snapshot.name.as_deref() == Some(word)).collect();
    let found = match named.as_slice() {
        [] if word == START => {
            snapshots.iter().filter(|snapshot| snapshot.reason == SnapshotReason::Start).collect()
        }
        [] => beginning_with(word, snapshots),
        _ => named,
    };
    match found.as_slice() {
        [one] => one.snapshot_id.parse().map_err(CliError::new),
        [] => Err(CliError::new(format!("there is no snapshot `{word}`{of}")).hint(
            "`warren snapshots` lists snapshots; one is named by its id, the beginning of it, or its name; `start` is the first",
        )),
        several => {
            let listed: Vec<String> = several
                .iter()
                .take(5)
                .map(|snapshot| format!("{} of {}", short(&snapshot.snapshot_id), snapshot.sandbox_id))
                .collect();
            Err(CliError::new(format!("`{word}` may be any of {} snapshots", several.len()))
                .hint(format!("give more of its id, or SBX:{word}: {}", listed.join(", "))))
        }
    }
}

fn beginning_with<'a>(word: &str, snapshots: &'a [Snapshot]) -> Vec<&'a Snapshot> {
    let digits = word.strip_prefix("snap-").unwrap_or(word);
    if digits.len() < SHORTEST_BEGINNING {
        return Vec::new();
    }
    let begins = |snapshot: &&Snapshot| {
        snapshot.snapshot_id.strip_prefix("snap-").is_some_and(|id| id.starts_with(digits))
    };
    snapshots.iter().filter(begins).collect()
}

#[cfg(test)]
#[path = "point_tests.rs"]
mod tests;
