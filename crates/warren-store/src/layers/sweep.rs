//! Removal of what is no longer needed: moved out of sight at once, then removed file by file by a
//! thread of its own. The next start finds what is left when the process ends.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::fs::{Dir, FlockOperation, Mode, RenameFlags};
use rustix::io::Errno;
use warren_core::LayerError;

use super::failure::failed;
use super::remove::remove_tree;
use super::staging::{self, DIRECTORY, lock_names, random_word};

const TRASH: &str = ".trash-";

/// Removes directories in the background, one at a time.
#[derive(Debug)]
pub(super) struct Reclaimer {
    shared: Arc<ReclaimerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ReclaimerState {
    directory: OwnedFd,
    queue: Mutex<Queue>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    names: VecDeque<String>,
    busy: bool,
}

impl Reclaimer {
    /// Works in the directory of layers.
    pub(super) fn start(directory: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(ReclaimerState {
            directory,
            queue: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let work = Arc::clone(&shared);
        let thread = thread::Builder::new().name("layer-reclaim".to_owned()).spawn(move || work.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes a name away and has what was there removed. Says whether there was anything.
    pub(super) fn discard(&self, name: &str) -> Result<bool, LayerError> {
        let word = name.trim_start_matches(staging::PREFIX);
        let mut trash = format!("{TRASH}{word}");
        let directory = &self.shared.directory;
        loop {
            match rustix::fs::renameat_with(directory, name, directory, &trash, RenameFlags::NOREPLACE) {
                Ok(()) => break,
                Err(Errno::NOENT) => return Ok(false),
                Err(Errno::EXIST) => trash = format!("{TRASH}{word}-{}", random_word()?),
                Err(error) => return Err(failed(format!("take {word} away"))(error)),
            }
        }
        self.queue(trash);
        Ok(true)
    }

    /// Takes over what earlier processes left: layers they were making when they died, and what
    /// they had yet to remove.
    pub(super) fn adopt(&self, layers: &Path) -> Result<(), LayerError> {
        let _names = lock_names(layers)?;
        let listing = || failed("look for what was left half made");
        for entry in Dir::read_from(&self.shared.directory).map_err(listing())? {
            let entry = entry.map_err(listing())?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with(TRASH) {
                self.queue(name.to_owned());
            } else if name.starts_with(staging::PREFIX) && self.is_left_over(name) {
                self.discard(name)?;
            }
        }
        Ok(())
    }

    /// Waits until nothing is left to remove. Says whether that is so.
    pub(super) fn settle(&self, patience: Duration) -> bool {
        let working = |queue: &mut Queue| queue.busy || !queue.names.is_empty();
        !self.shared.changed.wait_while_for(&mut self.shared.queue.lock(), working, patience).timed_out()
    }

    fn is_left_over(&self, name: &str) -> bool {
        rustix::fs::openat(&self.shared.directory, name, DIRECTORY, Mode::empty()).is_ok_and(|directory| {
            rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
        })
    }

    fn queue(&self, name: String) {
        self.shared.queue.lock().names.push_back(name);
        self.shared.changed.notify_all();
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        drop(self.shared.queue.lock());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panicked: what it left is removed at the next start.
            drop(thread.join());
        }
    }
}

impl ReclaimerState {
    fn run(&self) {
        while let Some(name) = self.next() {
            // What resists is tried again at the next start.
            let _ = remove_tree(self.directory.as_fd(), &name, &self.stop);
            self.queue.lock().busy = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<String> {
        let idle = |queue: &mut Queue| queue.names.is_empty() && !self.stop.load(Ordering::Relaxed);
        let mut queue = self.queue.lock();
        self.changed.wait_while(&mut queue, idle);
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let name = queue.names.pop_front();
        queue.busy = name.is_some();
        name
    }
}
