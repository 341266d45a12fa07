use std::path::Path;
use std::time::Duration;

use warren_core::{
    DeathCause, DeathCertificate, Limits, Mount, MountAccess, SandboxRecord, Status, Timeouts, Usage,
};
use warren_engine::{Acquired, Patch};
use warren_face::error::{ApiError, parsed};
use warren_wire::api;

use super::backend::wall_choice;
use super::network::{network, network_usage};
use super::rfc3339;
use super::words::{history_mode, on_expiry, on_expiry_told, paused_by, profile_told, sandbox_type, status};

const LONGEST_DRAIN_MS: u64 = 600_000;

pub(crate) fn sandbox(record: &SandboxRecord) -> api::Sandbox {
    let spec = &record.spec;
    api::Sandbox {
        sandbox_id: record.id.to_string(),
        name: record.name.as_ref().map(ToString::to_string),
        session_id: None,
        mcp_url: None,
        status: status(record.status),
        paused_by: record.paused.as_ref().map(|paused| paused_by(paused.by)),
        template: spec.template.to_string(),
        image: spec.image.as_ref().map(ToString::to_string),
        kind: sandbox_type(record.kind),
        backend: record.backend.clone(),
        wall: wall_choice(&record.wall),
        unreachable: record.unreachable.clone(),
        labels: spec.labels.clone(),
        metadata: record.metadata.clone(),
        user: spec.user.clone(),
        cwd: spec.workdir.as_deref().map(text),
        workdir: spec.workdir.as_deref().map(text),
        hostname: spec.hostname.clone(),
        network: network(&spec.network),
        profile: profile_told(spec.profile),
        limits: limits(&spec.limits),
        mounts: spec.mounts.iter().map(mount).collect(),
        created_at: rfc3339(record.created_unix_ms),
        expires_at: rfc3339(record.deadline.unix_ms),
        on_expiry: on_expiry_told(record.on_expiry),
        timeouts: times(record.timeouts),
        made_in_ms: record.made_in_ms,
        generation: record.generation,
        death: record.death.as_ref().map(death),
        resumable: record.status.is_terminal() && record.files_kept(),
        history: history_mode(record.history.automatic),
        turn: record.history.turn,
        snapshot_id: record.history.head.as_ref().map(ToString::to_string),
        forked_from: record.history.forked_from.as_ref().map(ToString::to_string),
    }
}

/// The answer to a create, which also tells the session.
pub(crate) fn created(acquired: &Acquired) -> api::Sandbox {
    api::Sandbox { session_id: Some(acquired.session.id.to_string()), ..sandbox(&acquired.sandbox) }
}

pub(crate) fn death(certificate: &DeathCertificate) -> api::Death {
    let (cause, killed_by) = cause(&certificate.cause);
    api::Death {
        cause,
        killed_by,
        detail: certificate.detail.clone(),
        at: rfc3339(certificate.at_unix_ms),
        last_output: certificate.last_output.clone(),
        processes: certificate.processes.clone(),
        usage: certificate.usage.map(usage),
        snapshot_id: certificate.snapshot.clone(),
        files_kept: certificate.files_kept,
    }
}

fn cause(cause: &DeathCause) -> (api::DeathCause, Option<String>) {
    let word = match cause {
        DeathCause::Exit => api::DeathCause::Exit,
        DeathCause::Oom => api::DeathCause::Oom,
        DeathCause::Timeout => api::DeathCause::Timeout,
        DeathCause::Idle => api::DeathCause::Idle,
        DeathCause::Ttl => api::DeathCause::Ttl,
        DeathCause::Killed { by } => return (api::DeathCause::Killed, Some(by.clone())),
        DeathCause::DiskFull => api::DeathCause::DiskFull,
        DeathCause::BackendError => api::DeathCause::BackendError,
        DeathCause::HostRestart => api::DeathCause::HostRestart,
    };
    (word, None)
}

pub(crate) fn usage(usage: Usage) -> api::Usage {
    api::Usage {
        memory_bytes: usage.memory_bytes,
        memory_peak_bytes: usage.memory_peak_bytes,
        cpu_ns: usage.cpu_ns,
        pids: usage.pids,
        disk_bytes: usage.disk_bytes,
        inodes: usage.inodes,
        oom_kills: usage.oom_kills,
        io_bytes: usage.io_bytes,
        connections: usage.connections,
        network: usage.network.map(network_usage),
    }
}

pub(crate) fn patch(body: api::PatchSandbox) -> Result<Patch, ApiError> {
    let named = |name: Option<String>| name.map(|name| parsed("name", &name)).transpose();
    Ok(Patch {
        name: body.name.map(named).transpose()?,
        labels: body.labels,
        metadata: body.metadata,
        ttl_s: body.ttl_s,
        least_ttl_s: None,
        on_expiry: body.on_expiry.map(on_expiry),
        annotations: None,
    })
}

/// How long a pause waits for what goes on, if it says.
pub(crate) fn drain(body: &api::PauseSandbox) -> Result<Option<Duration>, ApiError> {
    match body.drain_ms {
        Some(ms) if ms > LONGEST_DRAIN_MS => {
            Err(ApiError::invalid("drain_ms", format!("`drain_ms` is {LONGEST_DRAIN_MS} at most")))
        }
        ms => Ok(ms.map(Duration::from_millis)),
    }
}

/// The state of that name, if sandboxes have it.
pub(crate) fn status_named(named: api::SandboxStatus) -> Option<Status> {
    Status::ALL.into_iter().find(|known| status(*known) == named)
}

pub(super) fn times(timeouts: Timeouts) -> api::Timeouts {
    let Timeouts { active_s, detached_s, suspended_s } = timeouts;
    api::Timeouts { active_s, detached_s, suspended_s }
}

fn limits(limits: &Limits) -> api::Limits {
    api::Limits {
        memory_mib: limits.memory.0 >> 20,
        cpus: f64::from(limits.cpus.milli()) / 1000.0,
        pids: limits.pids,
        disk_mib: limits.disk.0 >> 20,
        inodes: limits.inodes,
        open_files: limits.open_files,
        ttl_s: limits.lifetime_s,
    }
}

fn mount(mount: &Mount) -> api::Mount {
    api::Mount {
        source: text(&mount.source),
        target: text(&mount.target),
        read_only: mount.access == MountAccess::ReadOnly,
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
