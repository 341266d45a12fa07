use axum::extract::State;
use http::StatusCode;
use warren_core::SnapshotId;
use warren_engine::Point;
use warren_face::address::Address;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, parsed};
use warren_wire::api;

use super::browser::{Equipment, with_mcp_url};
use crate::convert;
use crate::extract::{Json, JsonOrNothing, Params, SandboxPath, SnapshotPath};
use crate::state::AppState;

type Answer = Result<Json<api::Snapshot>, ApiError>;

pub(crate) async fn take(
    State(state): State<AppState>,
    SandboxPath(sandbox): SandboxPath,
    JsonOrNothing(body): JsonOrNothing<api::TakeSnapshot>,
) -> Result<(StatusCode, Json<api::Snapshot>), ApiError> {
    let order = convert::take_snapshot(body)?;
    let taken = sandbox.history().take(order).await?;
    state.counters.took(&taken);
    Ok((StatusCode::CREATED, Json(convert::taken(&taken))))
}

/// Of a sandbox that is gone there may still be some.
pub(crate) async fn list_of_sandbox(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    params: Params,
) -> Result<Json<api::Page<api::Snapshot>>, ApiError> {
    let filter = convert::snapshot_filter(&params, Some(sandbox.id().clone()))?;
    let page = state.engine.as_(&caller).snapshots().list(&filter, &params.page()?).await?;
    if page.items.is_empty() {
        sandbox.record().await?;
    }
    Ok(Json(convert::page(&page, convert::snapshot)))
}

pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Json<api::Page<api::Snapshot>>, ApiError> {
    let filter = convert::snapshot_filter(&params, None)?;
    let page = state.engine.as_(&caller).snapshots().list(&filter, &params.page()?).await?;
    Ok(Json(convert::page(&page, convert::snapshot)))
}

pub(crate) async fn get(
    State(state): State<AppState>,
    caller: Caller,
    SnapshotPath(id): SnapshotPath,
) -> Answer {
    Ok(Json(convert::snapshot(&state.engine.as_(&caller).snapshots().get(&id).await?)))
}

pub(crate) async fn rename(
    State(state): State<AppState>,
    caller: Caller,
    SnapshotPath(id): SnapshotPath,
    Json(body): Json<api::NameSnapshot>,
) -> Answer {
    let name = body.name.map(|name| convert::snapshot_name("name", name)).transpose()?;
    let record = state.engine.as_(&caller).snapshots().rename(&id, name).await?;
    Ok(Json(convert::snapshot(&record)))
}

pub(crate) async fn delete(
    State(state): State<AppState>,
    caller: Caller,
    SnapshotPath(id): SnapshotPath,
) -> Result<StatusCode, ApiError> {
    state.engine.as_(&caller).snapshots().delete(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn fork(
    State(state): State<AppState>,
    caller: Caller,
    SnapshotPath(id): SnapshotPath,
    address: Address,
    JsonOrNothing(body): JsonOrNothing<api::Fork>,
) -> Result<(StatusCode, Json<api::Forks>), ApiError> {
    fork_from(&state, (&caller, &address), &Point::Snapshot(id), body).await
}

pub(crate) async fn fork_sandbox(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    address: Address,
    JsonOrNothing(body): JsonOrNothing<api::Fork>,
) -> Result<(StatusCode, Json<api::Forks>), ApiError> {
    fork_from(&state, (&caller, &address), &Point::Sandbox(sandbox.id().clone()), body).await
}

async fn fork_from(
    state: &AppState,
    (caller, address): (&Caller, &Address),
    from: &Point,
    body: api::Fork,
) -> Result<(StatusCode, Json<api::Forks>), ApiError> {
    let order = convert::fork_order(body, caller.name.clone())?;
    let forks = state.engine.as_(caller).snapshots().fork(from, order).await?;
    state.counters.forked(forks.len());
    for fork in &forks {
        Equipment::of(state, caller, address, (&fork.sandbox, &fork.session)).provide_later();
    }
    let told = |fork| with_mcp_url(convert::created(fork), &fork.sandbox, address);
    let sandboxes = forks.iter().map(told).collect();
    Ok((StatusCode::CREATED, Json(api::Forks { sandboxes })))
}

/// Templates are the server's, for all owners: only an administrator makes one.
pub(crate) async fn make_template(
    State(state): State<AppState>,
    caller: Caller,
    SnapshotPath(id): SnapshotPath,
    Json(body): Json<api::MakeTemplate>,
) -> Result<(StatusCode, Json<api::Template>), ApiError> {
    let name = parsed("name", &body.name)?;
    let made = state.engine.as_(&caller).snapshots().make_template(&id, &name).await?;
    Ok((StatusCode::CREATED, Json(convert::template(&made))))
}

/// Fills in the template or image below the snapshot that a new sandbox is to start from. If there
/// is no such snapshot the engine says so, unless the request is a repeated one that it has
/// answered before.
pub(super) async fn settle_template(
    state: &AppState,
    caller: &Caller,
    body: &mut api::CreateSandbox,
    at: &str,
) -> Result<(), ApiError> {
    let Some(text) = &body.snapshot_id else { return Ok(()) };
    let id: SnapshotId = parsed(format!("{at}snapshot_id"), text)?;
    let Ok(snapshot) = state.engine.as_(caller).snapshots().get(&id).await else { return Ok(()) };
    if let Some(image) = &snapshot.spec.image {
        if body.image.as_ref().is_some_and(|given| *given != image.name.as_str()) {
            let detail = format!("the snapshot stands on the image `{image}`: leave this out");
            return Err(ApiError::invalid(format!("{at}image"), detail));
        }
        body.image = Some(image.to_string());
        return Ok(());
    }
    let below = snapshot.spec.template.to_string();
    if body.template.as_ref().is_some_and(|given| *given != below) {
        let detail = format!("the snapshot stands on the template `{below}`: leave this out");
        return Err(ApiError::invalid(format!("{at}template"), detail));
    }
    body.template = Some(below);
    Ok(())
}
