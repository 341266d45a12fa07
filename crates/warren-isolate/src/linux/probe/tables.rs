//! Checks of tables and memory that all sandboxes of the machine share.

use std::fs;

use warren_core::Check;

use super::super::cgroup::Layout;
use super::{ok, warning};

/// A sandbox's filter takes a page on kernels that do not pack filters.
const FILTER_BYTES: u64 = 4096;
/// Room for this many sandboxes is enough on any machine.
const MANY: u64 = 8192;

/// Memory for compiled filters. Each sandbox has one, and cannot start without it.
pub(super) fn filters() -> Check {
    judge_filters(number("/proc/sys/net/core/bpf_jit_limit"))
}

fn judge_filters(limit: Option<u64>) -> Check {
    let name = "filter memory";
    match limit {
        Some(limit) if limit / FILTER_BYTES >= MANY => ok(name, format!("net.core.bpf_jit_limit is {limit}")),
        Some(limit) => warning(
            name,
            format!("net.core.bpf_jit_limit is {limit}, room for about {} sandboxes", limit / FILTER_BYTES),
            "raise it: sysctl net.core.bpf_jit_limit=528482304",
        ),
        None => ok(name, "the kernel compiles no filters, so that none is short of memory"),
    }
}

pub(super) fn socket_buffers() -> Check {
    let name = "socket buffers";
    let switched_off = fs::read_to_string("/proc/cmdline").unwrap_or_default().contains("nosocket");
    let Ok(layout) = Layout::detect() else {
        return warning(name, "unknown", "see `control groups`");
    };
    match layout.counts_buffers() && !switched_off {
        true => ok(name, "held to each sandbox's limit"),
        false => warning(
            name,
            "not counted: a sandbox could use up the host's memory with them",
            "use control groups v2, without `cgroup.memory=nosocket` on the kernel's command line",
        ),
    }
}

/// Memory of kernel objects is counted unless the command line switches that off.
pub(super) fn kernel_memory() -> Check {
    let name = "kernel memory";
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if line.contains("nokmem") {
        return warning(
            name,
            "not counted: open files, pipes, names and processes of a sandbox are not held to its limit",
            "boot without `cgroup.memory=nokmem`",
        );
    }
    ok(name, "counted as each sandbox's memory")
}

/// A write to a merged page takes longer, which tells that another process has the same content.
pub(super) fn merged_pages() -> Check {
    let name = "merged pages";
    match number("/sys/kernel/mm/ksm/run") {
        Some(1) => warning(
            name,
            "the host merges equal pages of whoever asks (KSM): sandboxes can find out what others have in memory",
            "switch it off: echo 2 > /sys/kernel/mm/ksm/run",
        ),
        _ => ok(name, "none: the host does not merge equal pages"),
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use warren_core::CheckStatus;

    use super::*;

    #[test]
    fn a_small_memory_for_filters_is_told() {
        assert_eq!(judge_filters(Some(528_482_304)).status, CheckStatus::Ok);
        let small = judge_filters(Some(1 << 20));
        assert_eq!(small.status, CheckStatus::Warning);
        assert!(small.found.contains("about 256 sandboxes") && small.advice.contains("bpf_jit_limit="));
        assert_eq!(judge_filters(None).status, CheckStatus::Ok);
    }
}
