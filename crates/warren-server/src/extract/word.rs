//! Words for sandboxes that stand in queries and bodies. A text that cannot be one is a wrong value
//! of its field, unlike in a path.

use warren_core::{Caller, SandboxId, SnapshotId};
use warren_engine::Point;
use warren_face::error::{ApiError, parsed};

use super::Params;
use crate::state::AppState;

/// The sandbox that the text of a field means.
pub(crate) async fn sandbox_in(
    field: &str,
    text: &str,
    state: &AppState,
    caller: &Caller,
) -> Result<SandboxId, ApiError> {
    Ok(state.engine.as_(caller).resolve(&parsed(field, text)?).await?)
}

/// As [`sandbox_in`], for a parameter that may be left out.
pub(crate) async fn sandbox_param(
    name: &'static str,
    params: &Params,
    state: &AppState,
    caller: &Caller,
) -> Result<Option<SandboxId>, ApiError> {
    match params.text(name) {
        Some(text) => sandbox_in(name, text, state, caller).await.map(Some),
        None => Ok(None),
    }
}

/// A state: a snapshot by its id, or a sandbox by any word.
pub(crate) async fn point_in(
    field: &str,
    text: &str,
    state: &AppState,
    caller: &Caller,
) -> Result<Point, ApiError> {
    match text.parse::<SnapshotId>() {
        Ok(id) => Ok(Point::Snapshot(id)),
        Err(_) => sandbox_in(field, text, state, caller).await.map(Point::Sandbox),
    }
}
