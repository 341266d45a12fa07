//! Disk limits where the file system has no quotas: usage is watched, and a sandbox that goes over
//! its limit is ended.
//!
//! Counting a tree takes time, so it is done only when it could find something: a sandbox cannot
//! have written more than the whole file system has grown since the sandbox was last counted.
//!
//! The process that made a sandbox watches it, or one that found it later. A file in its directory
//! marks a sandbox that was ended for its disk usage.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use warren_core::{Limits, OwnerBond, SandboxId};

use super::Backend;
use super::cgroup::CgroupError;
use super::quota::QuotaKind;
use super::record::Record;
use super::uncounted::Uncounted;

const INTERVAL: Duration = Duration::from_millis(500);

/// The file that marks a sandbox ended for its disk usage.
const MARK: &str = "over-limit";

/// The thread that watches. It ends when this is dropped.
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
    /// Usage of the whole file system above which the sandbox is counted again.
    look_at_bytes: u64,
    look_at_inodes: u64,
}

impl Watched {
    /// For a sandbox that is about to start. Files from before may exceed its limit, or nobody
    /// could ever reach them again.
    pub(super) fn begin(
        backend: &Backend,
        id: &SandboxId,
        limits: &Limits,
        quota: QuotaKind,
    ) -> Option<Self> {
        (quota == QuotaKind::Watched).then(|| {
            let used = used(backend, id);
            let mut watched = Self {
                bytes: limits.disk.0.max(used.0),
                inodes: limits.inodes.max(used.1),
                look_at_bytes: 0,
                look_at_inodes: 0,
            };
            watched.update(used, held(backend.data.root()));
            watched
        })
    }

    /// For a sandbox that runs already: it is counted as soon as the file system grows.
    fn found(limits: &Limits, data: &Path) -> Self {
        let (bytes, inodes) = held(data);
        Self { bytes: limits.disk.0, inodes: limits.inodes, look_at_bytes: bytes, look_at_inodes: inodes }
    }

    /// Notes the sandbox's usage and that of the whole file system. Returns whether it is too much.
    fn update(&mut self, used: (u64, u64), all: (u64, u64)) -> bool {
        self.look_at_bytes = all.0.saturating_add(self.bytes.saturating_sub(used.0));
        self.look_at_inodes = all.1.saturating_add(self.inodes.saturating_sub(used.1));
        used.0 > self.bytes || used.1 > self.inodes
    }
}

impl Warden {
    pub(super) fn start(backend: Arc<Backend>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name("warren-warden".to_owned()).spawn(move || {
            let mut uncounted = Uncounted::default();
            // What the kernel holds before there is a sandbox: one that begins at once to take
            // memory would otherwise be part of what it is measured by.
            uncounted.inspect(&backend);
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                inspect(&backend);
                uncounted.inspect(&backend);
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

/// Watches a sandbox that another process made, if it has no hard limit and its maker may be gone.
pub(super) fn adopt(backend: &Backend, record: &Record) {
    if record.quota == QuotaKind::Watched && record.owner == OwnerBond::Outlives {
        let found = Watched::found(&record.spec.limits, backend.data.root());
        let mut holds = backend.holds.lock();
        holds.entry(record.id.clone()).or_default().watched.get_or_insert(found);
    }
}

/// True if the sandbox was ended for its disk usage.
pub(super) fn has_ended(directory: &Path) -> bool {
    directory.join(MARK).symlink_metadata().is_ok()
}

/// Takes the mark off a sandbox that is started again.
pub(super) fn forgive(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(MARK)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn inspect(backend: &Backend) {
    let all = held(backend.data.root());
    let due = due(backend, all);
    if !due.is_empty() {
        backend.own_layers.forget_removed();
    }
    for id in due {
        let directory = backend.data.sandbox(&id);
        let used = used(backend, &id);
        let mut holds = backend.holds.lock();
        let Some(hold) = holds.get_mut(&id) else { continue };
        let over = hold.watched.as_mut().is_some_and(|watched| watched.update(used, all));
        // Another process may have destroyed it.
        if !directory.exists() || (over && end(backend, &id, &directory).is_ok()) {
            hold.watched = None;
        }
        if hold.is_empty() {
            holds.remove(&id);
        }
    }
}

/// The disk usage of a sandbox, which has no record while it is first made.
fn used(backend: &Backend, id: &SandboxId) -> (u64, u64) {
    let directory = backend.data.sandbox(id);
    let record = Record::load(&directory);
    record.map_or_else(
        || backend.quotas.used(&directory, QuotaKind::Watched),
        |record| backend.holdings(&record),
    )
}

/// Marks and kills a sandbox. The mark comes first, so that it is there when the end is noticed; on
/// a full disk the kill matters more. Called while the holds are locked, so that a sandbox that was
/// started again is not hit.
fn end(backend: &Backend, id: &SandboxId, directory: &Path) -> Result<(), CgroupError> {
    drop(fs::File::create(directory.join(MARK)));
    backend.cgroups.kill(id.as_str())
}

fn due(backend: &Backend, all: (u64, u64)) -> Vec<SandboxId> {
    let holds = backend.holds.lock();
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
