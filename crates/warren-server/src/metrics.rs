//! Figures in Prometheus' text format, written by hand: there are few, and their labels are of our
//! own making.

mod network;
mod ports;
mod text;
mod times;
mod travel;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use warren_engine::{HealthStatus, Mode, Taken};
use warren_face::{Counters, Desk};

use ports::Ports;
use text::Text;
use times::Times;
use travel::Travel;

/// Figures that the server itself counts. The rest is asked of the engine and the machine when
/// somebody looks.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    auth_failures: AtomicU64,
    /// By method, route and status. All three come from our own tables, so there are few.
    requests: Mutex<BTreeMap<(String, String, u16), Times>>,
    pub(crate) travel: Travel,
    pub(crate) ports: Ports,
}

impl Metrics {
    /// All figures, as they are now.
    pub(crate) async fn shown(&self, desk: &Desk) -> String {
        let mut text = Text::default();
        self.write(&mut text);
        write_engine(desk, &mut text).await;
        network::write(desk, &mut text).await;
        write_process(&mut text);
        text.finish()
    }

    fn write(&self, text: &mut Text) {
        let failures = self.auth_failures.load(Ordering::Relaxed);
        text.counter("warren_auth_failures_total", "Requests without a valid key.", failures);
        let requests = self.requests.lock().clone();
        text.family("warren_http_request_seconds", "histogram", "Time to the head of the answer.");
        for ((method, route, status), times) in &requests {
            let labels = format!(r#"method="{method}",route="{route}",status="{status}""#);
            times.write(text, "warren_http_request_seconds", &labels);
        }
        self.travel.write(text);
        self.ports.write(text);
    }
}

impl Counters for Metrics {
    fn auth_failed(&self) {
        self.auth_failures.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&self, method: &Method, route: &str, status: u16, took: Duration) {
        // A method that no route has is the client's invention.
        let method = if route == "-" { "-" } else { method.as_str() };
        let mut requests = self.requests.lock();
        requests.entry((method.to_owned(), route.to_owned(), status)).or_default().add(took);
    }

    fn took(&self, taken: &Taken) {
        self.travel.took(taken);
    }

    fn forked(&self, count: usize) {
        self.travel.forked(count);
    }
}

async fn write_engine(desk: &Desk, text: &mut Text) {
    let (stats, health) = (desk.engine.stats().await, desk.engine.health().await);
    text.counter("warren_sandboxes_created_total", "Sandboxes made since the start.", stats.created);
    text.counter("warren_sandboxes_create_failed_total", "Creates that failed.", stats.create_failed);
    text.counter("warren_sandboxes_ended_total", "Sandboxes that ended.", stats.destroyed);
    text.counter(
        "warren_sandboxes_timed_out_total",
        "Sandboxes that a time limit ended.",
        stats.destroyed_by_timeout,
    );
    text.counter("warren_execs_total", "Programs started in sandboxes.", stats.execs);
    text.counter("warren_errors_total", "Errors of the engine's own making.", health.errors);
    text.family("warren_sandboxes", "gauge", "Sandboxes by where they stand.");
    text.sample("warren_sandboxes", r#"state="active""#, stats.active_sandboxes);
    text.sample("warren_sandboxes", r#"state="paused""#, stats.paused_sandboxes);
    text.sample("warren_sandboxes", r#"state="stopped""#, stats.stopped_sandboxes);
    text.family("warren_sessions", "gauge", "Sessions by where they stand.");
    text.sample("warren_sessions", r#"state="active""#, stats.active_sessions);
    text.sample("warren_sessions", r#"state="detached""#, stats.detached_sessions);
    text.gauge("warren_sandboxes_max", "Sandboxes that may be alive at once.", health.max_sandboxes);
    text.gauge("warren_create_mean_seconds", "Mean time to make a sandbox.", stats.mean_creation_ms / 1000.0);
    text.gauge("warren_uptime_seconds", "Since the engine started.", health.uptime_s);
    text.gauge(
        "warren_healthy",
        "1 if new work is accepted.",
        u8::from(health.status < HealthStatus::Critical),
    );
    let read_only = matches!(desk.engine.mode(), Mode::ReadOnly { .. });
    text.gauge("warren_read_only", "1 if the server only answers questions.", u8::from(read_only));
    if let Some(disk) = health.disk {
        text.gauge("warren_disk_free_bytes", "Room on the data directory's disk.", disk.free_bytes);
    }
}

fn write_process(text: &mut Text) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident: u64 = pages.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    text.gauge("process_resident_memory_bytes", "Memory of the server itself.", resident * page);
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    text.gauge("process_open_fds", "Descriptors that the server has open.", descriptors);
}
