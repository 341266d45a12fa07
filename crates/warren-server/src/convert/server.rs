use warren_core::{DiskSpace, TemplateInfo};
use warren_engine::{Health, Mode, Stats};
use warren_wire::api;

use super::rfc3339;
use super::words::health_status;

/// Strangers learn whether the server works, and nothing of what it does.
pub(crate) fn health(health: Health, no_network: Option<String>, to_strangers: bool) -> api::Health {
    let status = health_status(health.status);
    let details = (!to_strangers).then(|| api::HealthDetails {
        read_only: matches!(health.mode, Some(Mode::ReadOnly { .. })),
        problems: health.problems,
        backends: health.backends,
        disk: health.disk.map(disk),
        sandboxes: health.sandboxes,
        max_sandboxes: health.max_sandboxes,
        sessions: health.sessions,
        active_tools: health.active_tools,
        uptime_s: health.uptime_s,
        errors: health.errors,
        no_network,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    api::Health { status, details }
}

fn disk(space: DiskSpace) -> api::DiskSpace {
    let DiskSpace { free_bytes, total_bytes, free_inodes } = space;
    api::DiskSpace { free_bytes, total_bytes, free_inodes }
}

pub(crate) fn stats(stats: &Stats) -> api::Stats {
    api::Stats {
        created: stats.created,
        create_failed: stats.create_failed,
        destroyed: stats.destroyed,
        destroyed_by_timeout: stats.destroyed_by_timeout,
        active_sandboxes: stats.active_sandboxes,
        paused_sandboxes: stats.paused_sandboxes,
        stopped_sandboxes: stats.stopped_sandboxes,
        active_sessions: stats.active_sessions,
        detached_sessions: stats.detached_sessions,
        pool_size: stats.pool_size,
        pool_hit_rate: stats.pool_hit_rate,
        mean_creation_ms: stats.mean_creation_ms,
        execs: stats.execs,
    }
}

pub(crate) fn template(info: &TemplateInfo) -> api::Template {
    api::Template {
        name: info.name.to_string(),
        digest: info.digest.clone(),
        size_bytes: info.size_bytes,
        created_at: rfc3339(info.created_unix_ms),
        source: info.source.clone(),
        user: info.user.clone(),
        workdir: info.workdir.clone(),
        cwd: info.workdir.clone(),
        image: info.image.clone(),
        broken: info.broken.clone(),
    }
}
