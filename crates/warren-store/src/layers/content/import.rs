//! Reads what others wrote. The source is hostile: see the reader of archives and the writer of
//! trees, which do not trust it.

mod history;
mod layer;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::SystemTime;

use rustix::fs::Mode;
use rustix::io::Errno;
use warren_core::{
    ImportFormat, ImportedHistory, ImportedSnapshot, LayerError, LayerErrorKind, LayerId, LayerStore as _,
    NewLayer, RootTree, Stack,
};

use super::{build, failure, view};
use crate::import::Skipped;
use crate::import::archive::EndMark;
use crate::import::error::ImportError;
use crate::import::extract::{Extractor, Whiteouts};
use crate::import::limits::{ImportLimits, LimitExceeded, Meter};
use crate::layers::LayerDirectory;
use crate::layers::staging::Staged;
use crate::tree::{EntryError, TreeWriter};

const DEPTH: usize = 256;

pub(super) fn import(
    store: &LayerDirectory,
    root: &[RootTree],
    from: &mut dyn Read,
    format: ImportFormat,
    draw: &dyn Fn() -> LayerId,
) -> Result<ImportedHistory, LayerError> {
    within(ImportLimits { depth: DEPTH, ..ImportLimits::default() }, store, root, from, format, draw)
}

pub(in crate::layers) fn within(
    limits: ImportLimits,
    store: &LayerDirectory,
    root: &[RootTree],
    from: &mut dyn Read,
    format: ImportFormat,
    draw: &dyn Fn() -> LayerId,
) -> Result<ImportedHistory, LayerError> {
    let disk = store.directory.try_clone().map_err(failure::io("open the directory of layers"))?;
    let mut progress = |_| {};
    let meter = Meter::new(limits, File::from(disk), &mut progress);
    meter.look_at_disk().map_err(|error| refused(error.into()))?;
    match format {
        ImportFormat::Tar => tar(store, root, from, draw, &meter),
        ImportFormat::History => history::import(store, from, draw, &meter),
    }
}

/// A tar file's root becomes one layer. It hides nothing of the template but what it has itself.
fn tar(
    store: &LayerDirectory,
    trees: &[RootTree],
    from: &mut dyn Read,
    draw: &dyn Fn() -> LayerId,
    meter: &Meter<'_>,
) -> Result<ImportedHistory, LayerError> {
    let staged = Staged::begin(store)?;
    let upper = view::upper_name(0)?;
    rustix::fs::mkdirat(staged.directory(), &upper, Mode::RWXU).map_err(failure::errno("begin a layer"))?;
    let root = build::open_directory(staged.directory(), &upper).map_err(failure::errno("begin a layer"))?;
    let extracted = || {
        let refuse = ImportError::entry(b"/");
        let mut writer = TreeWriter::within(root, meter.limits.depth).map_err(&refuse)?;
        let mut skipped = Skipped::default();
        let mut extractor = Extractor { writer: &mut writer, meter, skipped: &mut skipped };
        extractor.archive(from, Whiteouts::Plain, EndMark::Required)?;
        if meter.is_empty() {
            return Err(ImportError::Empty);
        }
        writer.finish().map_err(refuse)
    };
    extracted().map_err(refused)?;
    divide(staged.directory(), trees)?;
    let layer = NewLayer { id: draw(), sandbox: None, created_unix_ms: now() };
    staged.commit(&layer)?;
    let snapshot = ImportedSnapshot {
        was: String::new(),
        parent_was: None,
        name: None,
        created_unix_ms: layer.created_unix_ms,
        stack: Stack(vec![layer.id]),
    };
    Ok(ImportedHistory { template: None, snapshots: vec![snapshot] })
}

/// Moves files of a tree of its own, as `/usr` is in the template `host`, to that tree's part of
/// the layer.
fn divide(layer: BorrowedFd<'_>, trees: &[RootTree]) -> Result<(), LayerError> {
    let failed = failure::errno("divide a layer among the trees of its template");
    for (number, tree) in trees.iter().enumerate().skip(1) {
        let (mut names, upper) = (view::names_of(&tree.at)?, view::upper_name(number)?);
        let Some(last) = names.pop() else { continue };
        names.insert(0, view::upper_name(0)?);
        let moved = || {
            let mut parent = rustix::io::fcntl_dupfd_cloexec(layer, 0)?;
            for name in &names {
                parent = build::open_directory(parent.as_fd(), name)?;
            }
            build::open_directory(parent.as_fd(), &last)?;
            rustix::fs::renameat(&parent, &last, layer, &upper)
        };
        match moved() {
            // Whatever else the archive has there, the tree hides it.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(())
}

/// Layers that were made. They go again unless the whole import succeeds.
struct Made<'a> {
    store: &'a LayerDirectory,
    layers: Vec<LayerId>,
}

impl Made<'_> {
    fn keep(mut self) {
        self.layers.clear();
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for layer in &self.layers {
            // What cannot be removed belongs to nothing, and is swept as any such layer.
            drop(self.store.remove(layer));
        }
    }
}

pub(super) fn now() -> u64 {
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    age.map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// Tells mistakes of the archive from failures of the disk and of the host.
fn refused(error: ImportError) -> LayerError {
    let kind = match &error {
        ImportError::Limit(LimitExceeded::FreeSpace { .. } | LimitExceeded::FreeInodes { .. }) => {
            LayerErrorKind::Full
        }
        ImportError::Entry { source: EntryError::Io { source, .. }, .. } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => LayerErrorKind::Full,
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::TooManyLinks => LayerErrorKind::Invalid,
            _ => LayerErrorKind::Host,
        },
        _ => LayerErrorKind::Invalid,
    };
    LayerError::caused(kind, "the archive cannot be imported", error)
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
