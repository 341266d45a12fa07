//! Waiting for a process, but not longer than clients wait for an answer.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use warren_engine::{Collector, NetworkAsk, Output, ProcessEvent, ProcessReader};
use warren_face::error::ApiError;
use warren_wire::guest::{Exit, ExitCause};

use super::Call;
use crate::answer::Answer;
use crate::plain::{last_line, plain};
use crate::uri;

/// A client that waits is told of progress so often.
const PROGRESS: Duration = Duration::from_secs(5);
/// How much of a program's last line is told as progress.
const LONGEST_PROGRESS: usize = 200;

/// How long somebody waits, and for how much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) wait: Duration,
    /// Bytes of output that are answered.
    pub(super) most: usize,
    /// Nobody waits for what comes after this position.
    pub(super) until: Option<u64>,
}

impl Patience {
    pub(super) fn new(wait: Duration, most: usize) -> Self {
        Self { wait, most, until: None }
    }
}

/// The end of the waiting.
#[derive(Debug)]
pub(super) enum End {
    Exited(Exit),
    /// It goes on.
    Runs,
    /// It waits for leave to reach something.
    Asks(Vec<NetworkAsk>),
    /// The client has left, or takes the call back.
    Cancelled,
    /// Nothing more is heard of it.
    Lost(ApiError),
}

/// A process as far as it was watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) process: u64,
    pub(super) output: Output,
    /// The position to go on from.
    pub(super) position: u64,
    pub(super) end: End,
}

/// Reads what a process writes until it ends or patience does.
pub(super) async fn watch(
    call: &Call<'_>,
    process: u64,
    reader: &mut ProcessReader,
    patience: Patience,
) -> Watched {
    watch_beside(call, process, reader, patience, (async {}, pending())).await
}

/// As [`watch`], until something is asked, and with other work going on meanwhile.
pub(super) async fn watch_beside(
    call: &Call<'_>,
    process: u64,
    reader: &mut ProcessReader,
    patience: Patience,
    (meanwhile, asked): (impl Future<Output = ()>, impl Future<Output = Vec<NetworkAsk>>),
) -> Watched {
    let began = Instant::now();
    let mut kept = Collector::new(patience.most);
    let mut latest = Vec::new();
    let mut ticks = interval_at(began + PROGRESS, PROGRESS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deadline = sleep(patience.wait);
    tokio::pin!(deadline, meanwhile, asked);
    let mut busy = true;
    let end = loop {
        if patience.until.is_some_and(|until| reader.position() >= until) {
            break End::Runs;
        }
        tokio::select! {
            biased;
            () = call.context.ct.cancelled() => break End::Cancelled,
            event = reader.next() => match event {
                Ok(Some(ProcessEvent::Stdout { bytes, .. } | ProcessEvent::Stderr { bytes, .. })) => {
                    kept.push(&bytes);
                    latest = bytes[bytes.len().saturating_sub(4 * LONGEST_PROGRESS)..].to_vec();
                }
                Ok(Some(ProcessEvent::Missed { .. })) => kept.skip(),
                Ok(Some(ProcessEvent::Exited(exit))) => break End::Exited(exit),
                Ok(None) => break End::Runs,
                Err(error) => break End::Lost(error.into()),
            },
            () = &mut deadline => break End::Runs,
            _ = call.place.caller.until_cut() => break End::Runs,
            asks = &mut asked => break End::Asks(asks),
            () = &mut meanwhile, if busy => busy = false,
            _ = ticks.tick() => {
                let message = last_line(&String::from_utf8_lossy(&latest), LONGEST_PROGRESS);
                call.progress(began.elapsed().as_secs_f64(), message).await;
            }
        }
    };
    Watched { process, output: kept.finish(), position: reader.position(), end }
}

impl Watched {
    /// The exit code, once there is one.
    pub(super) fn exit_code(&self) -> Option<i32> {
        match self.end {
            End::Exited(exit) => Some(exit.code),
            End::Runs | End::Asks(_) | End::Cancelled | End::Lost(_) => None,
        }
    }

    /// Output and end as a model reads them. A program that fails is no failure of the tool.
    pub(super) fn told(&self, sandbox: &warren_core::SandboxId) -> Answer {
        let Self { process, output, position, end } = self;
        let (text, cut) = output.text();
        let mut answer = Answer::text(plain(&text)).note("sandbox", sandbox.as_str());
        answer = answer.note("process", *process);
        match end {
            End::Exited(exit) => {
                if let Some(line) = how_it_ended(exit) {
                    answer = answer.line(&line);
                }
                answer = answer.note("exit_code", exit.code).note("duration_ms", exit.duration_ms);
            }
            End::Runs | End::Asks(_) => {
                let more = format!(
                    "[process {process} runs on: process(action=\"wait\", id={process}, since={position}) waits for more]"
                );
                answer = answer.line(&more).note("position", *position);
            }
            End::Cancelled => answer = answer.line("[cancelled]").failed(true),
            End::Lost(error) => {
                error.log();
                answer = answer.line(&format!("[{}]", error.problem().detail)).failed(true);
            }
        }
        if cut {
            let name = format!("all output of process {process}");
            answer = answer.note("truncated", true).link(uri::output(sandbox, *process), &name);
        }
        answer
    }
}

/// A line about an end that was not a success.
fn how_it_ended(exit: &Exit) -> Option<String> {
    match exit.cause {
        ExitCause::Exited if exit.code == 0 => None,
        ExitCause::Exited => Some(format!("[exit code {}]", exit.code)),
        ExitCause::Signalled { signal } => Some(format!("[killed by signal {signal}]")),
        ExitCause::TimedOut => Some("[killed: it took longer than it was given]".to_owned()),
    }
}
