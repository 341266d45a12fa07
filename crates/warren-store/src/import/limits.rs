use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::File;

/// Between two looks at the free space: small enough that the reserve is not passed by much.
const LOOK_BYTES: u64 = 64 << 20;
const LOOK_ENTRIES: u64 = 4096;
const REPORT_BYTES: u64 = 1 << 20;

/// The most that one import may take. An archive says nothing reliable about its own size, so each
/// is checked as it grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportLimits {
    /// Bytes of file content.
    pub total_bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// Directories within each other.
    pub depth: usize,
    /// Layers of an image.
    pub layers: usize,
    /// Decompressed bytes for each compressed one, once there are
    /// [`ratio_from_bytes`](Self::ratio_from_bytes).
    pub ratio: u64,
    /// Decompressed bytes below which the ratio does not matter.
    pub ratio_from_bytes: u64,
    /// Bytes of one extended header or JSON document, which are held in memory.
    pub header_bytes: u64,
    /// Bytes that stay free on the disk.
    pub reserve_bytes: u64,
    /// Share of the disk, and of its inodes, that stays free.
    pub reserve_percent: u64,
}

/// How far an import has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the source read so far.
    pub read_bytes: u64,
    /// Bytes of the source in all, where known.
    pub total_bytes: Option<u64>,
    /// Entries written so far.
    pub entries: u64,
}

/// An import would take more than it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    #[error("it holds more than {limit} bytes: raise the byte limit if you trust it")]
    Bytes { limit: u64 },
    #[error("it holds more than {limit} entries: raise the entry limit if you trust it")]
    Entries { limit: u64 },
    #[error("it decompresses to more than {limit} times its size: decompress it yourself if you trust it")]
    Ratio { limit: u64 },
    #[error("it has {layers} layers and {limit} are allowed")]
    Layers { layers: usize, limit: usize },
    #[error(
        "only {free_bytes} bytes are free on the disk and {reserve_bytes} must stay free: make room and try again"
    )]
    FreeSpace { free_bytes: u64, reserve_bytes: u64 },
    #[error(
        "only {free} inodes are free on the disk and {reserve} must stay free: remove files and try again"
    )]
    FreeInodes { free: u64, reserve: u64 },
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self {
            total_bytes: 64 << 30,
            entries: 2_000_000,
            depth: 128,
            layers: 512,
            ratio: 1000,
            ratio_from_bytes: 1 << 30,
            header_bytes: 1 << 20,
            reserve_bytes: 512 << 20,
            reserve_percent: 2,
        }
    }
}

/// Counts what an import takes and holds it to its limits. Readers and writers share it, hence the
/// cells.
pub(crate) struct Meter<'a> {
    pub(crate) limits: ImportLimits,
    disk: File,
    progress: RefCell<&'a mut dyn FnMut(Progress)>,
    read: Cell<u64>,
    reported: Cell<u64>,
    total: Cell<Option<u64>>,
    entries: Cell<u64>,
    bytes: Cell<u64>,
    looked_at_bytes: Cell<u64>,
}

impl<'a> Meter<'a> {
    /// `disk` is any directory on the filesystem that is written to.
    pub(crate) fn new(limits: ImportLimits, disk: File, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            limits,
            disk,
            progress: RefCell::new(progress),
            read: Cell::new(0),
            reported: Cell::new(0),
            total: Cell::new(None),
            entries: Cell::new(0),
            bytes: Cell::new(0),
            looked_at_bytes: Cell::new(0),
        }
    }

    /// Starts to count towards a known end; what was read to examine the source no longer counts.
    pub(crate) fn expect(&self, total_bytes: u64) {
        self.read.set(0);
        self.reported.set(0);
        self.total.set(Some(total_bytes));
    }

    pub(crate) fn read(&self, bytes: u64) {
        self.read.set(self.read.get() + bytes);
        if self.read.get() - self.reported.get() >= REPORT_BYTES {
            self.report();
        }
    }

    pub(crate) fn report(&self) {
        self.reported.set(self.read.get());
        (self.progress.borrow_mut())(Progress {
            read_bytes: self.read.get(),
            total_bytes: self.total.get(),
            entries: self.entries.get(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.get() == 0
    }

    pub(crate) fn entry(&self) -> Result<(), LimitExceeded> {
        self.count(1)
    }

    /// Counts more entries than the archive names: directories on the way to one are made as well.
    pub(crate) fn count(&self, more: u64) -> Result<(), LimitExceeded> {
        let before = self.entries.get();
        let entries = before.saturating_add(more);
        self.entries.set(entries);
        if entries > self.limits.entries {
            return Err(LimitExceeded::Entries { limit: self.limits.entries });
        }
        let is_due = before.div_ceil(LOOK_ENTRIES) != entries.div_ceil(LOOK_ENTRIES);
        if is_due { self.look_at_disk() } else { Ok(()) }
    }

    /// Counts content before it is written.
    pub(crate) fn content(&self, bytes: u64) -> Result<(), LimitExceeded> {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.check_size(self.bytes.get())?;
        if self.bytes.get() - self.looked_at_bytes.get() < LOOK_BYTES {
            return Ok(());
        }
        self.looked_at_bytes.set(self.bytes.get());
        self.look_at_disk()
    }

    /// Refuses what alone would be too much, whether or not it takes space now: a sparse file may
    /// be filled later.
    pub(crate) fn check_size(&self, bytes: u64) -> Result<(), LimitExceeded> {
        let limit = self.limits.total_bytes;
        if bytes > limit { Err(LimitExceeded::Bytes { limit }) } else { Ok(()) }
    }

    pub(crate) fn look_at_disk(&self) -> Result<(), LimitExceeded> {
        self.make_room(0)
    }

    /// Refuses what would not find room, before it is begun.
    pub(crate) fn make_room(&self, bytes: u64) -> Result<(), LimitExceeded> {
        // A filesystem that cannot say how full it is will say so when it is.
        let Ok(disk) = rustix::fs::fstatvfs(&self.disk) else { return Ok(()) };
        let share = |whole: u64| whole / 100 * self.limits.reserve_percent;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize).saturating_sub(bytes);
        let reserve_bytes = self.limits.reserve_bytes.max(share(disk.f_blocks.saturating_mul(disk.f_frsize)));
        if free_bytes < reserve_bytes {
            return Err(LimitExceeded::FreeSpace { free_bytes, reserve_bytes });
        }
        // Some filesystems have no fixed number of inodes and report none.
        let (free, reserve) = (disk.f_favail, share(disk.f_files));
        if free < reserve { Err(LimitExceeded::FreeInodes { free, reserve }) } else { Ok(()) }
    }
}

impl fmt::Debug for Meter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("read", &self.read)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}
