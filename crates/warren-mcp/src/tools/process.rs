//! `process`: what runs in the background, and what it wrote.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use warren_engine::{Process, Sandbox};
use warren_face::error::ApiError;
use warren_wire::guest::{ProcessId, ProcessSelector, Reader};

use super::Call;
use super::program::{LEAST_OUTPUT, LONGEST_WAIT_MS, MOST_OUTPUT, USUAL_OUTPUT, USUAL_WAIT_MS};
use super::watch::{Patience, watch};
use crate::answer::Answer;

/// How long what is there already may take to be read.
const READING: Duration = Duration::from_secs(5);
/// Processes that are listed, the newest of them.
const MOST_LISTED: usize = 50;
/// How much of a command is listed.
const LONGEST_COMMAND: usize = 200;
const LONGEST_INPUT: usize = 1 << 20;

/// Signals by name, with their numbers on Linux.
const SIGNALS: [(&str, i32); 9] = [
    ("TERM", 15),
    ("KILL", 9),
    ("INT", 2),
    ("HUP", 1),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("STOP", 19),
    ("CONT", 18),
];

/// A process as models read it.
#[derive(Debug, Serialize)]
struct Shown {
    id: u64,
    command: String,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    age_ms: u64,
    /// The position after the last byte that it wrote.
    written: u64,
}

#[derive(Debug, Serialize)]
struct List {
    processes: Vec<Shown>,
    more: bool,
}

pub(super) async fn act(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let action = call.fields.text("action")?;
    match action.as_str() {
        "list" => list(call).await,
        "output" => read(call, Wait::No).await,
        "wait" => read(call, Wait::ForMore).await,
        "input" => input(call).await,
        "signal" => signal(call).await,
        _ => Err(ApiError::invalid("action", "`action` is one of list, output, wait, input, signal")),
    }
}

async fn list(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let mut all = sandbox.processes().list().await?;
    all.sort_by_key(|process| std::cmp::Reverse(process.process.0));
    let more = all.len() > MOST_LISTED;
    let processes = all.into_iter().take(MOST_LISTED).map(shown).collect();
    Ok(Answer::record(&List { processes, more }).note("sandbox", sandbox.id().as_str()))
}

fn shown(process: Process) -> Shown {
    let words: Vec<_> = process.argv.iter().map(|word| word.to_text()).collect();
    Shown {
        id: process.process.0,
        command: words.join(" ").chars().take(LONGEST_COMMAND).collect(),
        running: process.exit.is_none(),
        exit_code: process.exit.map(|exit| exit.code),
        age_ms: process.age_ms,
        written: process.kept_to,
    }
}

/// Which part of a process's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// All that there is.
    No,
    /// Also what comes meanwhile.
    ForMore,
}

async fn read(mut call: Call<'_>, wait: Wait) -> Result<Answer, ApiError> {
    let since = call.fields.number("since", 0, u64::MAX)?.unwrap_or(0);
    let wait_ms = call.fields.number("wait_ms", 0, LONGEST_WAIT_MS)?.unwrap_or(USUAL_WAIT_MS);
    let most = call.fields.number("max_output_bytes", LEAST_OUTPUT, MOST_OUTPUT)?.unwrap_or(USUAL_OUTPUT);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (sandbox, process) = named(&mut call).await?;
    let _room = call.engine().room_for(most)?;
    let known = sandbox.processes().get(process.clone()).await?;
    let patience = match wait {
        Wait::No => {
            Patience { until: known.exit.is_none().then_some(known.kept_to), ..Patience::new(READING, most) }
        }
        Wait::ForMore => Patience::new(Duration::from_millis(wait_ms), most),
    };
    let handle = sandbox.processes().follow(process, since, Reader::Skips).await?;
    let (mut reader, _) = handle.split();
    let watched = watch(&call, known.process.0, &mut reader, patience).await;
    Ok(watched.told(sandbox.id()))
}

/// All that a process wrote, as far as it is kept and the usual answer has room for it.
pub(crate) async fn whole_output(
    call: &Call<'_>,
    sandbox: &Sandbox,
    process: u64,
) -> Result<Answer, ApiError> {
    let most = usize::try_from(USUAL_OUTPUT).unwrap_or(usize::MAX);
    let _room = call.engine().room_for(most)?;
    let selector = ProcessSelector::Id(ProcessId(process));
    let handle = sandbox.processes().follow(selector, 0, Reader::Skips).await?;
    let (mut reader, _) = handle.split();
    let watched = watch(call, process, &mut reader, Patience::new(READING, most)).await;
    Ok(watched.told(sandbox.id()))
}

async fn input(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let text = call.fields.text("text")?;
    if text.len() > LONGEST_INPUT {
        return Err(ApiError::invalid("text", format!("`text` has up to {LONGEST_INPUT} bytes")));
    }
    let close = call.fields.flag("close")?;
    let (sandbox, process) = named(&mut call).await?;
    let count = text.len();
    sandbox.processes().input(process, Bytes::from(text), close).await?;
    let closed = if close { ", and its input is closed" } else { "" };
    Ok(Answer::text(format!("wrote {count} bytes{closed}")).note("sandbox", sandbox.id().as_str()))
}

async fn signal(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let name = call.fields.word("signal")?.unwrap_or_else(|| SIGNALS[0].0.to_owned());
    let short = name.strip_prefix("SIG").unwrap_or(&name);
    let Some((name, number)) = SIGNALS.into_iter().find(|(known, _)| *known == short) else {
        let known = SIGNALS.map(|(known, _)| known).join(", ");
        return Err(ApiError::invalid("signal", format!("`signal` is one of {known}")));
    };
    let (sandbox, process) = named(&mut call).await?;
    sandbox.processes().signal(process, number, true).await?;
    Ok(Answer::text(format!("sent {name} to its process group")).note("sandbox", sandbox.id().as_str()))
}

/// The process that the call names, once all else of the call is read.
async fn named(call: &mut Call<'_>) -> Result<(Sandbox, ProcessSelector), ApiError> {
    let id = call.fields.number("id", 0, u64::MAX)?;
    let id = id.ok_or_else(|| ApiError::invalid("id", "`process` needs `id`: `action` list shows them"))?;
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    Ok((sandbox, ProcessSelector::Id(ProcessId(id))))
}
