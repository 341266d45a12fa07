use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::json;

use super::Visitor;
use super::refusal::Refusal;
use crate::annotation::Annotation;
use crate::metrics;

const MIB: u64 = 1 << 20;

/// Answers that the sandbox runs: no other request gets here.
pub(super) fn health() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

pub(super) async fn metrics(visitor: &Visitor) -> Result<Response, Refusal> {
    let measured = metrics::measure(&visitor.state, &visitor.record).await?;
    let body = json!({
        "ts": measured.at_unix_ms / 1000,
        "cpu_count": measured.cpu_count,
        "cpu_used_pct": measured.cpu_used_pct,
        "mem_total": measured.mem_total,
        "mem_used": measured.mem_used,
        "mem_cache": measured.mem_cache,
        "mem_total_mib": measured.mem_total / MIB,
        "mem_used_mib": measured.mem_used / MIB,
        "disk_used": measured.disk_used,
        "disk_total": measured.disk_total,
    });
    Ok(Json(body).into_response())
}

/// The variables that every process of the sandbox has.
pub(super) fn envs(visitor: &Visitor) -> Response {
    Json(Annotation::env(&visitor.record)).into_response()
}
