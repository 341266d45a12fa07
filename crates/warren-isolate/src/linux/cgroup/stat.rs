//! Reading a group's usage. A figure that cannot be read is zero: statistics never fail a call.

use std::fs;
use std::path::{Path, PathBuf};

use warren_core::{Pulse, Usage};

use super::Layout;

pub(crate) fn usage(layout: &Layout, group: impl Fn(&Path) -> PathBuf) -> Usage {
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
        usage.memory_cache_bytes = field(&group.join("memory.stat"), if v1 { "total_cache" } else { "file" });
        usage.oom_kills = field(&group.join(names.2), "oom_kill");
    }
    if let Some(root) = layout.pids() {
        usage.pids = number(&group(root).join("pids.current"));
    }
    let Pulse { cpu_ns, io_bytes, .. } = pulse(layout, group);
    Usage { cpu_ns, io_bytes, ..usage }
}

pub(crate) fn pulse(layout: &Layout, group: impl Fn(&Path) -> PathBuf) -> Pulse {
    let cpu_ns = match (layout.v2_root(), layout.v1_accounting()) {
        (Some(root), _) => field(&group(root).join("cpu.stat"), "usage_usec").saturating_mul(1000),
        (None, Some(root)) => number(&group(root).join("cpuacct.usage")),
        (None, None) => 0,
    };
    let io_bytes = layout
        .io()
        .map_or(0, |(root, file)| io_bytes(&fs::read_to_string(group(root).join(file)).unwrap_or_default()));
    Pulse { cpu_ns, io_bytes, connections: 0 }
}

/// Bytes read and written, over all devices. v1 has lines `8:0 Read 4096`, v2 `8:0 rbytes=4096
/// wbytes=0 rios=1 …`.
fn io_bytes(text: &str) -> u64 {
    let words = |line: &str| -> u64 {
        let mut words = line.split_whitespace().skip(1);
        match (words.next(), words.next()) {
            (Some("Read" | "Write"), Some(bytes)) => bytes.parse().unwrap_or(0),
            _ => pairs(line),
        }
    };
    text.lines().map(words).fold(0, u64::saturating_add)
}

fn pairs(line: &str) -> u64 {
    let bytes = line.split_whitespace().filter_map(|word| {
        let value = word.strip_prefix("rbytes=").or_else(|| word.strip_prefix("wbytes="))?;
        value.parse::<u64>().ok()
    });
    bytes.fold(0, u64::saturating_add)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_devices_are_summed_and_nothing_is_counted_twice() {
        let v1 = "8:0 Read 4096\n8:0 Write 512\n8:0 Sync 4608\n8:0 Async 0\n8:0 Discard 0\n8:0 Total 4608\n\
                  7:1 Read 100\n7:1 Write 0\nTotal 4708\n";
        assert_eq!(io_bytes(v1), 4708);
        let v2 = "8:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=7 dios=1\n7:1 rbytes=100 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n";
        assert_eq!(io_bytes(v2), 4708);
        assert_eq!(io_bytes("garbage\n8:0 Read x\n"), 0);
    }
}
