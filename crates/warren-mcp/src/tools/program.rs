//! `bash` and `python`: programs that are waited for as long as clients wait.

use std::time::Duration;

use bytes::Bytes;
use warren_engine::{ProcessHandle, ProcessSpec, Sandbox};
use warren_face::error::ApiError;
use warren_wire::guest::{Reader, Stdin};

use super::Call;
use super::watch::{End, Patience, watch};
use crate::answer::Answer;

/// Below what the common clients wait for an answer, which is a minute.
pub(super) const USUAL_WAIT_MS: u64 = 45_000;
pub(super) const LONGEST_WAIT_MS: u64 = 55_000;
pub(super) const LONGEST_TIMEOUT_MS: u64 = 86_400_000;
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

pub(super) async fn bash(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let command = call.fields.text("command")?;
    if command.len() > LONGEST_COMMAND {
        let detail = format!(
            "`command` has {} bytes, and the system takes {LONGEST_COMMAND}: write it to a file and run that",
            command.len()
        );
        return Err(ApiError::invalid("command", detail));
    }
    let (sandbox, order) = Order::read(&mut call).await?;
    let handle = sandbox.start_line(&command, order.spec.clone()).await?;
    answer(&call, &sandbox, &order, handle, Bytes::new()).await
}

pub(super) async fn python(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let code = call.fields.text("code")?;
    let (sandbox, order) = Order::read(&mut call).await?;
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
        let patience = Patience { wait: Duration::from_millis(wait_ms), most };
        Ok((sandbox, Self { spec, patience, background }))
    }
}

/// Waits for what was started, and answers how far it is.
async fn answer(
    call: &Call<'_>,
    sandbox: &Sandbox,
    order: &Order,
    handle: ProcessHandle,
    stdin: Bytes,
) -> Result<Answer, ApiError> {
    let _room = call.engine().room_for(order.patience.most)?;
    let (process, entry) = (handle.started.process.0, handle.entry);
    let (mut reader, mut writer) = handle.split();
    let feed = async {
        // A program that reads none of it, or not all, is no failure.
        if !stdin.is_empty() && writer.write(stdin).await.is_ok() {
            writer.close_stdin().await.ok();
        }
    };
    let watched = watch(call, process, &mut reader, order.patience, feed).await;
    if matches!(watched.end, End::Cancelled) && !order.background {
        // Nobody will ask for it any more.
        writer.signal(SIGKILL).await.ok();
    }
    Ok(watched.told(sandbox.id()).entered(entry))
}
