//! Traffic to ports of sandboxes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;

use super::text::Text;
use super::times::Times;

/// Counted by the proxy. Which port of which sandbox it was is for the log: labels would be without
/// number.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// By the first digit of the status.
    requests: Mutex<[Times; 6]>,
    open: Arc<AtomicU64>,
}

/// A connection that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<AtomicU64>);

impl Ports {
    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.requests.lock()[class].add(took);
    }

    /// A connection became something else than requests and answers.
    pub(crate) fn opened(&self) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(&self.open))
    }

    pub(super) fn write(&self, text: &mut Text) {
        let requests = *self.requests.lock();
        text.family(
            "warren_port_request_seconds",
            "histogram",
            "Time to the head of an application's answer.",
        );
        for (class, times) in requests.iter().enumerate().skip(1) {
            times.write(text, "warren_port_request_seconds", &format!(r#"status="{class}xx""#));
        }
        let open = self.open.load(Ordering::Relaxed);
        text.gauge("warren_port_connections", "Web sockets and tunnels to ports of sandboxes.", open);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
