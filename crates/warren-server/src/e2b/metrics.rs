//! What sandboxes used, in the last while: looked at every few seconds, and kept in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use warren_core::{SandboxId, SandboxRecord};
use warren_e2b::rest::{SandboxMetric, SandboxesMetrics};
use warren_engine::EngineError;

use super::control::{self, E2bError, Id, Shown};
use super::traits::Traits;
use crate::auth::Caller;
use crate::convert::rfc3339;
use crate::e2b::BY;
use crate::extract::Params;
use crate::state::AppState;

/// How often sandboxes are looked at. They are looked at one after another, so that many of them are no burden.
const EVERY: Duration = Duration::from_secs(5);

/// What is kept of one sandbox: an hour.
const MOST_KEPT: usize = 720;

/// Sandboxes that one request may ask for.
const MOST_ASKED: usize = 100;

/// What a sandbox used at one moment. All sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) at_unix_ms: u64,
    pub(crate) cpu_count: u32,
    pub(crate) cpu_used_pct: f64,
    pub(crate) mem_used: u64,
    pub(crate) mem_total: u64,
    pub(crate) mem_cache: u64,
    pub(crate) disk_used: u64,
    pub(crate) disk_total: u64,
}

/// What was measured of sandboxes that live.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    known: Mutex<HashMap<SandboxId, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    kept: VecDeque<Measured>,
    /// When its processor time was last looked at, and how much it was.
    clock: Option<(u64, u64)>,
    cpu_used_pct: f64,
}

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/sandboxes/{id}/metrics", get(of_one)).route("/sandboxes/metrics", get(of_several))
}

/// Looks at all sandboxes that were made through E2B, until the server ends. Others are looked at when somebody asks.
pub(crate) async fn keep_sampling(state: AppState) {
    loop {
        let living = state.engine.living();
        state.samples.retain(|id| living.iter().any(|record| record.id == *id));
        for record in living.iter().filter(|record| Traits::are_written(record) && is_running(record)) {
            // One that ends meanwhile is not there to be looked at.
            drop(sample(&state, record).await);
        }
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// What a sandbox uses now.
pub(crate) async fn measure(state: &AppState, record: &SandboxRecord) -> Result<Measured, EngineError> {
    let usage = state.engine_as(BY, &record.owner).sandbox(&record.id).usage().await?;
    let limits = &record.spec.limits;
    let mut samples = state.samples.lock();
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
async fn sample(state: &AppState, record: &SandboxRecord) -> Result<Measured, EngineError> {
    let measured = measure(state, record).await?;
    state.samples.keep(&record.id, measured);
    Ok(measured)
}

/// Row 15.
async fn of_one(
    State(state): State<AppState>,
    caller: Caller,
    Id(id): Id,
    params: Params,
) -> Result<Json<Vec<SandboxMetric>>, E2bError> {
    let (start, end) = (params.number("start", 0, u64::MAX)?, params.number("end", 0, u64::MAX)?);
    if start.zip(end).is_some_and(|(start, end)| start > end) {
        return Err(E2bError::bad_request("start: it is later than `end`"));
    }
    let record = control::find(&state, &caller, &id).await?;
    let mut kept = state.samples.of(&id);
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
async fn of_several(
    State(state): State<AppState>,
    caller: Caller,
    params: Params,
) -> Result<Json<SandboxesMetrics>, E2bError> {
    let asked: Vec<&str> = params.all("sandbox_ids").flat_map(|ids| ids.split(',')).collect();
    if asked.len() > MOST_ASKED {
        return Err(E2bError::bad_request(format!("sandbox_ids: {MOST_ASKED} ids at most")));
    }
    let mut sandboxes = BTreeMap::new();
    for text in asked {
        let Ok(id) = control::parse_id(text) else { continue };
        let Ok(record) = control::find(&state, &caller, &id).await else { continue };
        let last = match state.samples.of(&id).last() {
            Some(last) => Some(*last),
            None if is_running(&record) => sample(&state, &record).await.ok(),
            None => None,
        };
        sandboxes.extend(last.map(|last| (text.to_owned(), told(&last))));
    }
    Ok(Json(SandboxesMetrics { sandboxes }))
}

fn is_running(record: &SandboxRecord) -> bool {
    matches!(control::shown_as(record), Some(Shown::Running))
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

impl Samples {
    fn keep(&self, id: &SandboxId, measured: Measured) {
        let mut known = self.lock();
        let kept = &mut known.entry(id.clone()).or_default().kept;
        if kept.len() >= MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back(measured);
    }

    /// The oldest first.
    fn of(&self, id: &SandboxId) -> Vec<Measured> {
        self.lock().get(id).map(|known| known.kept.iter().copied().collect()).unwrap_or_default()
    }

    fn retain(&self, lives: impl Fn(&SandboxId) -> bool) {
        self.lock().retain(|id, _| lives(id));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// How much of what it may use of its processors it used since somebody looked last, in percent, to two digits.
    fn cpu_used(&mut self, now_ms: u64, cpu_ns: u64, cpus: f64) -> f64 {
        if let Some((before_ms, before_ns)) = self.clock
            && now_ms > before_ms
        {
            let (passed_ns, used_ns) =
                ((now_ms - before_ms) as f64 * 1e6, cpu_ns.saturating_sub(before_ns) as f64);
            let share = used_ns / (passed_ns * cpus.max(0.001));
            self.cpu_used_pct = (share * 10_000.0).round().clamp(0.0, 10_000.0) / 100.0;
        }
        if self.clock.is_none_or(|(before_ms, _)| now_ms > before_ms) {
            self.clock = Some((now_ms, cpu_ns));
        }
        self.cpu_used_pct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_told_as_a_share_of_what_it_may_use() {
        let mut known = Known::default();
        assert_eq!(known.cpu_used(1000, 5_000_000, 2.0), 0.0);
        // A second later it has used half a second of the two that it might have.
        assert_eq!(known.cpu_used(2000, 505_000_000, 2.0), 25.0);
        assert_eq!(known.cpu_used(2000, 900_000_000, 2.0), 25.0, "no time has passed");
        assert_eq!(known.cpu_used(3000, 9_005_000_000, 2.0), 100.0);
        assert_eq!(known.cpu_used(4000, 0, 2.0), 0.0, "another life began");
    }

    #[test]
    fn no_more_is_kept_than_an_hour() {
        let (samples, id) = (Samples::default(), SandboxId::from_random([1; 16]));
        for at_unix_ms in 0..2000 {
            let measured = Measured {
                at_unix_ms,
                cpu_count: 1,
                cpu_used_pct: 0.0,
                mem_used: 0,
                mem_total: 0,
                mem_cache: 0,
                disk_used: 0,
                disk_total: 0,
            };
            samples.keep(&id, measured);
        }
        let kept = samples.of(&id);
        assert_eq!((kept.len(), kept[0].at_unix_ms, kept[719].at_unix_ms), (720, 1280, 1999));
        samples.retain(|_| false);
        assert!(samples.of(&id).is_empty());
    }
}
