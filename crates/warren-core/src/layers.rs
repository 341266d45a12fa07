//! Layers: what sandboxes wrote, as immutable deltas that any number of sandboxes stand on.
//!
//! A layer is a directory on the host with one `upper-<n>` for each writable tree of a root that it
//! changes, in the form that overlayfs has on disk: ids as seen inside, a removed name as a
//! character device 0:0, a directory that hides what is below it with the attribute
//! `trusted.overlay.opaque`, one that was renamed says in `trusted.overlay.redirect` where the
//! layers below have it. Once committed a layer never changes. A [`Stack`] of them on top of a
//! template is the state of a sandbox at some moment.

use std::fmt;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::diff::{Change, Diff, DiffOptions, Differences, Merge, MergeOrder};
use crate::failure::Failure;
use crate::id::{SandboxId, TemplateName};
use crate::ignore::LeaveOut;
use crate::root::RootTree;
use crate::snapshot::SnapshotRecord;
use crate::stack::{Space, Stack};
use crate::templates::TemplateInfo;
use crate::unique::LayerId;

/// How many layers a root may stand on before they are squashed in the background.
pub const SQUASH_DEPTH: usize = 32;
/// The deepest stack that is mounted. A snapshot that would exceed it is refused until the squash
/// is done.
pub const MOST_LAYERS: usize = 200;

/// How the state of a sandbox is captured. Another file system with snapshots of its own, such as
/// ZFS, would be one more of these, and one more way in [`LayerStore::begin_copy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerDriver {
    /// The writable layer of an idle sandbox is sealed in place; that of a busy one is copied.
    /// Works everywhere.
    Overlay,
    /// Always a copy that shares extents with the original.
    Reflink,
    /// Always a snapshot of a btrfs subvolume.
    Btrfs,
}

/// Keeps layers. Methods block; any number of threads may call them. What a crash leaves of an
/// unfinished layer is not listed as committed and is removed on request.
pub trait LayerStore: LayerContent {
    fn driver(&self) -> LayerDriver;

    /// Where a layer that is about to be made belongs. Nothing is there yet; its maker makes this
    /// directory, on the same file system as the sandboxes.
    fn place(&self, id: &LayerId) -> PathBuf;

    /// Puts the stack's layers on top of a template's root. A layer that is missing or damaged is
    /// an error.
    fn stand_on(&self, stack: &Stack, root: &mut [RootTree]) -> Result<(), LayerError>;

    /// Which layers a root stands on: the reverse of [`LayerStore::stand_on`].
    fn stack_of(&self, root: &[RootTree]) -> Stack;

    /// Begins to make a layer of the `upper-<n>` in a directory: by a snapshot of the subvolume, by
    /// sharing extents, or byte by byte. Programs may still write there: as much as possible is
    /// done now, so that little is left for [`LayerCopy::settle`], while they stand still.
    fn begin_copy<'a>(
        &'a self,
        writable: BorrowedFd<'a>,
        order: &CopyOrder<'_>,
    ) -> Result<Draft<'a>, LayerError>;

    /// Declares a layer that is in its place complete: writes its manifest. Idempotent. Survives
    /// the end of this process; see [`LayerStore::sync`] for more.
    fn commit(&self, layer: &NewLayer) -> Result<(), LayerError>;

    /// Returns when these layers, their manifests and all below them survive a power cut.
    fn sync(&self, layers: &[LayerId]) -> Result<(), LayerError>;

    /// The room that a layer alone takes. Counted once and remembered; gives up, with `None`, after
    /// looking at `most_entries`.
    fn space(&self, id: &LayerId, most_entries: Option<u64>) -> Result<Option<Space>, LayerError>;

    /// Makes and commits one layer that is equal to these on top of one another, the topmost first.
    /// Shares their data.
    fn squash(&self, layers: &[LayerId], into: &LayerId) -> Result<(), LayerError>;

    /// Everything in the store, finished or not.
    fn layers(&self) -> Result<Vec<LayerInfo>, LayerError>;

    /// Removes a layer: out of sight at once, its files in time. Idempotent. The caller knows that
    /// nothing stands on it.
    fn remove(&self, id: &LayerId) -> Result<(), LayerError>;
}

/// A copy on its way. Dropped before it is placed, it leaves nothing.
pub trait LayerCopy {
    /// Brings the copy up to date. Nobody writes in the directory from the call to its end.
    fn settle(&mut self) -> Result<Settled, LayerError>;

    /// Puts the layer into its place: complete, but not committed. Only after [`Settled::Done`].
    fn place(self: Box<Self>) -> Result<Copied, LayerError>;
}

/// A copy to be made.
#[derive(Debug, Clone, Copy)]
pub struct CopyOrder<'a> {
    pub into: &'a LayerId,
    /// The layer that the same directory was last copied into. Only what changed since is copied,
    /// if that can be told.
    pub since: Option<&'a LayerId>,
    /// The trees below the directory's own.
    pub below: &'a [RootTree],
    /// Absent: whatever it costs.
    pub bound: Option<CopyBound>,
}

/// How much a copy may cost that nobody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyBound {
    /// Files, directories and removed names.
    pub entries: u64,
    /// Bytes of files, where they cannot be shared.
    pub bytes: u64,
    /// How long [`LayerCopy::settle`] may take.
    pub still: Duration,
}

impl Default for CopyBound {
    fn default() -> Self {
        Self { entries: 2000, bytes: 64 << 20, still: Duration::from_millis(20) }
    }
}

/// The bound that a copy would exceed. The text is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    #[error("more than {0} files changed")]
    Entries(u64),
    #[error("more than {0} bytes changed")]
    Bytes(u64),
    #[error("it would stand still for more than {} ms", .0.as_millis())]
    Time(Duration),
    #[error("its directories are nested too deep")]
    Depth,
}

/// The beginning of a copy.
pub enum Draft<'a> {
    /// Nothing changed since the last copy, or nothing was written at all.
    Unchanged,
    TooMuch(TooMuch),
    Begun(Box<dyn LayerCopy + 'a>),
}

impl fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("Unchanged"),
            Self::TooMuch(too_much) => f.debug_tuple("TooMuch").field(too_much).finish(),
            Self::Begun(_) => f.write_str("Begun"),
        }
    }
}

/// The outcome of [`LayerCopy::settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Done,
    Unchanged,
    TooMuch(TooMuch),
}

/// Reads and compares the content of layers without mounting them. `root` is always that of the
/// template below the stacks.
pub trait LayerContent: Send + Sync {
    /// Tells what differs between two states, one path after the other; `told` says whether to go
    /// on. Nothing is kept of what was told, so that memory does not grow with it.
    fn diff_each(
        &self,
        root: &[RootTree],
        from: &Stack,
        to: &Stack,
        options: &DiffOptions,
        told: &mut dyn FnMut(Change) -> bool,
    ) -> Result<Differences, LayerError>;

    /// The same, all at once.
    fn diff(
        &self,
        root: &[RootTree],
        from: &Stack,
        to: &Stack,
        options: &DiffOptions,
    ) -> Result<Diff, LayerError> {
        let mut changes = Vec::new();
        let end = self.diff_each(root, from, to, options, &mut |change| {
            changes.push(change);
            true
        })?;
        Ok(Diff { changes, truncated: end == Differences::More })
    }

    /// True if a path, or anything below it, differs between two states.
    fn differs(&self, root: &[RootTree], from: &Stack, to: &Stack, path: &Path) -> Result<bool, LayerError>;

    /// True if there is anything at a path in a state. No symbolic link is followed.
    fn exists(&self, root: &[RootTree], stack: &Stack, path: &Path) -> Result<bool, LayerError>;

    /// Joins what changed from `base` to `theirs` with what changed from `base` to `ours`. With
    /// `into`, and if there is no conflict that the order does not settle, makes and commits a
    /// layer that, on top of `ours`, is the result.
    fn merge(
        &self,
        root: &[RootTree],
        order: &MergeOrder<'_>,
        into: Option<&NewLayer>,
    ) -> Result<Merge, LayerError>;

    /// Writes a state, or a whole history, in a format that others read.
    fn export(&self, root: &[RootTree], what: &Export<'_>, to: &mut dyn Write) -> Result<(), LayerError>;

    /// How many bytes [`LayerContent::export`] will write, if that can be told within moments and
    /// without reading files.
    fn export_size(&self, root: &[RootTree], what: &Export<'_>) -> Result<Option<u64>, LayerError>;

    /// Reads what [`LayerContent::export`] wrote, or a tar file. The source is hostile. Layers are
    /// made and committed with the ids that `draw` gives; on an error none is left. `root` is what
    /// a tar file is to stand on, and empty for a history.
    fn import(
        &self,
        root: &[RootTree],
        from: &mut dyn Read,
        format: ImportFormat,
        draw: &dyn Fn() -> LayerId,
    ) -> Result<ImportedHistory, LayerError>;

    /// Makes a template of a state: the template below it with one more layer on top.
    fn make_template(
        &self,
        below: &TemplateName,
        stack: &Stack,
        name: &TemplateName,
    ) -> Result<TemplateInfo, LayerError>;
}

/// A layer that is about to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLayer {
    pub id: LayerId,
    /// The sandbox that wrote the files; absent for imports and for layers joined of several.
    pub sandbox: Option<SandboxId>,
    pub created_unix_ms: u64,
}

/// A layer in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerInfo {
    pub id: LayerId,
    /// Its manifest is there and whole.
    pub committed: bool,
}

/// How a copy was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub data: CopiedData,
    /// It has only what changed since the last copy and stands on that; otherwise it stands where
    /// the original does.
    pub on_last: bool,
}

/// The way in which file contents were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedData {
    /// They are shared with the original until one of the two changes.
    Shared,
    /// Every byte was copied.
    Bytes,
}

/// A state or a history to be exported, with its format.
#[derive(Debug, Clone)]
pub enum Export<'a> {
    /// All files of a state below a directory, as a POSIX tar file.
    Tar { stack: &'a Stack, below: PathBuf },
    /// The changes between two states below a directory, as `git apply` takes them.
    Patch { from: &'a Stack, to: &'a Stack, below: PathBuf, leave_out: &'a LeaveOut },
    /// Snapshots with their layers and their manifest, for another Warren. Parents come before
    /// their children.
    History { template: &'a TemplateName, snapshots: &'a [SnapshotRecord] },
}

/// The format of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// A tar file, whose root is the sandbox's.
    Tar,
    History,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedHistory {
    /// The template that the snapshots stood on; absent for a tar file.
    pub template: Option<TemplateName>,
    /// In the order of the archive, with the ids and names they had there.
    pub snapshots: Vec<ImportedSnapshot>,
}

/// One snapshot of an import. Its stack is of layers that exist now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSnapshot {
    /// Its id where it came from; empty for a tar file.
    pub was: String,
    pub parent_was: Option<String>,
    pub name: Option<String>,
    pub created_unix_ms: u64,
    pub stack: Stack,
}

/// The store of layers could not do what was asked.
pub type LayerError = Failure<LayerErrorKind>;

/// The kind of a [`LayerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerErrorKind {
    NotFound,
    /// Its manifest or its content is not what it should be.
    Damaged,
    /// There is no room on the disk.
    Full,
    /// The input cannot be used: an archive that is none, or hostile.
    Invalid,
    /// Nobody waits for it any more, or it took longer than it may: see [`crate::abandoned`].
    Abandoned,
    /// The host failed.
    Host,
}
