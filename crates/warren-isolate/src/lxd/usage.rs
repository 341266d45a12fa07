//! The figures of a sandbox: from its control group and its own tables, which need no daemon, and
//! its files' size as the pool counts it.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use warren_core::{DiskSpace, IsolationError, IsolationErrorKind, Pulse, SandboxId, Usage};

use super::Backend;
use crate::linux::{connections_of, pulse_of, usage_of};

pub(super) fn usage(backend: &Backend, id: &SandboxId) -> Result<Usage, IsolationError> {
    backend.directory(id)?;
    let mut usage = Usage::default();
    if let Some(life) = backend.life(id) {
        usage = usage_of(&backend.layout, &life.group);
        usage.connections = if life.networked { connections_of(life.pid) } else { 0 };
    }
    // Only some pools count, and figures never fail a call.
    let disk = backend.client.state(id).ok().and_then(|state| state.disk?.remove("root"));
    usage.disk_bytes = disk.map_or(0, |disk| u64::try_from(disk.usage).unwrap_or(0));
    Ok(usage)
}

pub(super) fn pulse(backend: &Backend, id: &SandboxId) -> Result<Pulse, IsolationError> {
    backend.directory(id)?;
    let Some(life) = backend.life(id) else { return Ok(Pulse::default()) };
    let connections = if life.networked { connections_of(life.pid) } else { 0 };
    Ok(Pulse { connections, ..pulse_of(&backend.layout, &life.group) })
}

/// Puts on disk what the sandbox wrote.
pub(super) fn flush(backend: &Backend, id: &SandboxId) -> Result<(), IsolationError> {
    let directory = backend.directory(id)?;
    let failed = |errno: rustix::io::Errno| {
        let action = format!("put what {id} wrote on disk");
        IsolationError::caused(IsolationErrorKind::Host, action, std::io::Error::from(errno))
    };
    let open = |path: &std::path::Path| -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
    };
    match backend.life(id) {
        // The kernel's own link to its root: nothing inside can bend it.
        Some(life) => match open(std::path::Path::new(&format!("/proc/{}/root", life.pid))) {
            Ok(root) => rustix::fs::syncfs(&root).map_err(failed)?,
            // It ended a moment ago.
            Err(_) => rustix::fs::sync(),
        },
        // Where a pool keeps its files is the daemon's to know.
        None => rustix::fs::sync(),
    }
    open(&directory).and_then(|own| rustix::fs::syncfs(&own)).map_err(failed)
}

#[derive(Debug, Deserialize)]
struct Resources {
    space: Amount,
    #[serde(default)]
    inodes: Option<Amount>,
}

#[derive(Debug, Deserialize)]
struct Amount {
    used: u64,
    total: u64,
}

/// Room in the pool.
pub(super) fn space(backend: &Backend) -> Result<Option<DiskSpace>, IsolationError> {
    let pool = backend.pool()?;
    let found: Resources =
        backend.client.get(&format!("/1.0/storage-pools/{}/resources", pool.name)).map_err(|error| {
            let kind = error.kind(IsolationErrorKind::Host);
            IsolationError::caused(kind, format!("ask how much room the pool `{}` has", pool.name), error)
        })?;
    let free = |amount: &Amount| amount.total.saturating_sub(amount.used);
    // Some file systems have as many inodes as there is room for.
    let inodes = found.inodes.as_ref().filter(|inodes| inodes.total > 0);
    Ok(Some(DiskSpace {
        free_bytes: free(&found.space),
        total_bytes: found.space.total,
        free_inodes: inodes.map_or(u64::MAX, free),
    }))
}
