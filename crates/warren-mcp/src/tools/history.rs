//! `history`: what was done in a sandbox, and what last changed a path.

use std::path::Path;

use serde::Serialize;
use warren_core::catalog::SnapshotFilter;
use warren_core::{JournalEntry, PageRequest, SnapshotRecord};
use warren_engine::{LogEntry, PathState, Sandbox};
use warren_face::error::{ApiError, Code};
use warren_face::time::rfc3339;

use super::Call;
use crate::answer::Answer;

const USUAL_LIMIT: u64 = 20;
const MOST_ENTRIES: u64 = 200;
/// Names that are told along.
const MOST_CHECKPOINTS: u32 = 50;

/// An entry as models read it.
#[derive(Debug, Serialize)]
struct Entry {
    entry: u64,
    did: String,
    by: String,
    began_at: String,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Absent where the state before or after is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    paths_changed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_kept: Option<String>,
}

#[derive(Debug, Serialize)]
struct Checkpoint {
    name: String,
    snapshot_id: String,
    at: String,
}

#[derive(Debug, Serialize)]
struct History {
    /// The newest first.
    entries: Vec<Entry>,
    checkpoints: Vec<Checkpoint>,
}

#[derive(Debug, Serialize)]
struct Blamed {
    path: String,
    state: &'static str,
    changed_by: Vec<Entry>,
}

pub(super) async fn show(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let path = call.fields.word("path")?;
    let limit = call.fields.number("limit", 1, MOST_ENTRIES)?.unwrap_or(USUAL_LIMIT);
    let before = call.fields.number("before", 1, u64::MAX)?;
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let answer = match path {
        Some(path) => Answer::record(&blamed(&sandbox, path).await?),
        None => {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let entries = match sandbox.history().log(before, limit, true).await {
                // Counting what each entry changed takes work, and the entries alone do not.
                Err(error) if error.code() == Code::MaxHeavyWork => {
                    sandbox.history().log(before, limit, false).await?
                }
                counted => counted?,
            };
            let entries = entries.iter().map(entry).collect();
            Answer::record(&History { entries, checkpoints: checkpoints(&call, &sandbox).await? })
        }
    };
    Ok(answer.note("sandbox", sandbox.id().as_str()))
}

async fn blamed(sandbox: &Sandbox, path: String) -> Result<Blamed, ApiError> {
    let blame = sandbox.history().blame(Path::new(&path)).await?;
    let state = match blame.state {
        PathState::Changed => "changed since the sandbox was made",
        PathState::AsItBegan => "as it was when the sandbox was made",
        PathState::Removed => "removed",
        PathState::NeverThere => "never there",
    };
    let lines = blame.entries.iter().zip(blame.lines());
    let changed_by = lines.map(|(entry, line)| of_journal(entry, line)).collect();
    Ok(Blamed { path, state, changed_by })
}

async fn checkpoints(call: &Call<'_>, sandbox: &Sandbox) -> Result<Vec<Checkpoint>, ApiError> {
    let filter =
        SnapshotFilter { sandbox: Some(sandbox.id().clone()), named: true, ..SnapshotFilter::default() };
    let page = PageRequest { limit: MOST_CHECKPOINTS, ..PageRequest::default() };
    let found = call.engine().snapshots().list(&filter, &page).await?;
    Ok(found.items.into_iter().filter_map(checkpoint).collect())
}

fn checkpoint(snapshot: SnapshotRecord) -> Option<Checkpoint> {
    Some(Checkpoint {
        name: snapshot.name?,
        snapshot_id: snapshot.id.to_string(),
        at: rfc3339(snapshot.created_unix_ms),
    })
}

fn entry(told: &LogEntry) -> Entry {
    Entry { paths_changed: told.changed, ..of_journal(&told.entry, told.line()) }
}

fn of_journal(entry: &JournalEntry, line: String) -> Entry {
    let outcome = entry.outcome.as_ref();
    Entry {
        entry: entry.number,
        did: line,
        by: entry.by.clone(),
        began_at: rfc3339(entry.began_unix_ms),
        running: entry.ended_unix_ms.is_none(),
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        detail: outcome.and_then(|outcome| outcome.detail.clone()),
        paths_changed: None,
        not_kept: entry.not_kept.clone(),
    }
}
