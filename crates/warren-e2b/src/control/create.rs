use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use warren_core::{
    Automatic, Limits, OnExpiry, PauseKeeps, Profile, SandboxId, SandboxKind, SandboxRecord, SandboxSpec,
    Timeouts, Traffic, Wake, check_labels,
};
use warren_engine::{Acquire, Beginning, Expected, NewSandbox, StoppedFiles};
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::code;
use warren_face::extract::IdempotencyKey;

use super::answer;
use crate::annotation::Annotation;
use crate::error::E2bError;
use crate::extract::Body;
use crate::network::{self, Plan};
use crate::rest;
use crate::state::E2b;
use crate::templates::{self, Choice};

const USUAL_TIMEOUT_S: u64 = 300;
const USUAL_TIMEOUT_OF_FIRST_GENERATION_S: u64 = 15;

/// How long a sandbox rests or waits paused before something else becomes of it: longer than
/// anybody waits. Its own time decides.
const HARDLY_EVER_S: u64 = 365 * 86_400;

type Answer = Result<(StatusCode, Json<rest::Sandbox>), E2bError>;

pub(crate) async fn create(
    State(state): State<E2b>,
    caller: Caller,
    address: Address,
    key: IdempotencyKey,
    Body(body): Body<rest::NewSandbox>,
) -> Answer {
    let expected = key.expected(&body)?;
    let record = make(&state, &caller, &body, USUAL_TIMEOUT_S, expected).await?;
    Ok((StatusCode::CREATED, Json(answer::sandbox(&state, &record, &address))))
}

pub(crate) async fn first_generation(
    State(state): State<E2b>,
    caller: Caller,
    address: Address,
    key: IdempotencyKey,
    Body(body): Body<rest::NewSandbox>,
) -> Answer {
    let expected = key.expected(&body)?;
    let record = make(&state, &caller, &body, USUAL_TIMEOUT_OF_FIRST_GENERATION_S, expected).await?;
    Ok((StatusCode::CREATED, Json(answer::sandbox(&state, &record, &address))))
}

async fn make(
    state: &E2b,
    caller: &Caller,
    body: &rest::NewSandbox,
    usual_timeout_s: u64,
    idempotency: Option<Expected>,
) -> Result<SandboxRecord, E2bError> {
    let end = End::read(body)?;
    let timeout_s = read_timeout(body.timeout, usual_timeout_s, state)?;
    check(body)?;
    let reference = body.template_id.as_deref().unwrap_or_default();
    let choice = templates::resolve(state, caller, reference).await?;
    let plan = network::plan(state, caller, body.network.as_ref(), body.allow_internet_access).await?;
    let request = acquire(state, caller, body, Parts { end, timeout_s, choice: &choice, plan: &plan });
    let acquired = match state.engine.as_(caller).sessions().acquire(Acquire { idempotency, ..request }).await
    {
        Ok(acquired) => acquired,
        Err(error) => {
            plan.discard(state, caller).await;
            return Err(error.into());
        }
    };
    if acquired.repeated {
        plan.discard(state, caller).await;
    } else {
        started(state, caller, &acquired.sandbox).await?;
    }
    Ok(acquired.sandbox)
}

/// Starts what the template has started in every sandbox. A new sandbox in which that fails is of
/// no use to anybody.
pub(crate) async fn started(state: &E2b, caller: &Caller, new: &SandboxRecord) -> Result<(), E2bError> {
    let sandbox = state.engine.as_(caller).sandbox(&new.id);
    code::warm(state, sandbox, new, &Annotation::of(new).template);
    let Err(error) = state.engine.as_(caller).images().start(new).await else { return Ok(()) };
    end(state, caller, &new.id).await?;
    Err(error.into())
}

/// Ends a sandbox for good, with everything that was made for it alone.
pub(crate) async fn end(state: &E2b, caller: &Caller, id: &SandboxId) -> Result<(), E2bError> {
    let ended = state.engine.as_(caller).sandbox(id).stop(StoppedFiles::Delete).await?;
    network::forget(state, &ended).await;
    Ok(())
}

/// The parts that a new sandbox is made from.
struct Parts<'a> {
    end: End,
    timeout_s: u64,
    choice: &'a Choice,
    plan: &'a Plan,
}

fn acquire(state: &E2b, caller: &Caller, body: &rest::NewSandbox, parts: Parts<'_>) -> Acquire {
    let Parts { end, timeout_s, choice, plan } = parts;
    let own = &state.settings.default_limits;
    let Beginning { context, from, start } = choice.beginning.clone();
    let mut env = context.env;
    env.extend(body.env_vars.clone().unwrap_or_default());
    let spec = SandboxSpec {
        template: context.template,
        image: choice.image.clone(),
        limits: Limits {
            lifetime_s: timeout_s,
            memory: choice.memory.unwrap_or(own.memory),
            cpus: choice.cpus.unwrap_or(own.cpus),
            ..own.clone()
        },
        env,
        labels: BTreeMap::new(),
        user: context.user,
        workdir: context.workdir,
        hostname: None,
        network: plan.policy.clone(),
        mounts: Vec::new(),
        profile: Profile::Standard,
    };
    let annotation = Annotation {
        template: choice.id.clone(),
        alias: choice.alias.clone(),
        allow_internet_access: body.allow_internet_access,
        network: plan.shown.clone(),
    };
    let wakes = body.auto_resume.is_some_and(|auto_resume| auto_resume.enabled);
    let wake = wakes.then_some(Wake { lifetime_s: timeout_s });
    let sandbox = NewSandbox {
        kind: SandboxKind::Terminal,
        metadata: body.metadata.clone().unwrap_or_default(),
        on_expiry: end.on_expiry(),
        traffic: Traffic { wake, ..plan.traffic.clone() },
        pause_keeps: if end == End::PauseCold { PauseKeeps::Files } else { PauseKeeps::Memory },
        start,
        annotations: annotation.written_to(BTreeMap::new()),
        from,
        // Its clients know of no history; those who want one take snapshots.
        automatic: Some(Automatic::Off),
        ..NewSandbox::new(spec)
    };
    let timeouts =
        Timeouts { active_s: HARDLY_EVER_S, detached_s: HARDLY_EVER_S, suspended_s: HARDLY_EVER_S };
    Acquire { fresh: true, timeouts: Some(timeouts), ..Acquire::new(caller.name.clone(), sandbox) }
}

/// The fate of a sandbox when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Pause,
    PauseCold,
}

impl End {
    fn read(body: &rest::NewSandbox) -> Result<Self, E2bError> {
        let (pauses, keeps_memory) =
            (body.auto_pause.unwrap_or_default(), body.auto_pause_memory.unwrap_or(true));
        let wakes = body.auto_resume.is_some_and(|auto_resume| auto_resume.enabled);
        match (pauses, keeps_memory) {
            (false, false) => Err(E2bError::bad_request(
                "autoPauseMemory: it says how a sandbox is paused when its time is over, so `autoPause` must be true",
            )),
            (true, false) if wakes => Err(E2bError::bad_request(
                "autoResume: traffic wakes only sandboxes that are paused with their memory, so `autoPauseMemory` must not be false",
            )),
            (true, false) => Ok(Self::PauseCold),
            (true, true) => Ok(Self::Pause),
            (false, true) => Ok(Self::Kill),
        }
    }

    fn on_expiry(self) -> OnExpiry {
        match self {
            Self::Kill => OnExpiry::Delete,
            Self::Pause => OnExpiry::Pause,
            Self::PauseCold => OnExpiry::Keep,
        }
    }
}

/// Checks that need no look-up.
fn check(body: &rest::NewSandbox) -> Result<(), E2bError> {
    if let Some(metadata) = &body.metadata {
        check_labels(metadata).map_err(|reason| E2bError::bad_request(format!("metadata: {reason}")))?;
    }
    if body.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()) {
        return Err(E2bError::bad_request("volumeMounts: there are no volumes here: leave this out"));
    }
    network::refuse_iam(body.iam.as_ref())
}

/// Seconds to live, as a body says it.
pub(super) fn read_timeout(said: Option<i64>, usual_s: u64, state: &E2b) -> Result<u64, E2bError> {
    let most = state.settings.most_limits.lifetime_s;
    let Some(said) = said else { return Ok(usual_s.min(most)) };
    let timeout_s = u64::try_from(said).ok().filter(|timeout_s| (1..=most).contains(timeout_s));
    timeout_s.ok_or_else(|| {
        E2bError::bad_request(format!("timeout: it is a number of seconds from 1 to {most} here, not {said}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(auto_pause: Option<bool>, memory: Option<bool>, wakes: bool) -> Result<End, u16> {
        let body = rest::NewSandbox {
            auto_pause,
            auto_pause_memory: memory,
            auto_resume: Some(rest::AutoResume { enabled: wakes }),
            ..rest::NewSandbox::default()
        };
        End::read(&body).map_err(|error| error.status().as_u16())
    }

    #[test]
    fn what_becomes_of_a_sandbox_is_said_without_contradiction() {
        assert_eq!(end(None, None, false), Ok(End::Kill));
        assert_eq!(end(Some(false), Some(true), true), Ok(End::Kill));
        assert_eq!(end(Some(true), None, true), Ok(End::Pause));
        assert_eq!(end(Some(true), Some(false), false), Ok(End::PauseCold));
        assert_eq!(end(Some(true), Some(false), true), Err(400));
        assert_eq!(end(None, Some(false), false), Err(400));
    }
}
