use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use warren_core::{SessionState, Status};

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
            pool_size: self.shared.pools.size() as u64,
            pool_hit_rate: self.shared.pools.hit_rate(),
            mean_creation_ms: figures.mean_creation_ms(),
            execs: get(&figures.execs),
        }
    }

    /// Sessions whose client is there, and those whose client went away. Zero when the catalog does
    /// not answer.
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
