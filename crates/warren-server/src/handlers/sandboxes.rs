use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use warren_core::Status;
use warren_core::catalog::SandboxFilter;
use warren_engine::{Acquire, StoppedFiles};
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_wire::api;

use super::browser::{Equipment, with_mcp_url};
use super::snapshots::settle_template;
use crate::convert;
use crate::extract::{IdempotencyKey, Json, JsonOrNothing, Params, SandboxPath};
use crate::state::AppState;

const USUAL_WAIT_S: u64 = 30;
const LONGEST_WAIT_S: u64 = 300;

type Answer = Result<Json<api::Sandbox>, ApiError>;

pub(crate) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    key: IdempotencyKey,
    address: Address,
    Json(mut body): Json<api::CreateSandbox>,
) -> Result<Response, ApiError> {
    let idempotency = key.expected(&body)?;
    settle_template(&state, &caller, &mut body, "").await?;
    let parts = convert::new_sandbox(body, "", &state.settings)?;
    let client = parts.client.unwrap_or_else(|| caller.name.clone());
    let request = Acquire {
        fresh: true,
        backend: parts.backend,
        timeouts: parts.timeouts,
        idempotency,
        ..Acquire::new(client, parts.sandbox)
    };
    let acquired = state.engine.as_(&caller).sessions().acquire(request).await?;
    Equipment::of(&state, &caller, &address, (&acquired.sandbox, &acquired.session)).provide_later();
    let told = with_mcp_url(convert::created(&acquired), &acquired.sandbox, &address);
    Ok(made(acquired.repeated, StatusCode::CREATED, Json(told).into_response()))
}

/// Marks the answer to a create: a new thing, or one that an earlier request with the same key
/// made.
pub(super) fn made(repeated: bool, status: StatusCode, body: Response) -> Response {
    if repeated {
        ([("idempotent-replayed", "true")], body).into_response()
    } else {
        (status, body).into_response()
    }
}

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Json<api::Page<api::Sandbox>>, ApiError> {
    let statuses = params.text("status").map(statuses).transpose()?;
    if statuses.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Json(api::Page { items: Vec::new(), next_cursor: None }));
    }
    let filter = SandboxFilter {
        statuses: statuses.unwrap_or_default(),
        name: params.parsed("name")?,
        labels: params.map("label")?,
        metadata: params.map("metadata")?,
        ended: params.flag("ended")?,
    };
    let page = state.engine.as_(&caller).sandboxes().list(&filter, &params.page()?).await?;
    Ok(Json(convert::page(&page, convert::sandbox)))
}

/// The states that are named. A state that no sandbox is ever in is left out.
fn statuses(text: &str) -> Result<Vec<Status>, ApiError> {
    let named = text.split(',').map(|word| {
        serde_json::from_value(word.into()).map_err(|_| {
            ApiError::invalid("status", "name states with commas between them, such as `ready,paused`")
        })
    });
    let named: Result<Vec<_>, ApiError> = named.collect();
    Ok(named?.into_iter().filter_map(convert::status_named).collect())
}

pub(crate) async fn get(SandboxPath(sandbox): SandboxPath, address: Address, params: Params) -> Answer {
    let seen = params.number("wait_generation", 0, u64::MAX)?;
    let patience_s = params.number("timeout_s", 0, LONGEST_WAIT_S)?.unwrap_or(USUAL_WAIT_S);
    let record = match seen {
        Some(seen) => sandbox.changed(seen, patience_s * 1000).await?,
        None => sandbox.record().await?,
    };
    Ok(Json(with_mcp_url(convert::sandbox(&record), &record, &address)))
}

pub(crate) async fn update(SandboxPath(sandbox): SandboxPath, Json(body): Json<api::PatchSandbox>) -> Answer {
    let record = sandbox.update(convert::patch(body)?).await?;
    Ok(Json(convert::sandbox(&record)))
}

pub(crate) async fn delete(SandboxPath(sandbox): SandboxPath) -> Answer {
    let record = sandbox.stop(StoppedFiles::Delete).await?;
    Ok(Json(convert::sandbox(&record)))
}

pub(crate) async fn stop(SandboxPath(sandbox): SandboxPath) -> Answer {
    let record = sandbox.stop(StoppedFiles::Keep).await?;
    Ok(Json(convert::sandbox(&record)))
}

pub(crate) async fn pause(
    SandboxPath(sandbox): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::PauseSandbox>,
) -> Answer {
    let record = match convert::drain(&body)? {
        Some(drain) => sandbox.pause_after(drain).await?,
        None => sandbox.pause().await?,
    };
    Ok(Json(convert::sandbox(&record)))
}

pub(crate) async fn resume(SandboxPath(sandbox): SandboxPath) -> Answer {
    let record = sandbox.resume().await?;
    Ok(Json(convert::sandbox(&record)))
}

pub(crate) async fn death(SandboxPath(sandbox): SandboxPath) -> Result<Json<api::Death>, ApiError> {
    let certificate = sandbox.death().await?;
    let certificate =
        certificate.ok_or_else(|| ApiError::new(Code::NotDead, format!("{} lives", sandbox.id())))?;
    Ok(Json(convert::death(&certificate)))
}

pub(crate) async fn usage(SandboxPath(sandbox): SandboxPath) -> Result<Json<api::Usage>, ApiError> {
    Ok(Json(convert::usage(sandbox.usage().await?)))
}
