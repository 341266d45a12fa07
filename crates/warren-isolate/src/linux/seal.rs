//! Turning a sandbox's writes into a layer without copying: its writable layers become immutable,
//! and empty ones take their place.
//!
//! The order makes sure that a crash leaves the sandbox either sealed or not: write the intent,
//! make the next writable layers, mount the new root over the old layers, freeze the sandbox, check
//! that nothing uses the old root, exchange the roots, move everything to its place, write the
//! record, remove the intent, thaw the sandbox. After a crash the seal is finished if the roots
//! were exchanged ([`Intent::is_decided`]), else undone; the sandbox is frozen until then, so that
//! nothing can be written in between. A mount that an interrupted exchange left on top of the root
//! is removed first ([`exchange::uncover`]).

mod busy;
pub(super) mod exchange;
mod intent;
pub(super) mod mounts;
pub(super) mod sys;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warren_core::{
    IsolationError, IsolationErrorKind, OwnerBond, RootTree, SandboxId, Sealed, SnapshotSupport,
};

use self::exchange::{Errand, Mover, Plan};
use self::intent::Intent;
use self::mounts::Mounts;
use super::layers::Appearance;
use super::quota::{self, QuotaKind};
use super::record::{Record, Staged};
use super::step::CrashPoint;
use super::{Backend, destroy, halt, layers, not_found};

/// The inode of every btrfs subvolume's root.
const SUBVOLUME_INODE: u64 = 256;

pub(super) fn seal(
    backend: &Backend,
    id: &SandboxId,
    into: &Path,
    below: &[RootTree],
) -> Result<Sealed, IsolationError> {
    with_record(backend, id, "seal", |record| {
        let directory = backend.data.sandbox(id);
        if backend.capabilities.snapshots != SnapshotSupport::Sealed || !is_movable(&directory, record)? {
            return Ok(Sealed::Unmovable);
        }
        backend.blank.lock().remove(id);
        let changed = changed_trees(&directory, below)?;
        if changed.is_empty() {
            if let Some(blank) = appearances(&directory).filter(|_| record.is_alive()) {
                backend.blank.lock().insert(id.clone(), blank);
            }
            return Ok(Sealed::Unchanged);
        }
        if record.is_alive() {
            seal_running(backend, record, into, below, changed)
        } else {
            let intent = Intent::new(into, changed, below, None, false);
            seal_at_rest(backend, record, &intent, &directory)
        }
    })
}

/// Finishes or undoes a seal that a crash interrupted. Returns the record as it is then.
pub(super) fn settle(backend: &Backend, id: &SandboxId) -> Option<Record> {
    let directory = backend.data.sandbox(id);
    if !matches!(Intent::load(&directory), Ok(None)) {
        // If this fails, the next seal or start reports why.
        drop(with_record(backend, id, "settle", |_| Ok(())));
    }
    Record::load(&directory)
}

/// Settles an interrupted seal of the sandbox, then does `work`.
pub(super) fn with_record<T>(
    backend: &Backend,
    id: &SandboxId,
    action: &str,
    work: impl FnOnce(&Record) -> io::Result<T>,
) -> Result<T, IsolationError> {
    let (hold, lock) = destroy::seize(backend, id)?;
    let _turn = backend.turns.take(id);
    let directory = backend.data.sandbox(id);
    let record = Record::load(&directory);
    let owner = record.as_ref().map_or(OwnerBond::Outlives, |record| record.owner);
    let done = match record {
        None => Err(not_found(id)),
        Some(record) => settle_locked(backend, record, &directory)
            .and_then(|record| work(&record))
            .map_err(|error| failed(action, id, error)),
    };
    halt::keep(backend, id, owner, hold, lock);
    done
}

fn failed(action: &str, id: &SandboxId, error: io::Error) -> IsolationError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => IsolationErrorKind::Exhausted,
        _ => IsolationErrorKind::Host,
    };
    IsolationError::caused(kind, format!("{action} {id}"), error)
}

/// As [`settle`], for a caller that holds the lock.
pub(super) fn settle_locked(backend: &Backend, record: Record, directory: &Path) -> io::Result<Record> {
    let Some(intent) = Intent::load(directory)? else { return Ok(record) };
    let settled = finish_or_undo(backend, &intent, &record, directory);
    // A failure must not leave the sandbox frozen: it runs on whichever root it has, and the next
    // call on it tries again.
    let thawed = if record.is_alive() && !intent.frozen { thaw(backend, &record) } else { Ok(()) };
    let record = settled?;
    thawed?;
    Intent::forget(directory)?;
    Ok(record)
}

fn finish_or_undo(
    backend: &Backend,
    intent: &Intent,
    record: &Record,
    directory: &Path,
) -> io::Result<Record> {
    if record.is_alive() {
        exchange::uncover(record.pid)?;
    }
    if intent.is_decided(record, directory) {
        intent.finish(directory, backend.steps, intent.record_after(record).stage(directory)?)
    } else {
        intent.undo(directory).map(|()| record.clone())
    }
}

fn thaw(backend: &Backend, record: &Record) -> io::Result<()> {
    backend.cgroups.set_frozen(record.id.as_str(), false).map_err(io::Error::other)
}

/// A seal failed, and so did the clean-up after it.
#[derive(Debug, thiserror::Error)]
#[error("{seal}; the next try begins with what is left to do: {settle}")]
struct UnsettledError {
    seal: io::Error,
    #[source]
    settle: io::Error,
}

/// Cleans up after a failed seal. The sandbox may turn out to be sealed all the same.
fn recover(backend: &Backend, record: &Record, intent: &Intent, seal: io::Error) -> io::Result<Sealed> {
    match settle_locked(backend, record.clone(), &backend.data.sandbox(&record.id)) {
        Ok(record) if intent.is_said_by(&record) => Ok(Sealed::Done { frozen: Duration::ZERO }),
        Ok(_) => Err(seal),
        Err(settle) => Err(io::Error::new(seal.kind(), UnsettledError { seal, settle })),
    }
}

/// False for files on a file system or subvolume of their own, which no rename can move.
fn is_movable(directory: &Path, record: &Record) -> io::Result<bool> {
    Ok(record.quota != QuotaKind::Image && fs::metadata(directory)?.ino() != SUBVOLUME_INODE)
}

/// The numbers of the trees that were written to. If there is any, the root is included, as it has
/// to be exchanged too.
fn changed_trees(directory: &Path, below: &[RootTree]) -> io::Result<Vec<usize>> {
    let mut below = below.to_vec();
    let mut changed = Vec::new();
    for (number, tree) in intent::writable(&mut below).enumerate() {
        if is_changed(&directory.join(layers::upper(number)), tree.lowers.first())? {
            changed.push(number);
        }
    }
    if changed.first().is_some_and(|first| *first != 0) {
        changed.insert(0, 0);
    }
    Ok(changed)
}

/// True if all writable layers are as empty as when they were last found unchanged. A seal makes
/// others of them, and forgets these.
pub(super) fn is_untouched(backend: &Backend, id: &SandboxId) -> bool {
    let Some(blank) = backend.blank.lock().get(id).cloned() else { return false };
    let directory = backend.data.sandbox(id);
    let empty = |number| {
        fs::read_dir(directory.join(layers::upper(number))).is_ok_and(|mut entries| entries.next().is_none())
    };
    (0..blank.len()).all(empty) && appearances(&directory) == Some(blank)
}

/// The appearance of each writable layer; `None` if they are elsewhere.
fn appearances(directory: &Path) -> Option<Vec<Appearance>> {
    let mut found = Vec::new();
    loop {
        match Appearance::of(&directory.join(layers::upper(found.len()))) {
            Ok(appearance) => found.push(appearance),
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(_) => return None,
        }
    }
    Some(found).filter(|found| !found.is_empty())
}

fn is_changed(upper: &Path, below: Option<&PathBuf>) -> io::Result<bool> {
    let entry = match fs::read_dir(upper) {
        // It is made when somebody first needs it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?.next(),
    };
    if entry.is_some() {
        return Ok(true);
    }
    Ok(Appearance::of(upper)? != Appearance::above(below.map(PathBuf::as_path))?)
}

fn seal_at_rest(backend: &Backend, record: &Record, intent: &Intent, directory: &Path) -> io::Result<Sealed> {
    intent.write(directory)?;
    backend.passed(CrashPoint::SealIntent);
    let done = intent.prepare(directory).and_then(|()| {
        backend.passed(CrashPoint::SealPrepared);
        let after = intent.record_after(record).stage(directory)?;
        backend.passed(CrashPoint::SealStaged);
        intent.finish(directory, backend.steps, after)
    });
    if let Err(error) = done {
        return recover(backend, record, intent, error);
    }
    Intent::forget(directory)?;
    Ok(Sealed::Done { frozen: Duration::ZERO })
}

fn seal_running(
    backend: &Backend,
    record: &Record,
    into: &Path,
    below: &[RootTree],
    changed: Vec<usize>,
) -> io::Result<Sealed> {
    let directory = backend.data.sandbox(&record.id);
    // A first look, so that a busy sandbox is not frozen in vain.
    if let Some(reason) = busy::processes(record.pid, &processes(backend, record)?) {
        return Ok(Sealed::Busy { reason });
    }
    let frozen = backend.cgroups.is_frozen(record.id.as_str()).map_err(io::Error::other)?;
    let intent = Intent::new(into, changed, below, intent::root_device(record), frozen);
    intent.write(&directory)?;
    backend.passed(CrashPoint::SealIntent);
    let mut stopped = None;
    let sealed =
        exchange_root(backend, record, &intent, &mut stopped).and_then(|exchanged| match exchanged {
            Exchanged::Done(after) => intent
                .finish(&directory, backend.steps, *after)
                .map(|_| Sealed::Done { frozen: Duration::ZERO }),
            Exchanged::Busy(reason) => intent.undo(&directory).map(|()| Sealed::Busy { reason }),
        });
    backend.passed(CrashPoint::SealRecorded);
    let sealed = match sealed {
        Ok(sealed) => sealed,
        Err(error) => return recover(backend, record, &intent, error),
    };
    if !frozen {
        thaw(backend, record)?;
    }
    let frozen = stopped.filter(|_| !frozen).map_or(Duration::ZERO, |since: Instant| since.elapsed());
    Intent::forget(&directory)?;
    Ok(if let Sealed::Done { .. } = sealed { Sealed::Done { frozen } } else { sealed })
}

/// The outcome of an exchange of roots.
enum Exchanged {
    /// The record that holds from now on.
    Done(Box<Staged>),
    /// Nothing happened, for this reason.
    Busy(String),
}

/// Exchanges the roots, unless the sandbox is too busy. `stopped` becomes the time at which it was
/// frozen.
fn exchange_root(
    backend: &Backend,
    record: &Record,
    intent: &Intent,
    stopped: &mut Option<Instant>,
) -> io::Result<Exchanged> {
    let directory = backend.data.sandbox(&record.id);
    intent.prepare(&directory)?;
    backend.passed(CrashPoint::SealPrepared);
    // A thread that enters the sandbox lands on the topmost mount.
    exchange::uncover(record.pid)?;
    let namespace = OwnedFd::from(fs::File::open(format!("/proc/{}/ns/user", record.pid))?);
    let plans = plan(intent, &directory, namespace.as_fd())?;
    let exchanged: Vec<PathBuf> = plans.iter().map(|plan| plan.at.clone()).collect();
    let area = layers::open_area(&directory, namespace.as_fd()).map_err(io::Error::other)?;
    let (pid, id_base) = (record.pid, record.id_base);
    let mover = Mover::start(Errand { pid, plans, area, id_base }, backend.steps)?;
    // While that mounts.
    let after = intent.record_after(record).stage(&directory)?;
    backend.passed(CrashPoint::SealStaged);
    mover.ready()?;
    *stopped = Some(Instant::now());
    backend.cgroups.set_frozen(record.id.as_str(), true).map_err(io::Error::other)?;
    backend.passed(CrashPoint::SealStopped);
    let mounts = Mounts::of(record.pid)?;
    let busy = busy::processes(record.pid, &processes(backend, record)?);
    if let Some(reason) = busy.map_or_else(|| busy::agent(record.pid, &mounts), |busy| Ok(Some(busy)))? {
        return Ok(Exchanged::Busy(reason));
    }
    let standing = mounts.standing_on(&exchanged).into_iter().map(Path::to_owned).collect();
    mover.go(standing)?;
    backend.passed(CrashPoint::SealExchanged);
    Ok(Exchanged::Done(Box::new(after)))
}

fn processes(backend: &Backend, record: &Record) -> io::Result<Vec<u32>> {
    backend.cgroups.processes(record.id.as_str()).map_err(io::Error::other)
}

/// The new overlays: the sandbox's writes on top of its present layers.
fn plan(intent: &Intent, directory: &Path, namespace: BorrowedFd<'_>) -> io::Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for (number, tree) in intent.trees_now(directory) {
        let opened = layers::open(&tree, namespace).map_err(io::Error::other)?;
        let (upper, work) = Intent::places(number);
        plans.push(Plan { at: opened.at, lowers: opened.lowers, shown: opened.shown, upper, work });
    }
    Ok(plans)
}

/// The directory with a sandbox's writable layers.
pub(super) fn writable(backend: &Backend, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
    with_record(backend, id, "open the writable layers of", |record| {
        let directory = backend.data.sandbox(id);
        quota::view(&directory, record.quota).map_err(io::Error::other)
    })
}

/// Empties the writable layers of a sandbox at rest.
pub(super) fn clear(backend: &Backend, id: &SandboxId) -> Result<(), IsolationError> {
    let cleared = with_record(backend, id, "clear", |record| {
        if record.is_alive() {
            return Ok(false);
        }
        let directory = backend.data.sandbox(id);
        let view = quota::view(&directory, record.quota).map_err(io::Error::other)?;
        layers::empty(view.as_fd()).map(|()| true)
    })?;
    if cleared {
        return Ok(());
    }
    Err(IsolationError::new(IsolationErrorKind::Invalid, format!("clear {id}, which is running")))
}
