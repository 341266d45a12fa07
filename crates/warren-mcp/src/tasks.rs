//! Tasks: a command that outlasts a call, for clients that ask again by themselves. A task is the
//! process; there is nothing else to be kept, and so nothing to be lost.

use std::time::Duration;

use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, GetTaskResult, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::Value;
use warren_core::SandboxId;
use warren_engine::{Process, Sandbox};
use warren_face::Desk;
use warren_face::error::{ApiError, Code};
use warren_face::time::rfc3339;
use warren_wire::guest::{ProcessId, ProcessSelector};

use crate::request::Place;
use crate::tools::{self, Call};

const POLL_MS: u64 = 2000;
const SIGKILL: i32 = 9;
/// How long an agent may take to say how a process is.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process behind a task.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    sandbox: SandboxId,
    process: u64,
    entry: Option<u64>,
}

impl Named {
    fn id(&self) -> String {
        format!("{}.{}.{}", self.sandbox, self.process, self.entry.unwrap_or(0))
    }

    fn parse(id: &str) -> Option<Self> {
        let mut parts = id.split('.');
        let (sandbox, process, entry) = (parts.next()?, parts.next()?, parts.next()?);
        let entry: u64 = entry.parse().ok()?;
        let named = Self {
            sandbox: sandbox.parse().ok()?,
            process: process.parse().ok()?,
            entry: Some(entry).filter(|entry| *entry > 0),
        };
        (named.id() == id).then_some(named)
    }

    /// The sandbox, if the caller may speak of it here.
    fn sandbox(&self, desk: &Desk, place: &Place) -> Result<Sandbox, ApiError> {
        if place.pinned.as_ref().is_some_and(|pinned| *pinned != self.sandbox) {
            return Err(unknown());
        }
        Ok(desk.engine.as_(&place.caller).sandbox(&self.sandbox))
    }

    fn selector(&self) -> ProcessSelector {
        ProcessSelector::Id(ProcessId(self.process))
    }
}

fn unknown() -> ApiError {
    ApiError::new(Code::ProcessNotFound, "there is no task of this id").field("taskId")
}

/// A task for a process that goes on after its call.
pub(crate) fn begun(desk: &Desk, sandbox: &SandboxId, process: u64, entry: Option<u64>) -> CreateTaskResult {
    let named = Named { sandbox: sandbox.clone(), process, entry };
    let now = desk.clock.unix_ms();
    let message = format!("process {process} runs");
    CreateTaskResult::new(task(&named, TaskStatus::Working, now, now).with_status_message(message))
}

fn task(named: &Named, status: TaskStatus, began_unix_ms: u64, now_unix_ms: u64) -> Task {
    Task::new(named.id(), status, rfc3339(began_unix_ms), rfc3339(now_unix_ms)).with_poll_interval_ms(POLL_MS)
}

/// How the task stands; once it is over, with the result that the call would have had.
pub(crate) async fn get(call: &Call<'_>, id: &str) -> Result<GetTaskResult, ApiError> {
    let named = Named::parse(id).ok_or_else(unknown)?;
    let sandbox = named.sandbox(call.desk, call.place)?;
    let known = in_time(sandbox.processes().get(named.selector())).await?;
    let now = call.desk.clock.unix_ms();
    let began = now.saturating_sub(known.age_ms);
    let payload = if known.exit.is_some() {
        TaskPayload::Completed { result: result(call, &sandbox, &named, &known).await? }
    } else {
        TaskPayload::Working
    };
    Ok(GetTaskResult::new(DetailedTask::new(task(&named, TaskStatus::Working, began, now), payload)))
}

async fn result(
    call: &Call<'_>,
    sandbox: &Sandbox,
    named: &Named,
    known: &Process,
) -> Result<JsonObject, ApiError> {
    let answer = tools::whole_output(call, sandbox, known.process.0).await?.entered(named.entry);
    let result: CallToolResult = answer.into_result();
    match serde_json::to_value(&result).map_err(ApiError::internal)? {
        Value::Object(result) => Ok(result),
        _ => Ok(JsonObject::new()),
    }
}

/// Ends the process. One that has ended stays as it is.
pub(crate) async fn cancel(call: &Call<'_>, id: &str) -> Result<(), ApiError> {
    let named = Named::parse(id).ok_or_else(unknown)?;
    let sandbox = named.sandbox(call.desk, call.place)?;
    let known = in_time(sandbox.processes().get(named.selector())).await?;
    if known.exit.is_none() {
        sandbox.processes().signal(named.selector(), SIGKILL, true).await?;
    }
    Ok(())
}

async fn in_time<T>(
    work: impl Future<Output = Result<T, warren_engine::EngineError>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(ApiError::new(Code::TimedOut, "the sandbox does not say how its process is")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_in_one_way() {
        let named = Named { sandbox: SandboxId::from_random([7; 16]), process: 12, entry: Some(3) };
        assert_eq!(Named::parse(&named.id()), Some(named.clone()));
        for wrong in
            ["", "1", "a.b.c", "..", &format!("{}.0", named.id()), &named.id().replace(".12.", ".012.")]
        {
            assert_eq!(Named::parse(wrong), None, "{wrong}");
        }
    }
}
