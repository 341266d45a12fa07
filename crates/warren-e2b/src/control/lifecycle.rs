use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use warren_core::{OnExpiry, SandboxId, SandboxRecord};
use warren_engine::{Patch, StoppedFiles};
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::code;

use super::answer;
use super::create::{end, read_timeout};
use crate::annotation::Annotation;
use crate::error::E2bError;
use crate::extract::{Body, Id};
use crate::rest;
use crate::shown::{Shown, find, shown_as};
use crate::state::E2b;

const USUAL_TIMEOUT_S: u64 = 300;
const USUAL_TIMEOUT_OF_RESUME_S: u64 = 15;
const USUAL_REFRESH_S: u64 = 15;
const LONGEST_REFRESH_S: u64 = 3600;

/// How long a pause waits for what is under way. What is not done by then goes on when the sandbox
/// does.
const DRAIN: Duration = Duration::from_millis(500);

/// How long the agent inside may take to answer.
const GUEST_PATIENCE: Duration = Duration::from_secs(10);

type Answer = Result<(StatusCode, Json<rest::Sandbox>), E2bError>;

pub(crate) async fn get(
    State(state): State<E2b>,
    caller: Caller,
    address: Address,
    Id(id): Id,
) -> Result<Json<rest::SandboxDetail>, E2bError> {
    let record = find(&state, &caller, &id).await?;
    let shown = shown_as(&record).ok_or_else(|| E2bError::no_sandbox(&id))?;
    Ok(Json(answer::detail(&state, &caller, (&record, shown), &address)))
}

pub(crate) async fn kill(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
) -> Result<StatusCode, E2bError> {
    find(&state, &caller, &id).await?;
    end(&state, &caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn connect(
    State(state): State<E2b>,
    caller: Caller,
    address: Address,
    Id(id): Id,
    Body(body): Body<rest::Connect>,
) -> Answer {
    let timeout_s = read_timeout(body.timeout, USUAL_TIMEOUT_S, &state)?;
    go_on(&state, &caller, &id, timeout_s, body.memory, &address).await
}

pub(crate) async fn connect_first_generation(
    State(state): State<E2b>,
    caller: Caller,
    address: Address,
    Id(id): Id,
    Body(body): Body<rest::Connect>,
) -> Answer {
    if body.timeout.is_none() {
        return Err(E2bError::bad_request("timeout: say for how many seconds it is to live"));
    }
    connect(State(state), caller, address, Id(id), Body(body)).await
}

/// Connects to a sandbox: one that runs gets more time if it has less, and a paused one goes on.
async fn go_on(
    state: &E2b,
    caller: &Caller,
    id: &SandboxId,
    timeout_s: u64,
    memory: Option<bool>,
    address: &Address,
) -> Answer {
    let mut record = find(state, caller, id).await?;
    if shown_as(&record) == Some(Shown::Running) {
        let patch = Patch { least_ttl_s: Some(timeout_s), ..Patch::default() };
        record = state.engine.as_(caller).sandbox(id).update(patch).await?;
        // Unless its time was over before it got more.
        if shown_as(&record) == Some(Shown::Running) {
            return Ok((StatusCode::OK, Json(answer::sandbox(state, &record, address))));
        }
    }
    let patch = Patch { ttl_s: Some(timeout_s), ..Patch::default() };
    let record = thaw(state, caller, &record, patch, memory).await?;
    Ok((StatusCode::CREATED, Json(answer::sandbox(state, &record, address))))
}

/// Has a paused sandbox go on. Its time is set first, so that it is never there with none left.
async fn thaw(
    state: &E2b,
    caller: &Caller,
    record: &SandboxRecord,
    patch: Patch,
    memory: Option<bool>,
) -> Result<SandboxRecord, E2bError> {
    let sandbox = state.engine.as_(caller).sandbox(&record.id);
    sandbox.update(patch).await?;
    if memory == Some(false) && shown_as(record) == Some(Shown::Paused) {
        sandbox.stop(StoppedFiles::Keep).await?;
    }
    let cold = memory == Some(false) || shown_as(record) == Some(Shown::PausedCold);
    let record = sandbox.resume().await?;
    if cold {
        code::warm(state, sandbox, &record, &Annotation::of(&record).template);
        state.engine.as_(caller).images().start(&record).await?;
    }
    Ok(record)
}

pub(crate) async fn resume(
    State(state): State<E2b>,
    caller: Caller,
    address: Address,
    Id(id): Id,
    Body(body): Body<rest::Resume>,
) -> Answer {
    let timeout_s = read_timeout(body.timeout, USUAL_TIMEOUT_OF_RESUME_S, &state)?;
    let record = find(&state, &caller, &id).await?;
    if shown_as(&record) == Some(Shown::Running) {
        return Err(E2bError::conflict(format!("{id} is running already")));
    }
    let on_expiry = body.auto_pause.map(|pauses| match pauses {
        false => OnExpiry::Delete,
        true => record.pause_keeps.on_expiry(),
    });
    let patch = Patch { ttl_s: Some(timeout_s), on_expiry, ..Patch::default() };
    let record = thaw(&state, &caller, &record, patch, body.memory).await?;
    Ok((StatusCode::CREATED, Json(answer::sandbox(&state, &record, &address))))
}

pub(crate) async fn pause(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    Body(body): Body<rest::Pause>,
) -> Result<StatusCode, E2bError> {
    let record = find(&state, &caller, &id).await?;
    if shown_as(&record) != Some(Shown::Running) {
        return Err(E2bError::conflict(format!("{id} is paused already")));
    }
    let sandbox = state.engine.as_(&caller).sandbox(&id);
    if body.require_healthy_guest == Some(true) {
        check_guest(&state, &caller, &id).await?;
    }
    if body.memory == Some(false) {
        sandbox.stop(StoppedFiles::Keep).await?;
    } else {
        sandbox.pause_after(DRAIN).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Checks that the agent inside answers.
async fn check_guest(state: &E2b, caller: &Caller, id: &SandboxId) -> Result<(), E2bError> {
    let processes = state.engine.as_(caller).sandbox(id).processes();
    let asked = tokio::time::timeout(GUEST_PATIENCE, processes.list()).await;
    if matches!(asked, Ok(Ok(_))) {
        return Ok(());
    }
    let message = format!("{id} does not answer: pause it without `requireHealthyGuest`, or kill it");
    Err(E2bError::conflict(message).slug("sandbox_snapshot_guest_agent_unresponsive"))
}

/// The record of a running sandbox. A paused one has no time that could be set.
async fn running(state: &E2b, caller: &Caller, id: &SandboxId) -> Result<(), E2bError> {
    let record = find(state, caller, id).await?;
    if shown_as(&record) == Some(Shown::Running) { Ok(()) } else { Err(E2bError::no_sandbox(id)) }
}

pub(crate) async fn set_timeout(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    Body(body): Body<rest::SetTimeout>,
) -> Result<StatusCode, E2bError> {
    let wrong = || E2bError::bad_request("timeout: say for how many seconds from now it is to live");
    let timeout_s = body.timeout.and_then(|timeout| u64::try_from(timeout).ok()).ok_or_else(wrong)?;
    running(&state, &caller, &id).await?;
    let (sandbox, most_s) = (state.engine.as_(&caller).sandbox(&id), state.settings.most_limits.lifetime_s);
    if timeout_s == 0 {
        sandbox.end_time().await?;
    } else {
        let patch = Patch { ttl_s: Some(timeout_s.min(most_s)), ..Patch::default() };
        sandbox.update(patch).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn refresh(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    Body(body): Body<rest::Refresh>,
) -> Result<StatusCode, E2bError> {
    let wrong = || {
        E2bError::bad_request(format!("duration: it is a number of seconds from 0 to {LONGEST_REFRESH_S}"))
    };
    let duration_s = match body.duration {
        Some(said) => u64::try_from(said).ok().filter(|said| *said <= LONGEST_REFRESH_S).ok_or_else(wrong)?,
        None => USUAL_REFRESH_S,
    };
    running(&state, &caller, &id).await?;
    let most_s = state.settings.most_limits.lifetime_s;
    let patch = Patch { least_ttl_s: Some(duration_s.clamp(1, most_s)), ..Patch::default() };
    state.engine.as_(&caller).sandbox(&id).update(patch).await?;
    Ok(StatusCode::NO_CONTENT)
}
