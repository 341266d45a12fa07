//! `sandbox`: makes, finds and ends sandboxes.

use serde::Serialize;
use warren_core::catalog::SandboxFilter;
use warren_core::{Limits, PageRequest, SandboxRecord, SandboxSpec, Status};
use warren_engine::{Acquire, ForkOrder, NewSandbox, Point, StoppedFiles};
use warren_face::error::{ApiError, parsed};
use warren_face::time::rfc3339;

use super::Call;
use super::travel;
use crate::answer::Answer;

const LONGEST_TTL_S: u64 = 365 * 86_400;
/// Sandboxes that are listed.
const MOST_LISTED: u32 = 50;
const ACTIONS: &str = "create, fork, list, info, stop, resume, remove";
/// Where the address names the sandbox, only it can be meant.
const ACTIONS_ON_ONE: &str = "info, stop, resume";

/// A sandbox as models read it.
#[derive(Debug, Serialize)]
struct Shown {
    sandbox_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    status: Status,
    base: String,
    created_at: String,
    /// Its time is over then; its files stay unless it says otherwise.
    expires_at: String,
    default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

#[derive(Debug, Serialize)]
struct List {
    sandboxes: Vec<Shown>,
    more: bool,
}

pub(super) async fn act(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let action = call.fields.text("action")?;
    match (action.as_str(), call.place.pinned.is_some()) {
        ("info", _) => info(call).await,
        ("stop", _) => end(call, StoppedFiles::Keep).await,
        ("resume", _) => resume(call).await,
        ("create", false) => create(call).await,
        ("fork", false) => fork(call).await,
        ("list", false) => list(call).await,
        ("remove", false) => end(call, StoppedFiles::Delete).await,
        (_, pinned) => {
            let known = if pinned { ACTIONS_ON_ONE } else { ACTIONS };
            Err(ApiError::invalid("action", format!("`action` is one of {known}")))
        }
    }
}

async fn create(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let settings = &call.desk.settings;
    let template = call.fields.word("template")?.map(|name| parsed("template", &name)).transpose()?;
    let name = call.fields.word("name")?.map(|name| parsed("name", &name)).transpose()?;
    let ttl_s = call.fields.number("ttl_s", 1, LONGEST_TTL_S)?;
    call.fields.finish()?;
    let mut new =
        NewSandbox { name, ..NewSandbox::new(SandboxSpec::new(settings.template_of(Default::default()))) };
    if let Some(template) = template {
        new.spec.template = template;
    }
    let own = settings.default_limits.clone();
    new.spec.limits = Limits { lifetime_s: ttl_s.unwrap_or(own.lifetime_s), ..own };
    new.spec.network = settings.network.default.clone();
    let asked = Acquire { fresh: true, ..Acquire::new(call.place.caller.name.clone(), new) };
    let made = call.engine().sessions().acquire(asked).await?.sandbox;
    let default = become_default(&call, &made).await?;
    Ok(Answer::record(&shown(&made, default)).note("sandbox", made.id.as_str()))
}

/// The first sandbox of an owner is the one that is meant where none is named.
async fn become_default(call: &Call<'_>, made: &SandboxRecord) -> Result<bool, ApiError> {
    let sandboxes = call.engine().sandboxes();
    if sandboxes.default().await.is_ok() {
        return Ok(false);
    }
    sandboxes.set_default(Some(&made.id)).await?;
    Ok(true)
}

async fn fork(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let name = call.fields.word("name")?.map(|name| parsed("name", &name)).transpose()?;
    let lifetime_s = call.fields.number("ttl_s", 1, LONGEST_TTL_S)?;
    let from = call.fields.label("from")?;
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let from = match from {
        Some(word) => Point::Snapshot(travel::named_state(&call, &sandbox, "from", &word).await?),
        None => Point::Sandbox(sandbox.id().clone()),
    };
    let order = ForkOrder {
        count: 1,
        name,
        client: call.place.caller.name.clone(),
        lifetime_s,
        on_expiry: None,
        labels: Default::default(),
        metadata: Default::default(),
    };
    let forks = call.engine().snapshots().fork(&from, order).await?;
    call.desk.counters.forked(forks.len());
    let shown: Vec<Shown> = forks.iter().map(|fork| shown(&fork.sandbox, false)).collect();
    Ok(shown.first().map_or_else(Answer::default, Answer::record).note("sandbox", sandbox.id().as_str()))
}

async fn list(call: Call<'_>) -> Result<Answer, ApiError> {
    call.fields.finish()?;
    let page = PageRequest { limit: MOST_LISTED, ..PageRequest::default() };
    let found = call.engine().sandboxes().list(&SandboxFilter::default(), &page).await?;
    let default = call.engine().sandboxes().default().await.ok().map(|record| record.id);
    let is_default = |record: &SandboxRecord| default.as_ref() == Some(&record.id);
    let sandboxes = found.items.iter().map(|record| shown(record, is_default(record))).collect();
    Ok(Answer::record(&List { sandboxes, more: found.next.is_some() }))
}

async fn info(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let record = sandbox.record().await?;
    told(&call, &record).await
}

async fn resume(mut call: Call<'_>) -> Result<Answer, ApiError> {
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let record = sandbox.resume().await?;
    told(&call, &record).await
}

async fn end(mut call: Call<'_>, files: StoppedFiles) -> Result<Answer, ApiError> {
    if files == StoppedFiles::Delete && !call.fields.has("sandbox") {
        let detail = "say which `sandbox` is to be removed: its files cannot be brought back";
        return Err(ApiError::invalid("sandbox", detail));
    }
    let sandbox = call.sandbox().await?;
    call.fields.finish()?;
    let record = sandbox.stop(files).await?;
    told(&call, &record).await
}

async fn told(call: &Call<'_>, record: &SandboxRecord) -> Result<Answer, ApiError> {
    let default = call.engine().sandboxes().default().await.ok();
    let default = default.is_some_and(|default| default.id == record.id);
    Ok(Answer::record(&shown(record, default)).note("sandbox", record.id.as_str()))
}

fn shown(record: &SandboxRecord, default: bool) -> Shown {
    Shown {
        sandbox_id: record.id.to_string(),
        name: record.name.as_ref().map(ToString::to_string),
        status: record.status,
        base: record.spec.base().to_string(),
        created_at: rfc3339(record.created_unix_ms),
        expires_at: rfc3339(record.deadline.unix_ms),
        default,
        ended: record.death.as_ref().map(|death| death.detail.clone()),
    }
}
