//! `diff`: what differs between two states, as a patch.

use warren_core::{Change, ChangeKind, DiffOptions, TextDiff};
use warren_engine::{Collector, Point, Sandbox};
use warren_face::error::ApiError;

use super::program::{LEAST_OUTPUT, MOST_OUTPUT, USUAL_OUTPUT};
use super::{Call, travel};
use crate::answer::Answer;

/// Paths that are compared line by line in one answer.
const MOST_PATHS: usize = 500;
/// Entries among which the last change is looked for.
const LOOKED_AT: u32 = 100;

pub(super) async fn show(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let (from, to) = (call.fields.label("from")?, call.fields.label("to")?);
    let below = call.fields.word("path")?.unwrap_or_else(|| "/".to_owned());
    if !below.starts_with('/') {
        return Err(ApiError::invalid("path", "`path` begins with a slash"));
    }
    let most = call.fields.number("max_output_bytes", LEAST_OUTPUT, MOST_OUTPUT)?.unwrap_or(USUAL_OUTPUT);
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let from = match from {
        Some(word) => Some(Point::Snapshot(travel::named_state(&call, &sandbox, "from", &word).await?)),
        None => last_change(&sandbox).await?,
    };
    let Some(from) = from else { return Ok(Answer::text("nothing was changed yet")) };
    let to = match to {
        Some(word) => Point::Snapshot(travel::named_state(&call, &sandbox, "to", &word).await?),
        None => Point::Sandbox(sandbox.id().clone()),
    };
    let options = DiffOptions { below: below.into(), text: true, most: MOST_PATHS, ..DiffOptions::default() };
    let diff = call.engine().snapshots().diff(&from, &to, options).await?;
    let mut shown = Collector::new(usize::try_from(most).unwrap_or(usize::MAX));
    for change in &diff.changes {
        shown.push(patch(change).as_bytes());
    }
    let (text, cut) = shown.finish().text();
    let text = if text.is_empty() { "no difference".to_owned() } else { text };
    let mut answer = Answer::text(text).note("sandbox", sandbox.id().as_str());
    if diff.truncated {
        answer = answer.line(&format!("[more than {MOST_PATHS} paths differ: name a `path`]"));
    }
    if cut || diff.truncated {
        answer = answer.note("truncated", true);
    }
    Ok(answer)
}

/// The state before the last entry that may have changed something.
async fn last_change(sandbox: &Sandbox) -> Result<Option<Point>, ApiError> {
    let entries = sandbox.history().log(None, LOOKED_AT, false).await?;
    let changed = entries.into_iter().map(|told| told.entry).filter(|entry| entry.before != entry.after);
    Ok(changed.filter_map(|entry| entry.before).map(Point::Snapshot).next())
}

fn patch(change: &Change) -> String {
    let path = change.path.display();
    let (old, new) = match change.kind() {
        ChangeKind::Added => ("/dev/null".to_owned(), format!("b{path}")),
        ChangeKind::Changed => (format!("a{path}"), format!("b{path}")),
        ChangeKind::Removed => (format!("a{path}"), "/dev/null".to_owned()),
    };
    let mut text;
    match &change.text {
        Some(TextDiff::Unified(hunks)) => {
            text = format!("--- {old}\n+++ {new}\n{hunks}");
            if !hunks.ends_with('\n') {
                text.push('\n');
            }
        }
        told => {
            let kind = match change.kind() {
                ChangeKind::Added => "added",
                ChangeKind::Changed => "changed",
                ChangeKind::Removed => "removed",
            };
            let why = match told {
                Some(TextDiff::Binary) => " (no text)",
                Some(TextDiff::TooLarge) => " (too large to compare)",
                Some(TextDiff::Same) => " (only its rights or times)",
                Some(TextDiff::Unified(_)) | None => "",
            };
            text = format!("{kind} {path}{why}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn change(text: Option<TextDiff>) -> Change {
        Change { path: PathBuf::from("/a"), before: None, after: None, text }
    }

    #[test]
    fn text_is_a_patch_and_all_else_a_line() {
        let hunks = TextDiff::Unified("@@ -0,0 +1 @@\n+x".to_owned());
        assert_eq!(patch(&change(Some(hunks))), "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(patch(&change(Some(TextDiff::Binary))), "added /a (no text)\n");
        assert_eq!(patch(&change(None)), "added /a\n");
    }
}
