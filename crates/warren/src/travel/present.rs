//! States, changes and entries as people read them.

use warren_core::ByteSize;
use warren_wire::api::{
    Conflict, DiffKind, FileDeed, FileDiff, FileState, FileType, JournalAction, JournalEntry,
};

use crate::time::took;
use crate::ui;
use crate::word::word;

/// The beginning of a snapshot's id, long enough to tell it from others.
pub(crate) fn short(id: &str) -> String {
    id.strip_prefix("snap-").unwrap_or(id).chars().take(8).collect()
}

pub(crate) fn size(bytes: Option<u64>) -> String {
    bytes.map(|bytes| ByteSize(bytes).to_string()).unwrap_or_default()
}

/// An entry's action, in a line.
pub(crate) fn action(entry: &JournalEntry) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match entry.action {
        JournalAction::Exec => text(&entry.command),
        JournalAction::Terminal => {
            let took = entry.ended_at.as_deref().and_then(|ended| took(&entry.began_at, ended));
            let took = took.map(|took| format!(" ({took})")).unwrap_or_default();
            format!("terminal: {}{took}", text(&entry.command))
        }
        JournalAction::Tool => format!("{} {}", text(&entry.tool), text(&entry.params)),
        JournalAction::Files => file_action(entry),
        JournalAction::Turn => format!("(turn {} complete)", entry.turn),
        JournalAction::Rollback => {
            format!("(rollback to {})", entry.snapshot_id.as_deref().map(short).unwrap_or_default())
        }
        JournalAction::Move => format!("(move from {} to {})", text(&entry.from), text(&entry.to)),
        JournalAction::Promote => {
            let below = entry.path.as_ref().map(|path| format!(", {path}")).unwrap_or_default();
            let line = format!("(promote of {}{below}) {}", text(&entry.from_id), text(&entry.command));
            line.trim_end().to_owned()
        }
        JournalAction::Unknown => "(something that this warren is too old to name)".to_owned(),
    }
}

/// `write /a/b (3 files, 12 KiB)`, with the words of the commands that do the same.
fn file_action(entry: &JournalEntry) -> String {
    let verb = match entry.operation {
        Some(FileDeed::Write) => "write",
        Some(FileDeed::Unpack) => "unpack",
        Some(FileDeed::MakeDirectory) => "mkdir",
        Some(FileDeed::Rename) => "mv",
        Some(FileDeed::Remove) => "rm",
        Some(FileDeed::SetPermissions) => "chmod",
        Some(FileDeed::SetOwner) => "chown",
        Some(FileDeed::MakeSymlink) => "ln -s",
        Some(FileDeed::SetAttributes) => "setattr",
        Some(FileDeed::Unknown) | None => "files",
    };
    let mut text = format!("{verb} {}", entry.path.as_deref().unwrap_or_default());
    if let Some(to) = &entry.to {
        text.push_str(&format!(" → {to}"));
    }
    let files = |files| if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    let amount = [entry.files.map(files), entry.bytes.map(|bytes| size(Some(bytes)))];
    let amount: Vec<String> = amount.into_iter().flatten().collect();
    if !amount.is_empty() {
        text.push_str(&format!(" ({})", amount.join(", ")));
    }
    text
}

/// An entry's end, in a word.
pub(crate) fn ending(entry: &JournalEntry) -> String {
    match (entry.exit_code, &entry.detail, &entry.ended_at) {
        (Some(code), _, _) => code.to_string(),
        (None, Some(detail), _) => one_line(detail, 40),
        (None, None, Some(_)) => String::new(),
        (None, None, None) => "running".to_owned(),
    }
}

/// The first line of a command, no longer than a terminal's.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    if first.chars().count() > most || lines.next().is_some() {
        let cut: String = first.chars().take(most.saturating_sub(1)).collect();
        return format!("{cut}…");
    }
    first.to_owned()
}

pub(crate) fn sign(kind: DiffKind) -> char {
    match kind {
        DiffKind::Added => '+',
        DiffKind::Changed => '~',
        DiffKind::Removed => '-',
    }
}

/// Prints changed paths with their changes, and a line that counts them.
pub(crate) fn print_changes(changes: &[FileDiff], truncated: bool) {
    let width = changes.iter().map(|change| change.path.chars().count()).max().unwrap_or(0).min(60);
    for change in changes {
        let line = format!("{} {:width$}  {}", sign(change.kind), change.path, difference(change));
        ui::print_plain(line.trim_end());
    }
    if !changes.is_empty() || truncated {
        ui::print(&summary(changes, truncated));
    }
}

pub(crate) fn print_conflicts(conflicts: &[Conflict]) {
    for conflict in conflicts {
        let (ours, theirs) = (past(conflict.ours), past(conflict.theirs));
        ui::say(&format!("! {}  {ours} here, {theirs} in the fork", conflict.path));
    }
}

fn past(kind: DiffKind) -> &'static str {
    match kind {
        DiffKind::Added => "added",
        DiffKind::Changed => "changed",
        DiffKind::Removed => "removed",
    }
}

/// `3 paths: 1 added, 2 changed`.
pub(crate) fn summary(changes: &[FileDiff], truncated: bool) -> String {
    let counts = [DiffKind::Added, DiffKind::Changed, DiffKind::Removed].map(|kind| {
        let count = changes.iter().filter(|change| change.kind == kind).count();
        (count, past(kind))
    });
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let paths = if changes.len() == 1 { "path" } else { "paths" };
    let more = if truncated { ", and more that are not shown" } else { "" };
    format!("{} {paths}: {}{more}", changes.len(), parts.join(", "))
}

/// The changes of a path: its size, its kind, its permissions, its owner.
fn difference(change: &FileDiff) -> String {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            let mut parts = Vec::new();
            let sizes = (described(before), described(after));
            if sizes.0 != sizes.1 {
                parts.push(format!("{} → {}", sizes.0, sizes.1));
            }
            if before.mode != after.mode {
                parts.push(format!("{} → {}", before.mode, after.mode));
            }
            if (before.uid, before.gid) != (after.uid, after.gid) {
                parts.push(format!("{}:{} → {}:{}", before.uid, before.gid, after.uid, after.gid));
            }
            if parts.is_empty() { described(after) } else { parts.join(", ") }
        }
        (Some(one), None) | (None, Some(one)) => described(one),
        (None, None) => String::new(),
    }
}

fn described(state: &FileState) -> String {
    match state.kind {
        FileType::File => ByteSize(state.size_bytes).to_string(),
        kind => word(&kind).replace('_', " "),
    }
}

#[cfg(test)]
#[path = "present_tests.rs"]
mod tests;
