use warren_core::{Action, JournalEntry};
use warren_engine::LogEntry;
use warren_wire::api;

use super::rfc3339;
use super::words::file_deed;

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
        from: None,
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
            operation: Some(file_deed(*operation)),
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
        Action::Move { from, to } => api::JournalEntry {
            action: api::JournalAction::Move,
            from: Some(from.clone()),
            to: Some(to.clone()),
            ..plain
        },
        Action::Promote { from, path, command } => api::JournalEntry {
            action: api::JournalAction::Promote,
            command: command.clone(),
            from_id: Some(from.to_string()),
            path: path.clone(),
            ..plain
        },
    }
}
