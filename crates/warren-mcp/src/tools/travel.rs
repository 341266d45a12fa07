//! Going back and forth between the states of a sandbox.

use warren_core::PageRequest;
use warren_core::SnapshotId;
use warren_core::catalog::SnapshotFilter;
use warren_engine::{RolledBack, Sandbox, TakeSnapshot, WayBack};
use warren_face::error::{ApiError, Code};

use super::Call;
use crate::answer::Answer;

/// More states than anybody goes back at a time.
const MOST_STEPS: u64 = 1000;

pub(super) async fn undo(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let to = call.fields.label("to")?;
    let steps = call.fields.number("steps", 1, MOST_STEPS)?;
    let redo = call.fields.flag("redo")?;
    let force = call.fields.flag("force")?;
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    if to.is_some() && (redo || steps.is_some()) {
        return Err(ApiError::invalid("to", "`to` says where to go: leave out `steps` and `redo`"));
    }
    let steps = u32::try_from(steps.unwrap_or(1)).unwrap_or(u32::MAX);
    let history = sandbox.history();
    let went = match to {
        Some(to) => history.rollback(&named_state(&call, &sandbox, "to", &to).await?, force).await?,
        None if redo => history.redo(steps, force).await?,
        None => history.undo(steps, force).await?,
    };
    Ok(told(&sandbox, &went))
}

pub(super) async fn checkpoint(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let name = call.fields.word("name")?;
    let name = name.ok_or_else(|| ApiError::invalid("name", "`checkpoint` needs `name`: it is missing"))?;
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let order = TakeSnapshot { name: Some(name.clone()), ..TakeSnapshot::default() };
    let taken = sandbox.history().take(order).await?;
    call.desk.counters.took(&taken);
    let id = taken.snapshot.id.as_str().to_owned();
    let told = format!("The files as they are now are the checkpoint `{name}`, {id}.");
    let back = format!("[undo(to=\"{name}\") comes back to it]");
    Ok(Answer::text(told).line(&back).note("sandbox", sandbox.id().as_str()).note("snapshot", id))
}

/// The state that a word of this argument means.
pub(super) async fn named_state(
    call: &Call<'_>,
    sandbox: &Sandbox,
    field: &str,
    word: &str,
) -> Result<SnapshotId, ApiError> {
    state(call, sandbox, word).await.map_err(|error| error.field(field))
}

/// A number is the state after that entry of the journal; else it is a snapshot's id or a
/// checkpoint's name.
async fn state(call: &Call<'_>, sandbox: &Sandbox, word: &str) -> Result<SnapshotId, ApiError> {
    let digits = word.trim_start_matches('#');
    if let Ok(number) = digits.parse::<u64>() {
        return sandbox
            .history()
            .state_after(number)
            .await
            .map_err(|error| ApiError::from(error).field("to"));
    }
    if let Ok(id) = word.parse() {
        return Ok(id);
    }
    let filter = SnapshotFilter {
        sandbox: Some(sandbox.id().clone()),
        name: Some(word.to_owned()),
        ..SnapshotFilter::default()
    };
    let found = call.engine().snapshots().list(&filter, &PageRequest::default()).await?;
    let named = found.items.into_iter().next().map(|snapshot| snapshot.id);
    named.ok_or_else(|| {
        let word: String = word.chars().take(80).collect();
        let detail = format!("there is no checkpoint `{word}`: `history` shows entries, states and names");
        ApiError::new(Code::SnapshotNotFound, detail)
    })
}

fn told(sandbox: &Sandbox, went: &RolledBack) -> Answer {
    let name = went.to.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
    let mut answer = Answer::text(format!("All files are as in the state {}{name}.", went.to.id));
    for process in &went.ended {
        answer = answer
            .line(&format!("Ended with what was replaced: process {} `{}`", process.id, process.command));
    }
    let back = match went.back {
        Some(WayBack::Undo(1)) => "undo()".to_owned(),
        Some(WayBack::Undo(steps)) => format!("undo(steps={steps})"),
        Some(WayBack::Redo(1)) => "undo(redo=true)".to_owned(),
        Some(WayBack::Redo(steps)) => format!("undo(redo=true, steps={steps})"),
        None => format!("undo(to=\"{}\")", went.safety.id),
    };
    let number = went.entry.map(|number| format!("#{number} · ")).unwrap_or_default();
    answer = answer.line(&format!("[{number}{back} takes it back]"));
    if let Some(number) = went.entry {
        answer = answer.note("entry", number);
    }
    answer.note("sandbox", sandbox.id().as_str()).note("snapshot", went.to.id.as_str())
}
