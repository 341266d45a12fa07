use warren_core::{Limits, RunLimits, SandboxKind, TemplateName, Timeouts};

use crate::config::Config;

pub(super) fn limits(config: &Config) -> Limits {
    let limits = &config.limits;
    Limits {
        memory: limits.memory,
        cpus: limits.cpus,
        pids: limits.pids,
        disk: limits.disk,
        inodes: limits.inodes,
        open_files: limits.open_files,
        lifetime_s: limits.ttl.as_secs(),
    }
}

pub(super) fn timeouts(config: &Config) -> Timeouts {
    let timeouts = &config.timeouts;
    Timeouts {
        active_s: timeouts.active.as_secs(),
        detached_s: timeouts.detached.as_secs(),
        suspended_s: timeouts.suspended.as_secs(),
    }
}

pub(super) fn run_limits(config: &Config) -> RunLimits {
    let runs = &config.runs;
    RunLimits {
        runs: runs.runs,
        run_s: runs.run_time.as_secs(),
        tokens: runs.tokens,
        duration_s: runs.duration.as_secs(),
    }
}

pub(super) fn template(config: &Config, kind: SandboxKind) -> TemplateName {
    match kind {
        SandboxKind::Terminal => config.templates.terminal.clone(),
        SandboxKind::Research => config.templates.research.clone(),
    }
}
