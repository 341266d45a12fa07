use warren_core::{Action, FileDeed, JournalEntry};
use warren_engine::{LogEntry, PathState};
use warren_wire::api;

use super::rfc3339;

pub(crate) fn log_entry(log: &LogEntry) -> api::JournalEntry {
    api::JournalEntry { changed: log.changed, ..journal_entry(&log.entry) }
}

pub(crate) fn journal_entry(entry: &JournalEntry) -> api::JournalEntry {
    let outcome = entry.outcome.as_ref();
    let plain = api::JournalEntry {
        number: entry.number,
        turn: entry.turn,
        action: api::JournalAction::Turn,
        command: None,
        process_id: None,
        tool: None,
        call_id: None,
        params: None,
        operation: None,
        path: None,
        to: None,
        bytes: None,
        files: None,
        snapshot_id: None,
        from_id: None,
        session_id: entry.session.as_ref().map(ToString::to_string),
        by: entry.by.clone(),
        began_at: rfc3339(entry.began_unix_ms),
        ended_at: entry.ended_unix_ms.map(rfc3339),
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        detail: outcome.and_then(|outcome| outcome.detail.clone()),
        before_id: entry.before.as_ref().map(ToString::to_string),
        after_id: entry.after.as_ref().map(ToString::to_string),
        not_kept: entry.not_kept.clone(),
        changed: None,
    };
    with_action(plain, &entry.action)
}

fn with_action(plain: api::JournalEntry, action: &Action) -> api::JournalEntry {
    match action {
        Action::Exec { command, process } => api::JournalEntry {
            action: api::JournalAction::Exec,
            command: Some(command.clone()),
            process_id: *process,
            ..plain
        },
        Action::Terminal { command, process } => api::JournalEntry {
            action: api::JournalAction::Terminal,
            command: Some(command.clone()),
            process_id: *process,
            ..plain
        },
        Action::Tool { tool, call, summary } => api::JournalEntry {
            action: api::JournalAction::Tool,
            tool: Some(tool.clone()),
            call_id: call.clone(),
            params: Some(summary.clone()),
            ..plain
        },
        Action::Files { operation, path, to, bytes, files } => api::JournalEntry {
            action: api::JournalAction::Files,
            operation: Some(deed(*operation)),
            path: Some(path.clone()),
            to: to.clone(),
            bytes: *bytes,
            files: *files,
            ..plain
        },
        Action::Turn => plain,
        Action::Rollback { to } => api::JournalEntry {
            action: api::JournalAction::Rollback,
            snapshot_id: Some(to.to_string()),
            ..plain
        },
        Action::Promote { from, command } => api::JournalEntry {
            action: api::JournalAction::Promote,
            command: command.clone(),
            from_id: Some(from.to_string()),
            ..plain
        },
    }
}

pub(crate) fn path_state(state: PathState) -> api::PathState {
    match state {
        PathState::Changed => api::PathState::Changed,
        PathState::AsItBegan => api::PathState::AsItBegan,
        PathState::Removed => api::PathState::Removed,
        PathState::NeverThere => api::PathState::NeverThere,
    }
}

fn deed(deed: FileDeed) -> api::FileDeed {
    match deed {
        FileDeed::Write => api::FileDeed::Write,
        FileDeed::Unpack => api::FileDeed::Unpack,
        FileDeed::MakeDirectory => api::FileDeed::MakeDirectory,
        FileDeed::Rename => api::FileDeed::Rename,
        FileDeed::Remove => api::FileDeed::Remove,
        FileDeed::SetPermissions => api::FileDeed::SetPermissions,
        FileDeed::SetOwner => api::FileDeed::SetOwner,
        FileDeed::MakeSymlink => api::FileDeed::MakeSymlink,
        FileDeed::SetAttributes => api::FileDeed::SetAttributes,
    }
}
