//! Disk limits where the file system has no quotas: usage is watched, and a sandbox that goes over its limit is ended.
//!
//! Counting a tree costs time, so it is done only when it could find something: a sandbox cannot have written more than
//! the whole file system has filled up since the sandbox was last known to be within its limit.
//!
//! Whoever answers for a sandbox watches it: the process that made it, or one that found it. That it was ended for its disk
//! usage is marked by a file in its directory, for all to see.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use warren_core::{Limits, OwnerBond, SandboxId};

use super::Shared;
use super::cgroup::CgroupError;
use super::quota::QuotaKind;
use super::record::Record;
use super::uncounted::Uncounted;

const INTERVAL: Duration = Duration::from_millis(500);

/// Marks a sandbox that was ended for what it held.
const MARK: &str = "over-limit";

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
    /// For a sandbox that is about to start. What it has kept from an earlier life it may keep, even beyond its limit, or
    /// nobody could ever get at it.
    pub(super) fn begin(shared: &Shared, id: &SandboxId, limits: &Limits, quota: QuotaKind) -> Option<Self> {
        (quota == QuotaKind::Watched).then(|| {
            let used = used(shared, id);
            let mut watched = Self {
                bytes: limits.disk.0.max(used.0),
                inodes: limits.inodes.max(used.1),
                look_at_bytes: 0,
                look_at_inodes: 0,
            };
            watched.update(used, held(shared.data.root()));
            watched
        })
    }

    /// For a sandbox that runs already: it is looked at as soon as anything is written anywhere.
    fn found(limits: &Limits, data: &Path) -> Self {
        let (bytes, inodes) = held(data);
        Self { bytes: limits.disk.0, inodes: limits.inodes, look_at_bytes: bytes, look_at_inodes: inodes }
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
            let mut uncounted = Uncounted::default();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                inspect(&shared);
                uncounted.inspect(&shared);
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

/// Watches a sandbox that another process made, if nothing better holds it and its maker may be gone.
pub(super) fn adopt(shared: &Shared, record: &Record) {
    if record.quota == QuotaKind::Watched && record.owner == OwnerBond::Outlives {
        let found = Watched::found(&record.spec.limits, shared.data.root());
        let mut holds = shared.holds.lock();
        holds.entry(record.id.clone()).or_default().watched.get_or_insert(found);
    }
}

/// Whether the sandbox was ended for what it held.
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

fn inspect(shared: &Shared) {
    let all = held(shared.data.root());
    let due = due(shared, all);
    if !due.is_empty() {
        shared.own_layers.forget_removed();
    }
    for id in due {
        let directory = shared.data.sandbox(&id);
        let used = used(shared, &id);
        let mut holds = shared.holds.lock();
        let Some(hold) = holds.get_mut(&id) else { continue };
        let over = hold.watched.as_mut().is_some_and(|watched| watched.update(used, all));
        // Somebody else may have destroyed it.
        if !directory.exists() || (over && end(shared, &id, &directory).is_ok()) {
            hold.watched = None;
        }
        if hold.is_empty() {
            holds.remove(&id);
        }
    }
}

/// What a sandbox holds; of one that is being made for the first time, what is there.
fn used(shared: &Shared, id: &SandboxId) -> (u64, u64) {
    let directory = shared.data.sandbox(id);
    let record = Record::load(&directory);
    record
        .map_or_else(|| shared.quotas.used(&directory, QuotaKind::Watched), |record| shared.holdings(&record))
}

/// The mark is there before anybody can learn of the end. On a disk without room for it, the end matters more. Called while
/// the holds are locked, so that it is never a later life of the sandbox that ends.
fn end(shared: &Shared, id: &SandboxId, directory: &Path) -> Result<(), CgroupError> {
    drop(fs::File::create(directory.join(MARK)));
    shared.cgroups.kill(id.as_str())
}

fn due(shared: &Shared, all: (u64, u64)) -> Vec<SandboxId> {
    let holds = shared.holds.lock();
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
