use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use warren_core::{DeathCause, NetworkUsage, SessionState, Status};

use crate::Engine;

/// Figures since the engine started, and of this moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    pub created: u64,
    pub create_failed: u64,
    pub destroyed: u64,
    pub destroyed_by_timeout: u64,
    pub active_sandboxes: u64,
    pub paused_sandboxes: u64,
    pub stopped_sandboxes: u64,
    pub active_sessions: u64,
    pub detached_sessions: u64,
    pub pool_size: u64,
    pub pool_hit_rate: f64,
    pub mean_creation_ms: f64,
    pub execs: u64,
}

/// What is counted as it happens.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    created: AtomicU64,
    creation_ms: AtomicU64,
    create_failed: AtomicU64,
    destroyed: AtomicU64,
    destroyed_by_timeout: AtomicU64,
    execs: AtomicU64,
    faults: AtomicU64,
    ended_links: Mutex<NetworkUsage>,
}

impl Figures {
    pub(crate) fn created(&self, took_ms: u64) {
        count(&self.created);
        self.creation_ms.fetch_add(took_ms, Ordering::Relaxed);
    }

    pub(crate) fn create_failed(&self) {
        count(&self.create_failed);
    }

    pub(crate) fn ended(&self, cause: &DeathCause) {
        count(&self.destroyed);
        if matches!(cause, DeathCause::Timeout | DeathCause::Idle | DeathCause::Ttl) {
            count(&self.destroyed_by_timeout);
        }
    }

    pub(crate) fn exec(&self) {
        count(&self.execs);
    }

    pub(crate) fn fault(&self) {
        count(&self.faults);
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// A link is gone that carried this much.
    pub(crate) fn link_ended(&self, usage: &NetworkUsage) {
        self.ended_links.lock().unwrap_or_else(PoisonError::into_inner).add_ended(usage);
    }

    /// What links that are gone have carried.
    pub(crate) fn ended_links(&self) -> NetworkUsage {
        *self.ended_links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mean_creation_ms(&self) -> f64 {
        let created = self.created.load(Ordering::Relaxed).max(1);
        self.creation_ms.load(Ordering::Relaxed) as f64 / created as f64
    }
}

impl Engine {
    pub async fn stats(&self) -> Stats {
        let (figures, registry) = (&self.shared.figures, &self.shared.registry);
        let (active_sessions, detached_sessions) = self.count_sessions().await;
        let get = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Stats {
            created: get(&figures.created),
            create_failed: get(&figures.create_failed),
            destroyed: get(&figures.destroyed),
            destroyed_by_timeout: get(&figures.destroyed_by_timeout),
            active_sandboxes: registry.count(is_active) as u64,
            paused_sandboxes: registry.count(|status| status == Status::Paused) as u64,
            stopped_sandboxes: registry.kept_count() as u64,
            active_sessions,
            detached_sessions,
            pool_size: 0,
            pool_hit_rate: 0.0,
            mean_creation_ms: figures.mean_creation_ms(),
            execs: get(&figures.execs),
        }
    }

    /// Sessions whose client is there, and those whose client went away. Zero when the catalog does not answer.
    pub(crate) async fn count_sessions(&self) -> (u64, u64) {
        let open = self.catalog(|catalog| catalog.open_sessions(catalog.node())).await.unwrap_or_default();
        let count = |state| open.iter().filter(|session| session.state == state).count() as u64;
        (count(SessionState::Active), count(SessionState::Detached))
    }
}

fn is_active(status: Status) -> bool {
    match status {
        Status::Creating | Status::Ready | Status::Stopping => true,
        Status::Paused | Status::Stopped | Status::Failed => false,
    }
}

fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}
