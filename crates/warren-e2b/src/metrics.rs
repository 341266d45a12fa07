//! Resources that sandboxes use: measured every few seconds, and shown.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use warren_core::SandboxRecord;
use warren_engine::EngineError;
use warren_face::auth::Caller;
use warren_face::extract::Params;
use warren_face::time::rfc3339;

use crate::annotation::Annotation;
use crate::error::E2bError;
use crate::extract::{Id, find_id};
use crate::rest::{SandboxMetric, SandboxesMetrics};
use crate::samples::Measured;
use crate::shown::{Shown, find, shown_as};
use crate::state::BY;
use crate::state::E2b;

/// How often sandboxes are looked at. They are looked at one after another, so that many of them
/// are no burden.
const EVERY: Duration = Duration::from_secs(5);

/// Sandboxes that one request may ask for.
const MOST_ASKED: usize = 100;

/// Looks at all sandboxes that were made through E2B, until the server ends. Others are looked at
/// when somebody asks.
pub async fn keep_sampling(state: E2b) {
    loop {
        let living = state.engine.living();
        state.samples().retain(|id| living.iter().any(|record| record.id == *id));
        for record in living.iter().filter(|record| Annotation::is_written(record) && is_running(record)) {
            // One that ends meanwhile is not there to be looked at.
            drop(sample(&state, record).await);
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Measures what a sandbox uses now.
pub(crate) async fn measure(state: &E2b, record: &SandboxRecord) -> Result<Measured, EngineError> {
    let usage = state.engine_as(BY, &record.owner).sandbox(&record.id).usage().await?;
    let limits = &record.spec.limits;
    let mut samples = state.samples().lock();
    let known = samples.entry(record.id.clone()).or_default();
    let cpus = f64::from(limits.cpus.milli()) / 1000.0;
    Ok(Measured {
        at_unix_ms: state.clock.unix_ms(),
        cpu_count: limits.cpus.milli().div_ceil(1000),
        cpu_used_pct: known.cpu_used(state.clock.boot_ms(), usage.cpu_ns, cpus),
        mem_used: usage.memory_bytes.saturating_sub(usage.memory_cache_bytes),
        mem_total: limits.memory.0,
        mem_cache: usage.memory_cache_bytes,
        disk_used: usage.disk_bytes,
        disk_total: limits.disk.0,
    })
}

/// Measures, and keeps it.
async fn sample(state: &E2b, record: &SandboxRecord) -> Result<Measured, EngineError> {
    let measured = measure(state, record).await?;
    state.samples().keep(&record.id, measured);
    Ok(measured)
}

/// Row 15.
pub(crate) async fn of_one(
    State(state): State<E2b>,
    caller: Caller,
    Id(id): Id,
    params: Params,
) -> Result<Json<Vec<SandboxMetric>>, E2bError> {
    let (start, end) = (params.number("start", 0, u64::MAX)?, params.number("end", 0, u64::MAX)?);
    if start.zip(end).is_some_and(|(start, end)| start > end) {
        return Err(E2bError::bad_request("start: it is later than `end`"));
    }
    let record = find(&state, &caller, &id).await?;
    let mut kept = state.samples().of(&id);
    if kept.is_empty() && is_running(&record) {
        kept.push(sample(&state, &record).await?);
    }
    let wanted = |measured: &&Measured| {
        let at_s = measured.at_unix_ms / 1000;
        start.is_none_or(|start| at_s >= start) && end.is_none_or(|end| at_s <= end)
    };
    Ok(Json(kept.iter().filter(wanted).map(told).collect()))
}

/// Row 16. Sandboxes that are not there, or not the caller's, are left out.
pub(crate) async fn of_several(
    State(state): State<E2b>,
    caller: Caller,
    params: Params,
) -> Result<Json<SandboxesMetrics>, E2bError> {
    let asked: Vec<&str> = params.all("sandbox_ids").flat_map(|ids| ids.split(',')).collect();
    if asked.len() > MOST_ASKED {
        return Err(E2bError::bad_request(format!("sandbox_ids: {MOST_ASKED} ids at most")));
    }
    let mut sandboxes = BTreeMap::new();
    for text in asked {
        let Ok(id) = find_id(&state, &caller, text).await else { continue };
        let Ok(record) = find(&state, &caller, &id).await else { continue };
        let last = match state.samples().of(&id).last() {
            Some(last) => Some(*last),
            None if is_running(&record) => sample(&state, &record).await.ok(),
            None => None,
        };
        sandboxes.extend(last.map(|last| (text.to_owned(), told(&last))));
    }
    Ok(Json(SandboxesMetrics { sandboxes }))
}

fn is_running(record: &SandboxRecord) -> bool {
    matches!(shown_as(record), Some(Shown::Running))
}

fn told(measured: &Measured) -> SandboxMetric {
    SandboxMetric {
        timestamp: rfc3339(measured.at_unix_ms),
        timestamp_unix: measured.at_unix_ms / 1000,
        cpu_count: measured.cpu_count.into(),
        cpu_used_pct: measured.cpu_used_pct,
        mem_used: measured.mem_used,
        mem_total: measured.mem_total,
        mem_cache: measured.mem_cache,
        disk_used: measured.disk_used,
        disk_total: measured.disk_total,
    }
}
