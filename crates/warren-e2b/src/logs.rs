//! Events of a sandbox, shown as lines of a log.

use std::collections::{BTreeMap, VecDeque};

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use warren_core::catalog::EventFilter;
use warren_core::{Event, EventRecord, SandboxId};
use warren_face::auth::Caller;
use warren_face::extract::Params;
use warren_face::time::rfc3339;

use crate::error::E2bError;
use crate::extract::Id;
use crate::rest::{LogEntry, LogLevel, LogLine, SandboxLogLines, SandboxLogs, Team};
use crate::shown::find as find_sandbox;
use crate::state::E2b;

/// How far back is looked: so many events of the whole server.
const REACH: u64 = 50_000;
/// Events that are read at a time.
const PAGE: u32 = 1000;
const MOST: u64 = 1000;

/// Which entries somebody wants.
#[derive(Debug)]
struct Wanted {
    /// From this moment on, or up to it.
    cursor_ms: Option<u64>,
    limit: usize,
    newest_first: bool,
    level: LogLevel,
    search: Option<String>,
}

/// Row 17.
pub(crate) async fn entries(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    params: Params,
) -> Result<Json<SandboxLogs>, E2bError> {
    let wanted = Wanted {
        cursor_ms: params.number("cursor", 0, u64::MAX)?,
        limit: limit(&params)?,
        newest_first: match params.text("direction") {
            None | Some("forward") => false,
            Some("backward") => true,
            Some(_) => return Err(E2bError::bad_request("direction: `forward` or `backward`")),
        },
        level: level(&params)?,
        search: params.text("search").map(str::to_owned),
    };
    let logs = find(&state, &caller, &id, &wanted).await?;
    Ok(Json(SandboxLogs { logs }))
}

/// Row 17b.
pub(crate) async fn lines(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    params: Params,
) -> Result<Json<SandboxLogLines>, E2bError> {
    let wanted = Wanted {
        cursor_ms: params.number("start", 0, u64::MAX)?,
        limit: limit(&params)?,
        newest_first: false,
        level: LogLevel::Debug,
        search: None,
    };
    let log_entries = find(&state, &caller, &id, &wanted).await?;
    let line = |entry: &LogEntry| LogLine { timestamp: entry.timestamp.clone(), line: entry.message.clone() };
    Ok(Json(SandboxLogLines { logs: log_entries.iter().map(line).collect(), log_entries }))
}

/// An owner is a team of its own.
pub(crate) async fn teams(caller: Caller) -> Json<Vec<Team>> {
    let name = caller.owner.to_string();
    Json(vec![Team { team_id: name.clone(), name, api_key: String::new(), is_default: true }])
}

fn limit(params: &Params) -> Result<usize, E2bError> {
    let limit = params.number("limit", 1, MOST)?.unwrap_or(MOST);
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn level(params: &Params) -> Result<LogLevel, E2bError> {
    match params.text("level") {
        None | Some("debug") => Ok(LogLevel::Debug),
        Some("info") => Ok(LogLevel::Info),
        Some("warn") => Ok(LogLevel::Warn),
        Some("error") => Ok(LogLevel::Error),
        Some(_) => Err(E2bError::bad_request("level: `debug`, `info`, `warn` or `error`")),
    }
}

async fn find(
    state: &E2b,
    caller: &Caller,
    id: &SandboxId,
    wanted: &Wanted,
) -> Result<Vec<LogEntry>, E2bError> {
    find_sandbox(state, caller, id).await?;
    let mut after = state.engine.last_event().await.saturating_sub(REACH);
    let mut found = VecDeque::new();
    loop {
        let of_it = EventFilter { sandbox: Some(id.clone()), ..EventFilter::default() };
        let (page, seen) = state.engine.as_(caller).events().find(of_it, after, PAGE).await?;
        for entry in page.iter().filter_map(|event| wanted.entry(event)) {
            found.push_back(entry);
            if found.len() > wanted.limit {
                if !wanted.newest_first {
                    found.pop_back();
                    return Ok(found.into());
                }
                found.pop_front();
            }
        }
        // A page that is not full is the last one.
        if page.len() < PAGE as usize {
            break;
        }
        after = seen;
    }
    Ok(if wanted.newest_first { found.into_iter().rev().collect() } else { found.into() })
}

impl Wanted {
    /// The line for an event, if it is wanted.
    fn entry(&self, event: &EventRecord) -> Option<LogEntry> {
        let in_time = self.cursor_ms.is_none_or(|cursor| match self.newest_first {
            true => event.at_unix_ms <= cursor,
            false => event.at_unix_ms >= cursor,
        });
        in_time.then(|| entry(event)).filter(|entry| self.matches(entry))
    }

    fn matches(&self, entry: &LogEntry) -> bool {
        entry.level >= self.level && self.search.as_ref().is_none_or(|words| entry.message.contains(words))
    }
}

/// An event in words, with all that it says as fields.
fn entry(record: &EventRecord) -> LogEntry {
    let mut fields = BTreeMap::from([("number".to_owned(), record.number.to_string())]);
    if let Ok(Value::Object(members)) = serde_json::to_value(&record.event) {
        fields.extend(members.into_iter().map(|(name, value)| match value {
            Value::String(text) => (name, text),
            value => (name, value.to_string()),
        }));
    }
    LogEntry {
        timestamp: rfc3339(record.at_unix_ms),
        message: message(&record.event),
        level: level_of(&record.event),
        fields,
    }
}

fn level_of(event: &Event) -> LogLevel {
    match event {
        Event::NetworkDenied { .. } | Event::NetworkAsked { .. } => LogLevel::Warn,
        Event::NetworkLost { .. } => LogLevel::Error,
        Event::ExecEnded { exit_code, .. } if *exit_code != 0 => LogLevel::Warn,
        _ => LogLevel::Info,
    }
}

fn message(event: &Event) -> String {
    match event {
        Event::SandboxCreated { template, .. } => format!("the sandbox is made from the template {template}"),
        Event::SandboxReady { took_ms } => format!("the sandbox is ready after {took_ms} ms"),
        Event::SandboxPaused { .. } => "the sandbox is paused".to_owned(),
        Event::SandboxResumed { took_ms } => format!("the sandbox goes on after {took_ms} ms"),
        Event::SandboxDied { detail, .. } => format!("the sandbox ended: {detail}"),
        Event::ExecStarted { process, command } => format!("process {process} started: {command}"),
        Event::ExecEnded { process, exit_code, duration_ms } => {
            format!("process {process} ended with code {exit_code} after {duration_ms} ms")
        }
        Event::NetworkDenied { entry } | Event::NetworkAsked { entry } => {
            let address = entry.address.map(|address| address.to_string());
            let host = entry.host.clone().or(address).unwrap_or_default();
            format!("a connection to {host}:{} was not let through: {}", entry.port, entry.rule)
        }
        Event::NetworkChanged { mode, by } => format!("{by} changed what the network allows: mode {mode}"),
        Event::NetworkLost { detail } => format!("the sandbox lost its network: {detail}"),
        other => word(other),
    }
}

/// The name of an event's kind.
fn word(event: &Event) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    value.get("event").and_then(Value::as_str).unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use warren_core::Owner;

    use super::*;

    fn record(event: Event) -> EventRecord {
        let sandbox = Some(SandboxId::from_random([1; 16]));
        EventRecord { number: 7, at_unix_ms: 1500, owner: Owner::first(), sandbox, session: None, event }
    }

    #[test]
    fn an_event_is_a_line_with_fields() {
        let told = entry(&record(Event::ExecStarted { process: 3, command: "echo hi".to_owned() }));
        assert_eq!(told.message, "process 3 started: echo hi");
        assert_eq!((told.timestamp.as_str(), told.level), ("1970-01-01T00:00:01.500Z", LogLevel::Info));
        let field = |name: &str| told.fields.get(name).map(String::as_str);
        assert_eq!(
            (field("event"), field("process"), field("number")),
            (Some("exec_started"), Some("3"), Some("7"))
        );
        let other = entry(&record(Event::SandboxAdopted));
        assert_eq!(other.message, "sandbox adopted");
    }

    #[test]
    fn what_is_wanted_is_a_time_a_level_and_words() {
        let failed = record(Event::ExecEnded { process: 3, exit_code: 1, duration_ms: 5 });
        let wanted = |cursor_ms, newest_first, level, search: Option<&str>| Wanted {
            cursor_ms,
            limit: 1,
            newest_first,
            level,
            search: search.map(str::to_owned),
        };
        assert!(wanted(Some(1500), false, LogLevel::Warn, Some("code 1")).entry(&failed).is_some());
        assert!(wanted(Some(1500), true, LogLevel::Debug, None).entry(&failed).is_some());
        assert!(wanted(Some(1501), false, LogLevel::Debug, None).entry(&failed).is_none());
        assert!(wanted(Some(1499), true, LogLevel::Debug, None).entry(&failed).is_none());
        assert!(wanted(None, false, LogLevel::Error, None).entry(&failed).is_none());
        assert!(wanted(None, false, LogLevel::Debug, Some("code 2")).entry(&failed).is_none());
    }
}
