//! Disk limits where the file system has no quotas: usage is watched, and a sandbox that goes over its limit is ended.
//!
//! Counting a tree costs time, so it is done only when it could find something: a sandbox cannot have written more than
//! the whole file system has filled up since the sandbox was last known to be within its limit.

use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use warren_core::{Limits, SandboxId};

use super::Shared;
use super::quota::QuotaKind;

const INTERVAL: Duration = Duration::from_millis(500);

/// Runs as long as this lives.
#[derive(Debug)]
pub(super) struct Warden {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A limit that is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    bytes: u64,
    inodes: u64,
    /// What the file system may hold in all before the sandbox has to be looked at.
    look_at_bytes: u64,
    look_at_inodes: u64,
}

impl Watched {
    pub(super) fn new(limits: &Limits, data: &Path) -> Self {
        let (bytes, inodes) = held(data);
        Self {
            bytes: limits.disk.0,
            inodes: limits.inodes,
            look_at_bytes: bytes.saturating_add(limits.disk.0),
            look_at_inodes: inodes.saturating_add(limits.inodes),
        }
    }

    /// What the sandbox holds now; says whether that is too much.
    fn update(&mut self, used: (u64, u64), all: (u64, u64)) -> bool {
        self.look_at_bytes = all.0.saturating_add(self.bytes.saturating_sub(used.0));
        self.look_at_inodes = all.1.saturating_add(self.inodes.saturating_sub(used.1));
        used.0 > self.bytes || used.1 > self.inodes
    }
}

impl Warden {
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name("warren-warden".to_owned()).spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                inspect(&shared);
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn inspect(shared: &Shared) {
    let all = held(shared.data.root());
    for id in due(shared, all) {
        let used = shared.quotas.used(&shared.data.sandbox(&id), QuotaKind::Watched);
        let mut holds = shared.holds.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = holds.get_mut(&id).and_then(|hold| hold.watched.as_mut());
        if watched.is_some_and(|watched| watched.update(used, all)) {
            drop(holds);
            drop(shared.cgroups.kill(id.as_str()));
        }
    }
}

fn due(shared: &Shared, all: (u64, u64)) -> Vec<SandboxId> {
    let holds = shared.holds.lock().unwrap_or_else(PoisonError::into_inner);
    let over = |watched: &Watched| all.0 > watched.look_at_bytes || all.1 > watched.look_at_inodes;
    holds
        .iter()
        .filter(|(_, hold)| hold.watched.as_ref().is_some_and(over))
        .map(|(id, _)| id.clone())
        .collect()
}

/// Bytes and inodes in use on the data directory's file system.
fn held(data: &Path) -> (u64, u64) {
    let Ok(found) = rustix::fs::statvfs(data) else { return (0, 0) };
    let bytes = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
    (bytes, found.f_files.saturating_sub(found.f_ffree))
}
