//! Turning what a sandbox wrote into a layer, without copying a byte: its writable layers become immutable ones, and empty
//! ones take their place.
//!
//! In this order, so that a crash leaves the sandbox sealed or not: write the intent, make the next writable layers, mount the
//! new root over the old layers, stop the sandbox, see that nobody holds the old root, exchange the roots, give everything its
//! place, write the record, forget the intent, let the sandbox go on. What counts after a crash is whether the roots were
//! exchanged ([`Intent::is_decided`]); the sandbox stands still until then, so that nothing can have been written in between.
//! What a broken exchange leaves on top of the root is taken away first ([`exchange::uncover`]).

mod busy;
mod exchange;
mod intent;
mod mounts;
pub(super) mod sys;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warren_core::{IsolationError, IsolationErrorKind, OwnerBond, RootTree, SandboxId, Sealed};

use self::exchange::{Mover, Plan};
use self::intent::Intent;
use self::mounts::Mounts;
use super::layers::Appearance;
use super::quota::{self, QuotaKind};
use super::record::Record;
use super::step::CrashPoint;
use super::{Shared, destroy, halt, layers, not_found};

/// The inode of every btrfs subvolume's root.
const SUBVOLUME_INODE: u64 = 256;

pub(super) fn seal(
    shared: &Shared,
    id: &SandboxId,
    into: &Path,
    below: &[RootTree],
) -> Result<Sealed, IsolationError> {
    with_record(shared, id, "seal", |record| {
        let directory = shared.data.sandbox(id);
        if !is_movable(&directory, record)? {
            return Ok(Sealed::Unmovable);
        }
        let changed = changed_trees(&directory, below)?;
        if changed.is_empty() {
            return Ok(Sealed::Unchanged);
        }
        if record.is_alive() {
            seal_running(shared, record, into, below, changed)
        } else {
            let intent = Intent::new(into, changed, below, None, false);
            seal_at_rest(shared, record, &intent, &directory)
        }
    })
}

/// Finishes or undoes what a crash left half done. Says what the sandbox stands on now.
pub(super) fn settle(shared: &Shared, id: &SandboxId) -> Option<Record> {
    let directory = shared.data.sandbox(id);
    if !matches!(Intent::load(&directory), Ok(None)) {
        // If it cannot be settled now, whoever seals or starts it next is told why.
        drop(with_record(shared, id, "settle", |_| Ok(())));
    }
    Record::load(&directory)
}

/// Does something with a sandbox whose last seal, if it was broken off, is settled.
pub(super) fn with_record<T>(
    shared: &Shared,
    id: &SandboxId,
    action: &str,
    work: impl FnOnce(&Record) -> io::Result<T>,
) -> Result<T, IsolationError> {
    let (hold, lock) = destroy::seize(shared, id)?;
    let directory = shared.data.sandbox(id);
    let record = Record::load(&directory);
    let owner = record.as_ref().map_or(OwnerBond::Outlives, |record| record.owner);
    let done = match record {
        None => Err(not_found(id)),
        Some(record) => settle_locked(shared, record, &directory)
            .and_then(|record| work(&record))
            .map_err(|error| failed(action, id, error)),
    };
    halt::keep(shared, id, owner, hold, lock);
    done
}

fn failed(action: &str, id: &SandboxId, error: io::Error) -> IsolationError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => IsolationErrorKind::Exhausted,
        _ => IsolationErrorKind::Host,
    };
    IsolationError::caused(kind, format!("{action} {id}"), error)
}

/// As [`settle`], for one who holds the lock.
pub(super) fn settle_locked(shared: &Shared, record: Record, directory: &Path) -> io::Result<Record> {
    let Some(intent) = Intent::load(directory)? else { return Ok(record) };
    let settled = finish_or_undo(shared, &intent, &record, directory);
    // Nobody is left standing still because something failed: it runs on whichever root it has, and what is still to be done
    // is done by whoever works on it next.
    let thawed = if record.is_alive() && !intent.frozen { thaw(shared, &record) } else { Ok(()) };
    let record = settled?;
    thawed?;
    Intent::forget(directory)?;
    Ok(record)
}

fn finish_or_undo(shared: &Shared, intent: &Intent, record: &Record, directory: &Path) -> io::Result<Record> {
    if record.is_alive() {
        exchange::uncover(record.pid)?;
    }
    if intent.is_decided(record, directory) {
        intent.finish(record, directory, shared.steps)
    } else {
        intent.undo(directory).map(|()| record.clone())
    }
}

fn thaw(shared: &Shared, record: &Record) -> io::Result<()> {
    shared.cgroups.set_frozen(record.id.as_str(), false).map_err(io::Error::other)
}

/// A seal that failed, and what was to bring the sandbox in order then failed too.
#[derive(Debug, thiserror::Error)]
#[error("{seal}; the next try begins with what is left to do: {settle}")]
struct UnsettledError {
    seal: io::Error,
    #[source]
    settle: io::Error,
}

/// Brings a sandbox in order whose seal failed. It may turn out to be sealed all the same.
fn recover(shared: &Shared, record: &Record, intent: &Intent, seal: io::Error) -> io::Result<Sealed> {
    match settle_locked(shared, record.clone(), &shared.data.sandbox(&record.id)) {
        Ok(record) if intent.is_said_by(&record) => Ok(Sealed::Done { frozen: Duration::ZERO }),
        Ok(_) => Err(seal),
        Err(settle) => Err(io::Error::new(seal.kind(), UnsettledError { seal, settle })),
    }
}

/// What lies on a file system or subvolume of its own cannot become part of another by a rename.
fn is_movable(directory: &Path, record: &Record) -> io::Result<bool> {
    Ok(record.quota != QuotaKind::Image && fs::metadata(directory)?.ino() != SUBVOLUME_INODE)
}

/// The numbers of the trees that were written to. The root is among them if any is: it is exchanged with each of them.
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

fn is_changed(upper: &Path, below: Option<&PathBuf>) -> io::Result<bool> {
    if fs::read_dir(upper)?.next().is_some() {
        return Ok(true);
    }
    Ok(Appearance::of(upper)? != Appearance::above(below.map(PathBuf::as_path))?)
}

fn seal_at_rest(shared: &Shared, record: &Record, intent: &Intent, directory: &Path) -> io::Result<Sealed> {
    intent.write(directory)?;
    shared.passed(CrashPoint::SealIntent);
    let done = intent.prepare(directory).and_then(|()| {
        shared.passed(CrashPoint::SealPrepared);
        intent.finish(record, directory, shared.steps)
    });
    if let Err(error) = done {
        return recover(shared, record, intent, error);
    }
    Intent::forget(directory)?;
    Ok(Sealed::Done { frozen: Duration::ZERO })
}

fn seal_running(
    shared: &Shared,
    record: &Record,
    into: &Path,
    below: &[RootTree],
    changed: Vec<usize>,
) -> io::Result<Sealed> {
    let directory = shared.data.sandbox(&record.id);
    // A first look, so that a busy sandbox is not stopped for nothing.
    if let Some(reason) = busy::processes(record.pid, &processes(shared, record)?) {
        return Ok(Sealed::Busy { reason });
    }
    let frozen = shared.cgroups.is_frozen(record.id.as_str()).map_err(io::Error::other)?;
    let intent = Intent::new(into, changed, below, intent::root_device(record), frozen);
    intent.write(&directory)?;
    shared.passed(CrashPoint::SealIntent);
    let mut stopped = None;
    let sealed = exchange_root(shared, record, &intent, &mut stopped).and_then(|busy| match busy {
        None => {
            intent.finish(record, &directory, shared.steps).map(|_| Sealed::Done { frozen: Duration::ZERO })
        }
        Some(reason) => intent.undo(&directory).map(|()| Sealed::Busy { reason }),
    });
    shared.passed(CrashPoint::SealRecorded);
    let sealed = match sealed {
        Ok(sealed) => sealed,
        Err(error) => return recover(shared, record, &intent, error),
    };
    if !frozen {
        thaw(shared, record)?;
    }
    let frozen = stopped.filter(|_| !frozen).map_or(Duration::ZERO, |since: Instant| since.elapsed());
    Intent::forget(&directory)?;
    Ok(if let Sealed::Done { .. } = sealed { Sealed::Done { frozen } } else { sealed })
}

/// Says why it could not be done now, or nothing. `stopped` is since when the sandbox stands still, whatever comes of it.
fn exchange_root(
    shared: &Shared,
    record: &Record,
    intent: &Intent,
    stopped: &mut Option<Instant>,
) -> io::Result<Option<String>> {
    let directory = shared.data.sandbox(&record.id);
    intent.prepare(&directory)?;
    shared.passed(CrashPoint::SealPrepared);
    let namespace = OwnedFd::from(fs::File::open(format!("/proc/{}/ns/user", record.pid))?);
    let plans = plan(intent, &directory, namespace.as_fd())?;
    let exchanged: Vec<PathBuf> = plans.iter().map(|plan| plan.at.clone()).collect();
    let area = layers::open_area(&directory, namespace.as_fd()).map_err(io::Error::other)?;
    let trees = exchange::mount_trees(plans, area, record.id_base)?;
    // Whoever enters a sandbox comes to what is on top.
    exchange::uncover(record.pid)?;
    let mover = Mover::enter(record.pid, trees, shared.steps)?;
    *stopped = Some(Instant::now());
    shared.cgroups.set_frozen(record.id.as_str(), true).map_err(io::Error::other)?;
    shared.passed(CrashPoint::SealStopped);
    let mounts = Mounts::of(record.pid)?;
    let busy = busy::processes(record.pid, &processes(shared, record)?);
    if let Some(reason) = busy.map_or_else(|| busy::agent(record.pid, &mounts), |busy| Ok(Some(busy)))? {
        return Ok(Some(reason));
    }
    let standing = mounts.standing_on(&exchanged).into_iter().map(Path::to_owned).collect();
    mover.go(standing)?;
    shared.passed(CrashPoint::SealExchanged);
    Ok(None)
}

fn processes(shared: &Shared, record: &Record) -> io::Result<Vec<u32>> {
    shared.cgroups.processes(record.id.as_str()).map_err(io::Error::other)
}

/// The overlays to come: on top of what the sandbox stands on, what it wrote.
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
pub(super) fn writable(shared: &Shared, id: &SandboxId) -> Result<OwnedFd, IsolationError> {
    with_record(shared, id, "open the writable layers of", |record| {
        let directory = shared.data.sandbox(id);
        quota::view(&directory, record.quota).map_err(io::Error::other)
    })
}

/// Empties the writable layers of a sandbox at rest.
pub(super) fn clear(shared: &Shared, id: &SandboxId) -> Result<(), IsolationError> {
    let cleared = with_record(shared, id, "clear", |record| {
        if record.is_alive() {
            return Ok(false);
        }
        let directory = shared.data.sandbox(id);
        let view = quota::view(&directory, record.quota).map_err(io::Error::other)?;
        layers::empty(view.as_fd()).map(|()| true)
    })?;
    if cleared {
        return Ok(());
    }
    Err(IsolationError::new(IsolationErrorKind::Invalid, format!("clear {id}, which is running")))
}
