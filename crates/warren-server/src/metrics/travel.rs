//! Costs of snapshots, rollbacks, forks and tools for their callers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use warren_core::SnapshotMethod;
use warren_engine::{Taken, ToolResult};

use super::text::Text;
use super::times::Times;

/// Counted where a request was answered. What is taken without being asked for is the engine's to
/// count.
#[derive(Debug, Default)]
pub(crate) struct Travel {
    /// By method: how long a snapshot took, and how long its sandbox stood still.
    snapshots: Mutex<BTreeMap<&'static str, (Times, Times)>>,
    rollbacks: Mutex<Times>,
    forks: AtomicU64,
    /// By tool, and whether it did what it was asked to. Names come from the engine's table of
    /// tools.
    tools: Mutex<BTreeMap<(String, bool), Times>>,
}

impl Travel {
    pub(crate) fn took(&self, taken: &Taken) {
        let method = match taken.snapshot.method {
            SnapshotMethod::Unchanged => "unchanged",
            SnapshotMethod::Sealed => "sealed",
            SnapshotMethod::Copied => "copied",
            SnapshotMethod::Cloned => "cloned",
        };
        let mut snapshots = self.snapshots.lock();
        let (took, frozen) = snapshots.entry(method).or_default();
        took.add(taken.took);
        frozen.add(taken.frozen);
    }

    pub(crate) fn rolled_back(&self, took: Duration) {
        self.rollbacks.lock().add(took);
    }

    pub(crate) fn forked(&self, count: usize) {
        self.forks.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// One of a tool that exists: it answered.
    pub(crate) fn called(&self, tool: &str, result: &ToolResult) {
        let mut tools = self.tools.lock();
        let times = tools.entry((tool.to_owned(), result.is_error)).or_default();
        times.add(Duration::from_millis(result.duration_ms));
    }

    pub(super) fn write(&self, text: &mut Text) {
        let snapshots = self.snapshots.lock().clone();
        let (took, frozen) = ("warren_snapshot_seconds", "warren_snapshot_frozen_seconds");
        text.family(took, "histogram", "Time to take a snapshot that was asked for.");
        for (method, (times, _)) in &snapshots {
            times.write(text, took, &format!(r#"method="{method}""#));
        }
        text.family(frozen, "histogram", "How long the sandbox stood still for it.");
        for (method, (_, times)) in &snapshots {
            times.write(text, frozen, &format!(r#"method="{method}""#));
        }
        let rollbacks = *self.rollbacks.lock();
        text.family("warren_rollback_seconds", "histogram", "Time to go back to another state.");
        rollbacks.write(text, "warren_rollback_seconds", "");
        let forks = self.forks.load(Ordering::Relaxed);
        text.counter("warren_forks_total", "Sandboxes made as forks.", forks);
        let tools = self.tools.lock().clone();
        text.family("warren_tool_seconds", "histogram", "Time of a tool call.");
        for ((tool, failed), times) in &tools {
            times.write(text, "warren_tool_seconds", &format!(r#"tool="{tool}",failed="{failed}""#));
        }
    }
}
