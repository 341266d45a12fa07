//! The plan of a seal, written to disk first. After a crash it tells whether to finish or to undo.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

use serde::{Deserialize, Serialize};
use warren_core::RootTree;

use crate::linux::layers::{Appearance, upper, work};
use crate::linux::record::{self, Record, Staged};
use crate::linux::remove;
use crate::linux::step::{CrashPoint, Steps};

const FILE: &str = "sealing.json";
/// Holds the next writable layers, and later the work directories that are no longer used.
const NEXT: &str = "next";
/// Holds old work directories that are being removed.
const SPENT: &str = "spent";

/// The plan of a seal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Intent {
    into: PathBuf,
    /// The numbers of the trees to be sealed.
    trees: Vec<usize>,
    /// The sandbox's root afterwards.
    root: Vec<RootTree>,
    /// The device of a running sandbox's root before. If it has another one, the root was
    /// exchanged.
    device: Option<u64>,
    /// It was frozen before, and stays so.
    pub(super) frozen: bool,
}

impl Intent {
    /// `device` and `frozen` are of a running sandbox.
    pub(super) fn new(
        into: &Path,
        trees: Vec<usize>,
        below: &[RootTree],
        device: Option<u64>,
        frozen: bool,
    ) -> Self {
        let mut root = below.to_vec();
        for (number, tree) in writable(&mut root).enumerate() {
            if trees.contains(&number) {
                tree.lowers.insert(0, into.join(upper(number)));
            }
        }
        Self { into: into.to_owned(), trees, root, device, frozen }
    }

    /// Puts the plan in place in one step. It is not synced: a power cut ends the sandbox, and then
    /// only the renames count.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        record::place(self, directory, FILE, |_| Ok(()))
    }

    pub(super) fn load(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => Ok(Some(serde_json::from_slice(&text?)?)),
        }
    }

    /// True if the seal can only be finished, no longer undone.
    pub(super) fn is_decided(&self, record: &Record, directory: &Path) -> bool {
        let moved = self.trees.iter().any(|number| self.into.join(upper(*number)).exists());
        moved
            || self.is_written(directory)
            || record.is_alive() && self.device.is_some_and(|before| root_device(record) != Some(before))
    }

    /// True if the sandbox has written to the next layers. Then it ran on them, even if it has
    /// ended since.
    fn is_written(&self, directory: &Path) -> bool {
        let has_content = |upper: PathBuf| fs::read_dir(upper).is_ok_and(|mut found| found.next().is_some());
        self.trees.iter().any(|number| has_content(directory.join(NEXT).join(upper(*number))))
    }

    /// Makes the directories of the next writable layers. Their roots look like those of the sealed
    /// ones, because a merged directory takes its mode and owner from the topmost layer.
    pub(super) fn prepare(&self, directory: &Path) -> io::Result<()> {
        let next = directory.join(NEXT);
        remove_all(&next)?;
        make(&next, 0o700)?;
        for &number in &self.trees {
            let upper = upper(number);
            make(&next.join(&upper), 0o755)?;
            Appearance::of(&directory.join(&upper))?.give(&next.join(&upper))?;
            make(&next.join(work(number)), 0o700)?;
        }
        make(&self.into, 0o700)
    }

    /// The trees to be sealed, by number, as they will be. The layer on top is still at its old
    /// place.
    pub(super) fn trees_now(&self, directory: &Path) -> Vec<(usize, RootTree)> {
        let mut root = self.root.clone();
        let mut trees = Vec::new();
        for (number, tree) in writable(&mut root).enumerate() {
            if let (true, Some(top)) = (self.trees.contains(&number), tree.lowers.first_mut()) {
                *top = directory.join(upper(number));
                trees.push((number, tree.clone()));
            }
        }
        trees
    }

    /// Places of the next layer and its work directory below the sandbox's directory.
    pub(super) fn places(number: usize) -> (String, String) {
        (format!("{NEXT}/{}", upper(number)), format!("{NEXT}/{}", work(number)))
    }

    /// The sandbox's record once the seal is done.
    pub(super) fn record_after(&self, record: &Record) -> Record {
        record.standing_on(self.root.clone(), Some(&self.into))
    }

    /// Moves everything to its final place. May be repeated after a crash at any point: the last
    /// rename of a tree tells that it is done. `after` is the record that holds then.
    pub(super) fn finish(&self, directory: &Path, steps: Steps, after: Staged) -> io::Result<Record> {
        let next = directory.join(NEXT);
        for &number in &self.trees {
            let (upper, work) = (upper(number), work(number));
            if !next.join(&upper).exists() {
                continue;
            }
            if !self.into.join(&upper).exists() {
                fs::rename(directory.join(&upper), self.into.join(&upper))?;
            }
            steps.passed(CrashPoint::SealPlacing);
            if next.join(&work).exists() {
                absent_is_fine(fs::rename(directory.join(&work), next.join(format!("old-{work}"))))?;
                fs::rename(next.join(&work), directory.join(&work))?;
            }
            fs::rename(next.join(&upper), directory.join(&upper))?;
        }
        after.put()
    }

    /// Removes the plan of a seal that is done.
    pub(super) fn forget(directory: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_file(directory.join(FILE)))?;
        // Old work directories are of no use, and nobody has to wait for their removal.
        let (next, spent) = (directory.join(NEXT), directory.join(SPENT));
        if fs::rename(&next, &spent).is_ok() {
            let removal = move || drop(remove_all(&spent));
            drop(thread::Builder::new().name("warren-spent".to_owned()).spawn(removal));
        } else {
            drop(remove_all(&spent).and_then(|()| remove_all(&next)));
        }
        Ok(())
    }

    /// True if a record says that the sandbox is on the sealed root.
    pub(super) fn is_said_by(&self, record: &Record) -> bool {
        record.root == self.root
    }

    /// Removes what was prepared.
    pub(super) fn undo(&self, directory: &Path) -> io::Result<()> {
        remove_all(&directory.join(NEXT))?;
        remove_all(&self.into)
    }
}

/// The trees of a root that have a writable layer, in the order of their numbers.
pub(super) fn writable(root: &mut [RootTree]) -> impl Iterator<Item = &mut RootTree> {
    root.iter_mut().filter(|tree| tree.access == warren_core::MountAccess::ReadWrite)
}

/// The device of a running sandbox's root.
pub(super) fn root_device(record: &Record) -> Option<u64> {
    fs::metadata(format!("/proc/{}/root/", record.pid)).ok().map(|found| found.dev())
}

fn make(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().mode(mode).create(path)
}

fn remove_all(path: &Path) -> io::Result<()> {
    if remove::remove_tree(path, || {}) { Ok(()) } else { Err(io::ErrorKind::DirectoryNotEmpty.into()) }
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
