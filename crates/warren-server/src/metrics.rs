use std::sync::atomic::{AtomicU64, Ordering};

/// Figures for Prometheus.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    auth_failures: AtomicU64,
}

impl Metrics {
    pub(crate) fn auth_failed(&self) {
        self.auth_failures.fetch_add(1, Ordering::Relaxed);
    }
}
