//! Layers of images as registries have them: fetched once, whichever templates are made of them.
//!
//! ```text
//! <data>/blobs/<hex>            a layer whose bytes have this digest
//! <data>/blobs/<hex>.partial    one that arrives, or whose pull was broken off; locked by whoever
//!                               fetches it
//! <data>/blobs/.lock            held shared by whoever pulls, alone by whoever clears up
//! ```
//!
//! A whole layer stays while a template is made of it. What no template is made of stays for a day,
//! so that a pull that was broken off goes on where it was, and is then removed by whoever opens
//! the store next. Nothing here is believed: a layer's bytes are checked each time it is applied.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};

use crate::digest::Digest;
use crate::pulled::PulledImage;
use crate::staging::private_directory;

const LOCK_NAME: &str = ".lock";
const PARTIAL: &str = "partial";
/// How long what no template is made of stays.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How often a file may be taken away between being opened and being locked.
const TRIES: usize = 16;

/// The layers, while somebody pulls. They stay until it is dropped.
#[derive(Debug)]
pub(crate) struct Blobs {
    directory: PathBuf,
    _lock: File,
}

/// A layer that is not whole yet. Nobody else writes to it.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) file: File,
    path: PathBuf,
    whole: PathBuf,
}

impl Blobs {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        private_directory(directory)?;
        let lock = create(&directory.join(LOCK_NAME))?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&lock, FlockOperation::LockShared))?;
        Ok(Self { directory: directory.to_owned(), _lock: lock })
    }

    /// A layer that has arrived before.
    pub(crate) fn find(&self, digest: &Digest, size: u64) -> Option<File> {
        let file = File::open(self.directory.join(digest.hex())).ok()?;
        (file.metadata().ok()?.len() == size).then_some(file)
    }

    /// Removes a layer whose bytes are not what its name says.
    pub(crate) fn discard(&self, digest: &Digest) {
        // If it cannot be removed, the next pull says the same of it.
        fs::remove_file(self.directory.join(digest.hex())).ok();
    }

    /// A place for a layer, with what is there of it. If somebody else fetches the same one at the
    /// moment, it is a place of its own: pulls never wait for each other.
    pub(crate) fn begin(&self, digest: &Digest) -> io::Result<Partial> {
        let whole = self.directory.join(digest.hex());
        let path = whole.with_extension(PARTIAL);
        for _ in 0..TRIES {
            let file = create(&path)?;
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                break;
            }
            // It may have become a whole one since it was opened.
            if is_at(&file, &path) {
                return Ok(Partial { file, path, whole });
            }
        }
        let random = getrandom::u64().map_err(io::Error::other)?;
        let path = whole.with_extension(format!("{random:016x}.{PARTIAL}"));
        let file = create(&path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Partial { file, path, whole })
    }
}

impl Partial {
    /// It has all its bytes, and they are the right ones. An image may have a layer twice.
    pub(crate) fn keep(&self) -> io::Result<()> {
        match fs::rename(&self.path, &self.whole) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.whole.exists() => Ok(()),
            outcome => outcome,
        }
    }

    /// Its bytes are wrong.
    pub(crate) fn discard(&self) {
        // The place may be another's by now. If it cannot be removed, the next pull finds that out.
        if is_at(&self.file, &self.path) {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Removes what no template is made of: what is old, and `unused` whatever its age. While somebody
/// pulls nothing is removed.
pub(crate) fn collect(directory: &Path, templates: &Path, unused: &[Digest]) -> io::Result<()> {
    let candidates = candidates(directory, unused)?;
    if candidates.is_empty() {
        return Ok(());
    }
    let lock = create(&directory.join(LOCK_NAME))?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    let images = PulledImage::all(templates)?;
    let used: HashSet<&str> = images.iter().flat_map(|image| &image.layers).map(Digest::hex).collect();
    for path in candidates {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !used.contains(name) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn candidates(directory: &Path, unused: &[Digest]) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let is_old = || {
            let changed = entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
            changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > KEPT)
        };
        let is_unused = unused.iter().any(|digest| name == digest.hex());
        if name != LOCK_NAME && (is_unused || is_old()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// True if a file has this path still.
fn is_at(file: &File, path: &Path) -> bool {
    let found = fs::metadata(path).map(|found| found.ino());
    found.is_ok_and(|found| file.metadata().is_ok_and(|own| own.ino() == found))
}

fn create(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[cfg(test)]
#[path = "blobs_tests.rs"]
mod tests;
