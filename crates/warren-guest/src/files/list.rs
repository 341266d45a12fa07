//! Listing a directory tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use warren_wire::guest::{ByteString, Detail, FailureCode, FileEntry, Reply};

use super::Task;
use super::entry::{Names, describe, elaborate};
use super::failure::{Stop, denied, refused};
use super::place::Place;
use super::walk::{Found, Walk};

/// Payload at which a batch goes out. With the largest entry on top it stays under a quarter
/// megabyte.
const BATCH_BYTES: usize = 96 * 1024;

/// An entry's cost beside its path, target and names.
const ENTRY_OVERHEAD: usize = 96;

pub(super) fn list(task: &mut Task, place: &Place, depth: u32, detail: Option<Detail>) -> Result<(), Stop> {
    if depth == 0 {
        return Err(denied(FailureCode::Invalid, "list", place.path(), "a depth of 0 lists nothing").into());
    }
    let mut walk = open_walk("list", place, depth)?;
    let mut batch = Batch { detail, ..Batch::new(place) };
    while let Some(found) = walk.next() {
        batch.push(&found, &mut task.names);
        if batch.is_full() {
            task.channel.reply(&batch.take())?;
        }
    }
    batch.finish(task)
}

pub(super) fn open_walk(action: &str, place: &Place, depth: u32) -> Result<Walk, Stop> {
    let walk = place.open_directory().and_then(|top| Walk::new(top, depth));
    walk.map_err(|errno| refused(action, place.path(), errno).into())
}

/// Entries on their way out.
pub(super) struct Batch {
    top: PathBuf,
    entries: Vec<FileEntry>,
    bytes: usize,
    detail: Option<Detail>,
}

impl Batch {
    pub(super) fn new(place: &Place) -> Self {
        Self { top: place.tidy(), entries: Vec::new(), bytes: 0, detail: None }
    }

    /// Adds what the walk found, unless it vanished meanwhile; tells whether it was added.
    pub(super) fn push(&mut self, found: &Found<'_>, names: &mut Names) -> bool {
        let path = absolute(&self.top, found.path);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let Ok(mut entry) = describe(found.directory, found.name, path, flags, names) else {
            return false;
        };
        if let Some(detail) = &self.detail {
            elaborate(&mut entry, found.directory, found.name, detail);
        }
        self.bytes += cost(&entry);
        self.entries.push(entry);
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }

    pub(super) fn take(&mut self) -> Reply {
        self.bytes = 0;
        Reply::Entries(std::mem::take(&mut self.entries))
    }

    pub(super) fn finish(mut self, task: &mut Task) -> Result<(), Stop> {
        if !self.entries.is_empty() {
            task.channel.reply(&self.take())?;
        }
        task.channel.end()
    }
}

fn cost(entry: &FileEntry) -> usize {
    let resolved = entry.resolved.as_ref().map(|resolved| &resolved.path);
    let texts =
        [Some(&entry.path), entry.target.as_ref(), entry.owner.as_ref(), entry.group.as_ref(), resolved];
    let attributes = entry.attributes.iter().flatten().flat_map(|each| [&each.name, &each.value]);
    let texts = texts.into_iter().flatten().chain(attributes);
    texts.map(|text| text.as_bytes().len()).sum::<usize>() + ENTRY_OVERHEAD
}

pub(super) fn absolute(top: &Path, relative: &[u8]) -> ByteString {
    top.join(OsStr::from_bytes(relative)).into_os_string().into()
}
