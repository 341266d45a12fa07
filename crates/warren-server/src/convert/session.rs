use std::path::PathBuf;

use warren_core::{ByteSize, Deadline, IsolationKind, Provision, RunLimits, SandboxRecord, SessionRecord};
use warren_engine::{
    Abilities, Acquire, Acquired, Attach, Expected, Requirements, SessionDetails, SessionView, Settings,
};
use warren_face::error::{ApiError, parsed};
use warren_wire::api;

use super::new_sandbox::{checked_backend, new_sandbox, timeouts};
use super::rfc3339;
use super::run::{run, run_limits, totals};
use super::sandbox::{sandbox, times};
use super::words::{sandbox_type, session_state};

pub(crate) fn session(record: &SessionRecord) -> api::Session {
    let moment = |deadline: &Option<Deadline>| deadline.as_ref().map(|deadline| rfc3339(deadline.unix_ms));
    api::Session {
        session_id: record.id.to_string(),
        sandbox_id: record.sandbox.to_string(),
        client: record.client.clone(),
        kind: sandbox_type(record.kind),
        state: session_state(record.state),
        provision: provision(&record.provision),
        limits: run_limits(record.limits),
        totals: totals(record.totals),
        tier: record.tier.clone(),
        labels: record.labels.clone(),
        metadata: record.metadata.clone(),
        created_at: rfc3339(record.created_unix_ms),
        last_activity_at: rfc3339(record.last_activity_unix_ms),
        expires_at: moment(&record.deadline),
        detached_until: moment(&record.detached_until),
        thinking_until: moment(&record.thinking_until),
        timeouts: times(record.timeouts),
        sandbox: None,
        snapshot_count: None,
        fresh: None,
        capabilities: None,
    }
}

pub(crate) fn session_view(view: &SessionView) -> api::Session {
    api::Session { sandbox: view.sandbox.as_ref().map(sandbox), ..session(&view.session) }
}

/// The answer to acquire and attach.
pub(crate) fn acquired(acquired: &Acquired) -> api::Session {
    let whole = Some(sandbox(&acquired.sandbox));
    api::Session { sandbox: whole, fresh: Some(acquired.fresh), ..session(&acquired.session) }
}

pub(crate) fn capabilities(
    record: &SandboxRecord,
    abilities: &Abilities,
    now_unix_ms: u64,
) -> api::Capabilities {
    let told = sandbox(record);
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
    api::Capabilities {
        has_network: told.network.mode != api::NetworkMode::None,
        allowed_destinations: destinations(&told.network),
        can_write_filesystem: abilities.can_write,
        readable_paths: paths(&abilities.readable),
        writable_paths: paths(&abilities.writable),
        syscall_filter_active: abilities.isolation == Some(IsolationKind::Namespaces),
        is_persistent: told.on_expiry != api::OnExpiry::Delete,
        time_remaining_ms: record.deadline.unix_ms.saturating_sub(now_unix_ms),
        backend: told.backend,
        profile: told.profile,
        limits: told.limits,
        created_at: told.created_at,
    }
}

/// The destinations that a policy opens. Grants count while they last.
fn destinations(network: &api::Network) -> Vec<String> {
    let granted = network.grants.iter().filter(|grant| grant.effect == api::NetworkEffect::Allow);
    match network.mode {
        api::NetworkMode::None => Vec::new(),
        api::NetworkMode::Public | api::NetworkMode::Learn => vec!["*".to_owned()],
        api::NetworkMode::Allow | api::NetworkMode::Ask => {
            network.allow.iter().chain(granted.map(|grant| &grant.rule)).cloned().collect()
        }
    }
}

pub(crate) fn details(details: &SessionDetails) -> api::SessionDetails {
    api::SessionDetails { session: session_view(&details.view), runs: details.runs.iter().map(run).collect() }
}

pub(crate) fn acquire(
    body: api::AcquireSession,
    idempotency: Option<Expected>,
    settings: &Settings,
) -> Result<Acquire, ApiError> {
    let mut sandbox = body.sandbox;
    if body.kind.is_some() && sandbox.kind.is_some_and(|kind| Some(kind) != body.kind) {
        return Err(ApiError::invalid("type", "`type` and `sandbox.type` differ: leave one of them out"));
    }
    sandbox.kind = body.kind.or(sandbox.kind);
    let parts = new_sandbox(sandbox, "sandbox.", settings)?;
    if parts.client.is_some() {
        return Err(ApiError::invalid("sandbox.client", "`client` stands beside `sandbox`, not in it"));
    }
    let outer = body.backend.map(|name| checked_backend(name, "")).transpose()?;
    let preferred = body.preferred_sandbox_id.as_deref();
    Ok(Acquire {
        client: body.client,
        preferred: preferred.map(|text| parsed("preferred_sandbox_id", text)).transpose()?,
        sandbox: parts.sandbox,
        fresh: body.require_fresh,
        required: requirements(body.required.unwrap_or_default()),
        backend: one_backend(outer, parts.backend)?,
        timeouts: parts.timeouts,
        limits: body.limits.map(|limits| run_limits_of(&limits, settings)),
        tier: body.tier,
        labels: body.labels,
        metadata: body.metadata,
        background: body.background,
        idempotency,
    })
}

pub(crate) fn attach(body: api::AttachSession, settings: &Settings) -> Result<Attach, ApiError> {
    if body.create.is_some() && !body.create_if_missing {
        return Err(ApiError::invalid("create", "`create` has a meaning only with `create_if_missing`"));
    }
    let create = body.create.unwrap_or_default();
    let parts = body.create_if_missing.then(|| new_sandbox(create, "create.", settings)).transpose()?;
    let own_times = body.timeouts.map(|times| timeouts(&times, settings));
    if let Some(field) = parts.as_ref().and_then(misplaced) {
        return Err(ApiError::invalid(field, "this cannot be chosen when joining a sandbox"));
    }
    Ok(Attach {
        sandbox: parsed("sandbox_id", &body.sandbox_id)?,
        client: body.client,
        timeouts: own_times.or_else(|| parts.as_ref().and_then(|parts| parts.timeouts)),
        create_if_missing: parts.map(|parts| parts.sandbox),
    })
}

/// A field that a body for a new sandbox may hold, but an attach has no use for.
fn misplaced(parts: &super::NewParts) -> Option<&'static str> {
    let client = parts.client.as_ref().map(|_| "create.client");
    client.or_else(|| parts.backend.as_ref().map(|_| "create.backend"))
}

/// It may stand in either place, but not differently in both.
fn one_backend(outer: Option<String>, inner: Option<String>) -> Result<Option<String>, ApiError> {
    match (outer, inner) {
        (Some(outer), Some(inner)) if outer != inner => {
            Err(ApiError::invalid("backend", "`backend` and `sandbox.backend` name different ones"))
        }
        (outer, inner) => Ok(outer.or(inner)),
    }
}

fn requirements(body: api::Requirements) -> Requirements {
    Requirements {
        network: body.network,
        write_access: body.write_access,
        memory: body.memory_mib.map(|mib| ByteSize(mib.saturating_mul(1 << 20))),
        readable: body.readable.into_iter().map(PathBuf::from).collect(),
        writable: body.writable.into_iter().map(PathBuf::from).collect(),
        labels: body.labels,
    }
}

fn run_limits_of(body: &api::RunLimitsRequest, settings: &Settings) -> RunLimits {
    let own = settings.run_limits;
    RunLimits {
        runs: body.runs.unwrap_or(own.runs),
        run_s: body.run_s.unwrap_or(own.run_s),
        tokens: body.tokens.unwrap_or(own.tokens),
        duration_s: body.duration_s.unwrap_or(own.duration_s),
    }
}

fn provision(provision: &Provision) -> api::Provision {
    let (state, url, job_id, reason) = match provision {
        Provision::Pending => (api::ProvisionState::Pending, None, None, None),
        Provision::Ready { url, job } => (api::ProvisionState::Ready, url.clone(), job.clone(), None),
        Provision::Failed { reason } => (api::ProvisionState::Failed, None, None, Some(reason.clone())),
    };
    api::Provision { state, url, job_id, reason }
}
