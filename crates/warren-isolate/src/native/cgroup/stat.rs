//! Reading what a group used. A figure that cannot be read counts as zero: statistics never fail a call.

use std::fs;
use std::path::{Path, PathBuf};

use warren_core::Usage;

use super::Layout;

pub(super) fn usage(layout: &Layout, group: impl Fn(&Path) -> PathBuf) -> Usage {
    let mut usage = Usage::default();
    if let (Some(root), v1) = layout.memory() {
        let group = group(root);
        let names = if v1 {
            ("memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")
        } else {
            ("memory.current", "memory.peak", "memory.events")
        };
        usage.memory_bytes = number(&group.join(names.0));
        usage.memory_peak_bytes = number(&group.join(names.1));
        usage.oom_kills = field(&group.join(names.2), "oom_kill");
    }
    if let Some(root) = layout.pids() {
        usage.pids = number(&group(root).join("pids.current"));
    }
    usage.cpu_ns = match (layout.v2_root(), layout.v1_accounting()) {
        (Some(root), _) => field(&group(root).join("cpu.stat"), "usage_usec").saturating_mul(1000),
        (None, Some(root)) => number(&group(root).join("cpuacct.usage")),
        (None, None) => 0,
    };
    usage
}

fn number(path: &Path) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The value of a line `name value`.
fn field(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or(0)
}
