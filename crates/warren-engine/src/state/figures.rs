use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use warren_core::{DeathCause, NetworkUsage};

/// Counters, changed as things happen.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) created: AtomicU64,
    creation_ms: AtomicU64,
    pub(crate) create_failed: AtomicU64,
    pub(crate) destroyed: AtomicU64,
    pub(crate) destroyed_by_timeout: AtomicU64,
    pub(crate) execs: AtomicU64,
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
        self.ended_links.lock().add_ended(usage);
    }

    /// The traffic of links that are gone.
    pub(crate) fn ended_links(&self) -> NetworkUsage {
        *self.ended_links.lock()
    }

    pub(crate) fn mean_creation_ms(&self) -> f64 {
        let created = self.created.load(Ordering::Relaxed).max(1);
        self.creation_ms.load(Ordering::Relaxed) as f64 / created as f64
    }
}

fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}
