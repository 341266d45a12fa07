//! `bash` and `python`: programs that are waited for as long as clients wait.

use std::time::Duration;

use bytes::Bytes;
use warren_engine::{ProcessHandle, ProcessSpec, Sandbox};
use warren_face::error::ApiError;
use warren_wire::guest::{ProcessId, ProcessSelector, Reader, Stdin};

use super::ask::{self, Begun};
use super::cell::{self, Cell};
use super::watch::{End, Patience, watch_beside};
use super::{Call, Reply};
use crate::tasks;

/// Below what the common clients wait for an answer, which is a minute.
pub(super) const USUAL_WAIT_MS: u64 = 45_000;
pub(super) const LONGEST_WAIT_MS: u64 = 55_000;
const LONGEST_TIMEOUT_MS: u64 = 86_400_000;
/// Within what the common clients take.
pub(super) const USUAL_OUTPUT: u64 = 30_000;
pub(super) const LEAST_OUTPUT: u64 = 100;
pub(super) const MOST_OUTPUT: u64 = 1 << 20;
/// The kernel takes no longer argument, and some of it is ours.
const LONGEST_COMMAND: usize = 120_000;

const SIGKILL: i32 = 9;

/// How a program is to be run.
struct Order {
    spec: ProcessSpec,
    patience: Patience,
    background: bool,
}

pub(super) async fn bash(mut call: Call<'_>) -> Result<Reply, ApiError> {
    let command = call.fields.text("command")?;
    if command.len() > LONGEST_COMMAND {
        let detail = format!(
            "`command` has {} bytes, and the system takes {LONGEST_COMMAND}: write it to a file and run that",
            command.len()
        );
        return Err(ApiError::invalid("command", detail));
    }
    let (sandbox, order) = Order::read(&mut call).await?;
    if let Some(begun) = Begun::of(&call)? {
        return again(&call, &sandbox, &order, begun).await;
    }
    let handle = sandbox.start_line(&command, order.spec.clone()).await?;
    answer(&call, &sandbox, &order, handle, Bytes::new()).await
}

pub(super) async fn python(mut call: Call<'_>) -> Result<Reply, ApiError> {
    let code = call.fields.text("code")?;
    let context = call.fields.word("context")?;
    if context.is_some() && (call.fields.has("background") || call.fields.has("cwd")) {
        let detail = "a context keeps its directory, and runs nothing in the background: leave out `cwd` and `background`";
        return Err(ApiError::invalid("context", detail));
    }
    let (sandbox, order) = Order::read(&mut call).await?;
    if let Some(context) = context {
        let Patience { wait, most, .. } = order.patience;
        return Ok(cell::run(&call, &sandbox, Cell { code, context, wait, most }).await?.into());
    }
    if let Some(begun) = Begun::of(&call)? {
        return again(&call, &sandbox, &order, begun).await;
    }
    let argv = ["python3", "-u", "-"].map(Into::into).to_vec();
    let spec = ProcessSpec { argv, stdin: Stdin::Piped, ..order.spec.clone() };
    let handle = sandbox.start(spec).await?;
    answer(&call, &sandbox, &order, handle, code.into()).await
}

impl Order {
    async fn read(call: &mut Call<'_>) -> Result<(Sandbox, Self), ApiError> {
        let fields = &mut call.fields;
        let cwd = fields.word("cwd")?.map(|cwd| cwd.as_str().into());
        let wait_ms = fields.number("wait_ms", 0, LONGEST_WAIT_MS)?;
        let timeout_ms = fields.number("timeout_ms", 1, LONGEST_TIMEOUT_MS)?;
        let background = fields.flag("background")?;
        let most = fields.number("max_output_bytes", LEAST_OUTPUT, MOST_OUTPUT)?.unwrap_or(USUAL_OUTPUT);
        let sandbox = call.sandbox().await?;
        call.fields.finish()?;
        // Somebody may want to write to what runs in the background.
        let stdin = if background { Stdin::Piped } else { Stdin::Null };
        let spec =
            ProcessSpec { cwd, timeout_ms, stdin, follow: Some(Reader::Holds), ..ProcessSpec::default() };
        let wait_ms = if background { 0 } else { wait_ms.unwrap_or(USUAL_WAIT_MS) };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let patience = Patience::new(Duration::from_millis(wait_ms), most);
        Ok((sandbox, Self { spec, patience, background }))
    }
}

/// Waits for what an earlier call started, once its questions are answered.
async fn again(call: &Call<'_>, sandbox: &Sandbox, order: &Order, begun: Begun) -> Result<Reply, ApiError> {
    ask::answer(sandbox, &call.answers).await?;
    let selector = ProcessSelector::Id(ProcessId(begun.process));
    let handle = sandbox.processes().follow(selector, 0, Reader::Skips).await?;
    let handle = ProcessHandle { entry: begun.entry, ..handle };
    answer(call, sandbox, order, handle, Bytes::new()).await
}

/// Waits for what was started, and answers how far it is.
async fn answer(
    call: &Call<'_>,
    sandbox: &Sandbox,
    order: &Order,
    handle: ProcessHandle,
    stdin: Bytes,
) -> Result<Reply, ApiError> {
    let _room = call.engine().room_for(order.patience.most)?;
    let (process, entry) = (handle.started.process.0, handle.entry);
    let (mut reader, mut writer) = handle.split();
    let feed = async {
        // A program that reads none of it, or not all, is no failure.
        if !stdin.is_empty() && writer.write(stdin).await.is_ok() {
            writer.close_stdin().await.ok();
        }
    };
    let beside = (feed, ask::asked(call, sandbox));
    let watched = watch_beside(call, process, &mut reader, order.patience, beside).await;
    match &watched.end {
        // Nobody will ask for it any more.
        End::Cancelled if !order.background => drop(writer.signal(SIGKILL).await),
        End::Asks(asks) => {
            return Ok(Reply::Question(ask::question(sandbox, asks, Begun { process, entry })?));
        }
        End::Runs if call.takes_tasks() && !order.background => {
            return Ok(Reply::Task(tasks::begun(call.desk, sandbox.id(), process, entry)));
        }
        End::Runs | End::Cancelled | End::Exited(_) | End::Lost(_) => {}
    }
    let mut told = watched.told(sandbox.id());
    if matches!(watched.end, End::Runs) {
        for ask in ask::pending(sandbox).await {
            told = told.line(&format!("[it waits for leave to reach {}: `warren net` answers]", ask.rule));
        }
    }
    Ok(told.entered(entry).into())
}
