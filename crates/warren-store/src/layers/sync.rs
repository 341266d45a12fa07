//! Making layers survive a power cut. One walk over the disk's whole cache serves everybody who
//! waits for it.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;

use parking_lot::{Condvar, Mutex};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use warren_core::{LayerError, LayerErrorKind, LayerId};

use super::LayerDirectory;
use super::failure::failed;
use super::manifest;
use super::staging::DIRECTORY;

/// Which layers are safe, and the rounds of writing that make them so.
#[derive(Debug, Default)]
pub(super) struct Durability {
    rounds: Mutex<Rounds>,
    changed: Condvar,
    layers: Mutex<Layers>,
}

#[derive(Debug, Default)]
struct Rounds {
    begun: u64,
    done: u64,
    running: bool,
    last_failure: Option<(u64, Errno)>,
}

#[derive(Debug, Default)]
struct Layers {
    safe: HashSet<LayerId>,
    /// Were not safe when the disk failed. The kernel tells of a failure once, so nobody can say
    /// whether it was theirs.
    doubtful: HashSet<LayerId>,
}

impl Durability {
    pub(super) fn forget(&self, id: &LayerId) {
        let mut layers = self.layers.lock();
        layers.safe.remove(id);
        layers.doubtful.remove(id);
    }

    /// Takes part in the next round of writing that begins after this call.
    fn round(&self, disk: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut rounds = self.rounds.lock();
        let wanted = rounds.begun + 1;
        while rounds.done < wanted {
            if rounds.running {
                self.changed.wait(&mut rounds);
                continue;
            }
            rounds.running = true;
            rounds.begun += 1;
            let round = rounds.begun;
            drop(rounds);
            let written = rustix::io::retry_on_intr(|| rustix::fs::syncfs(disk));
            rounds = self.rounds.lock();
            rounds.running = false;
            rounds.done = round;
            if let Err(error) = written {
                rounds.last_failure = Some((round, error));
            }
            self.changed.notify_all();
        }
        match rounds.last_failure {
            Some((round, error)) if round >= wanted => Err(error),
            _ => Ok(()),
        }
    }
}

pub(super) fn sync(store: &LayerDirectory, ids: &[LayerId]) -> Result<(), LayerError> {
    let durability = &store.durability;
    let wanted: Vec<&LayerId> = {
        let layers = durability.layers.lock();
        if let Some(id) = ids.iter().find(|id| layers.doubtful.contains(id)) {
            let action = format!("the disk failed while {id} was written: take the snapshot again");
            return Err(LayerError::new(LayerErrorKind::Damaged, action));
        }
        ids.iter().filter(|id| !layers.safe.contains(id)).collect()
    };
    if wanted.is_empty() {
        return Ok(());
    }
    for id in &wanted {
        store.known(id)?;
    }
    if let Err(error) = durability.round(store.directory()) {
        let mut layers = durability.layers.lock();
        let unwritten: Vec<LayerId> =
            store.all_known().into_iter().filter(|id| !layers.safe.contains(id)).collect();
        layers.doubtful.extend(unwritten);
        return Err(failed("write layers to the disk")(error));
    }
    for id in &wanted {
        names(store, id).map_err(failed(format!("write {id} to the disk")))?;
    }
    rustix::fs::fsync(&store.directory).map_err(failed("write the names of layers to the disk"))?;
    durability.layers.lock().safe.extend(wanted.into_iter().cloned());
    Ok(())
}

/// The round wrote these too; asked for by name, the kernel tells if it could not.
fn names(store: &LayerDirectory, id: &LayerId) -> Result<(), Errno> {
    let directory = rustix::fs::openat(&store.directory, id.as_str(), DIRECTORY, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let manifest = rustix::fs::openat(&directory, manifest::FILE_NAME, flags, Mode::empty())?;
    rustix::fs::fsync(manifest)?;
    rustix::fs::fsync(directory)
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
