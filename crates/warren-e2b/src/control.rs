//! The control plane: makes, finds, changes and ends sandboxes.

mod answer;
pub(crate) mod create;
pub(crate) mod fork;
pub(crate) mod lifecycle;
pub(crate) mod list;
pub(crate) mod snapshots;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};
use warren_engine::HealthStatus;

use crate::state::E2b;

pub(crate) async fn health(State(state): State<E2b>) -> (StatusCode, Json<Value>) {
    match state.engine.health().await.status {
        HealthStatus::Ok | HealthStatus::Warning => (StatusCode::OK, Json(json!({"status": "ok"}))),
        HealthStatus::Critical => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "critical"}))),
    }
}
