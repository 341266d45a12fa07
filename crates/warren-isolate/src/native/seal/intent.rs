//! What a seal is about to do, written down first. Whoever finds it knows whether to finish or to undo.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

use serde::{Deserialize, Serialize};
use warren_core::RootTree;

use crate::native::layers::{Appearance, upper, work};
use crate::native::record::{self, Record};
use crate::native::remove;
use crate::native::step::{CrashPoint, Steps};

const FILE: &str = "sealing.json";
/// Holds the writable layers to come, and then those work directories that are no longer used.
const NEXT: &str = "next";
/// Where those are on their way out.
const SPENT: &str = "spent";

/// See the module's documentation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Intent {
    into: PathBuf,
    /// The numbers of the trees to be sealed.
    trees: Vec<usize>,
    /// What the sandbox stands on afterwards.
    root: Vec<RootTree>,
    /// The device of a running sandbox's root before: another one afterwards says that it was exchanged.
    device: Option<u64>,
    /// It stood still before, and is left so.
    pub(super) frozen: bool,
}

impl Intent {
    /// `device` and `frozen` are those of a running sandbox.
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

    /// Put in place in one step. No power cut matters to it: that ends the sandbox, and then only what was renamed counts.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        record::place(self, directory, FILE, |_| Ok(()))
    }

    pub(super) fn load(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => Ok(Some(serde_json::from_slice(&text?)?)),
        }
    }

    /// Whether the point was passed from which on it can only be finished.
    pub(super) fn is_decided(&self, record: &Record, directory: &Path) -> bool {
        let moved = self.trees.iter().any(|number| self.into.join(upper(*number)).exists());
        moved
            || self.is_written(directory)
            || record.is_alive() && self.device.is_some_and(|before| root_device(record) != Some(before))
    }

    /// Whether the sandbox has written to the next layers: then it stood on them, even if it has ended since.
    fn is_written(&self, directory: &Path) -> bool {
        let has_content = |upper: PathBuf| fs::read_dir(upper).is_ok_and(|mut found| found.next().is_some());
        self.trees.iter().any(|number| has_content(directory.join(NEXT).join(upper(*number))))
    }

    /// Makes the directories that the next writable layers will be in. Their roots are like those of the sealed ones: a
    /// merged directory takes what describes it from the topmost.
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

    /// The trees to be sealed, by number, as they will be: the layer on top is still where the sandbox writes it.
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

    /// Where, below the sandbox's directory, the next layer and its work directory are.
    pub(super) fn places(number: usize) -> (String, String) {
        (format!("{NEXT}/{}", upper(number)), format!("{NEXT}/{}", work(number)))
    }

    /// Gives everything its final place. May be repeated after a crash at any point: what is renamed last says whether all is
    /// done.
    pub(super) fn finish(&self, record: &Record, directory: &Path, steps: Steps) -> io::Result<Record> {
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
        let record = record.standing_on(self.root.clone(), Some(&self.into));
        record.store(directory)?;
        Ok(record)
    }

    /// All is done, and the sandbox goes on.
    pub(super) fn forget(directory: &Path) -> io::Result<()> {
        absent_is_fine(fs::remove_file(directory.join(FILE)))?;
        // Nothing rests on what is left of the work directories, and nobody has to wait for their end.
        let (next, spent) = (directory.join(NEXT), directory.join(SPENT));
        if fs::rename(&next, &spent).is_ok() {
            let removal = move || drop(remove_all(&spent));
            drop(thread::Builder::new().name("warren-spent".to_owned()).spawn(removal));
        } else {
            drop(remove_all(&spent).and_then(|()| remove_all(&next)));
        }
        Ok(())
    }

    /// Whether a record says that the sandbox stands on what was sealed.
    pub(super) fn is_said_by(&self, record: &Record) -> bool {
        record.root == self.root
    }

    /// Leaves the files as they were.
    pub(super) fn undo(&self, directory: &Path) -> io::Result<()> {
        remove_all(&directory.join(NEXT))?;
        remove_all(&self.into)
    }
}

/// The trees of a root that have a writable layer, in the order of their numbers.
pub(super) fn writable(root: &mut [RootTree]) -> impl Iterator<Item = &mut RootTree> {
    root.iter_mut().filter(|tree| tree.access == warren_core::MountAccess::ReadWrite)
}

/// The device of the root that a running sandbox's first process has.
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
