//! `try`: a command in a fork, whose changes are kept only if a check passes.

use std::time::Duration;

use warren_core::{Conflicts, LeaveOut, OnExpiry, SandboxId};
use warren_engine::{ForkOrder, Point, ProcessSpec, PromoteOrder, Promoted, Sandbox, StoppedFiles};
use warren_face::error::ApiError;
use warren_wire::guest::Reader;

use super::Call;
use super::program::USUAL_OUTPUT;
use super::watch::{End, Patience, Watched, watch};
use crate::answer::Answer;

/// Below what the common clients wait for an answer, for command and check together.
const USUAL_TIMEOUT_MS: u64 = 50_000;
const LONGEST_TRY_MS: u64 = 3_600_000;
/// The fork lives so much longer than it may be needed, in case nobody removes it.
const SPARE_S: u64 = 600;

pub(super) async fn attempt(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let command = call.fields.text("command")?;
    let check = call.fields.word("check")?;
    let cwd = call.fields.word("cwd")?;
    let timeout_ms = call.fields.number("timeout_ms", 1, LONGEST_TRY_MS)?.unwrap_or(USUAL_TIMEOUT_MS);
    let force = call.fields.flag("force")?;
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let fork = fork(&call, sandbox.id(), timeout_ms).await?;
    let plan = Plan { command, check, cwd, timeout: Duration::from_millis(timeout_ms), force };
    let outcome = plan.run(&call, &sandbox, &fork).await;
    let removed = fork.stop(StoppedFiles::Delete).await;
    let answer = outcome?;
    Ok(match removed {
        Ok(_) => answer,
        Err(error) => answer.line(&format!("[the fork {} is left: {}]", fork.id(), error.told())),
    })
}

async fn fork(call: &Call<'_>, of: &SandboxId, timeout_ms: u64) -> Result<Sandbox, ApiError> {
    let order = ForkOrder {
        count: 1,
        name: None,
        client: format!("{}: try", call.place.caller.name),
        lifetime_s: Some((timeout_ms / 1000).saturating_mul(2).saturating_add(SPARE_S)),
        on_expiry: Some(OnExpiry::Delete),
        labels: Default::default(),
        metadata: Default::default(),
    };
    let forks = call.engine().snapshots().fork(&Point::Sandbox(of.clone()), order).await?;
    call.desk.counters.forked(forks.len());
    let made = forks.into_iter().next().map(|fork| fork.sandbox.id);
    let made =
        made.ok_or_else(|| ApiError::internal(std::io::Error::other("a fork was made and is not told")))?;
    Ok(call.engine().sandbox(&made))
}

struct Plan {
    command: String,
    check: Option<String>,
    cwd: Option<String>,
    timeout: Duration,
    force: bool,
}

impl Plan {
    async fn run(&self, call: &Call<'_>, sandbox: &Sandbox, fork: &Sandbox) -> Result<Answer, ApiError> {
        let began = tokio::time::Instant::now();
        let ran = self.line(call, fork, &self.command, self.timeout).await?;
        let mut answer = ran.told(fork.id());
        if !succeeded(&ran) {
            return Ok(dropped(answer, "the command failed"));
        }
        if let Some(check) = &self.check {
            let left = self.timeout.saturating_sub(began.elapsed());
            let checked = self.line(call, fork, check, left).await?;
            let (shown, _) = checked.output.text();
            answer = answer.line(&format!("[check]\n{}", crate::plain::plain(&shown)));
            if !succeeded(&checked) {
                let code = checked.exit_code().map(|code| format!(" with exit code {code}"));
                return Ok(dropped(answer, &format!("the check failed{}", code.unwrap_or_default())));
            }
        }
        let order = PromoteOrder {
            into: Some(sandbox.id().clone()),
            apply: true,
            conflicts: Conflicts::Refuse,
            below: "/".into(),
            force: self.force,
            leave_out: LeaveOut::default(),
        };
        let kept = fork.history().promote(order).await?;
        Ok(told(answer, sandbox, &kept))
    }

    async fn line(
        &self,
        call: &Call<'_>,
        fork: &Sandbox,
        line: &str,
        limit: Duration,
    ) -> Result<Watched, ApiError> {
        let spec = ProcessSpec {
            cwd: self.cwd.as_deref().map(Into::into),
            follow: Some(Reader::Holds),
            ..ProcessSpec::default()
        };
        let handle = fork.start_line(line, spec).await?;
        let process = handle.started.process.0;
        let (mut reader, _) = handle.split();
        let most = usize::try_from(USUAL_OUTPUT).unwrap_or(usize::MAX);
        Ok(watch(call, process, &mut reader, Patience::new(limit, most)).await)
    }
}

/// True only for an end in time: else the fork goes.
fn succeeded(watched: &Watched) -> bool {
    matches!(watched.end, End::Exited(exit) if exit.code == 0)
}

fn dropped(answer: Answer, why: &str) -> Answer {
    answer.line(&format!("[{why}: nothing was kept]")).note("kept", false)
}

fn told(answer: Answer, sandbox: &Sandbox, kept: &Promoted) -> Answer {
    let count = kept.merge.changes.len();
    let answer = answer.note("kept", true).note("sandbox", sandbox.id().as_str());
    match &kept.applied {
        None => answer.line("[it changed nothing]"),
        Some(applied) => {
            let mut answer = answer.line(&format!("[kept: {count} paths changed]"));
            for process in &applied.ended {
                let line = format!("[ended with that: process {} `{}`]", process.id, process.command);
                answer = answer.line(&line);
            }
            answer.entered(applied.entry)
        }
    }
}
