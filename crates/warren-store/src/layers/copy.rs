//! Makes a layer of a sandbox's writable directories.
//!
//! ```text
//! begin ── look, copy ahead ──► settle ── look again, copy what changed meanwhile ──► place
//!          programs may write             they stand still
//! ```
//!
//! The sandbox wrote their content. It is walked by descriptors, so a link in it leads nowhere. Of
//! a file with several names the first copy is kept under its inode's number beside the new layer,
//! and the others are made links to that. [`stamps`] tell which entries changed since an earlier
//! copy; where there are none, or there is too much to remember, everything is copied, and then
//! memory and descriptors do not grow with it.

mod apply;
mod attributes;
mod data;
mod plan;
mod scan;
mod stamps;

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use warren_core::{
    Copied, CopiedData, CopyBound, CopyOrder, Draft, LayerCopy, LayerDriver, LayerError, LayerErrorKind,
    LayerId, RootTree, Settled, TooMuch,
};

use super::failure::failed;
use super::staging::Staged;
use super::walk::{self, Walk, is_directory};
use super::{LayerDirectory, btrfs, for_each_upper};
use apply::{Filling, Halt};
use attributes::Attributes;
use data::Data;
use plan::Plan;
use scan::{Stop, clock_of_changes, scan};
use stamps::{Moment, Stamps};

const LINKS: &str = "links";
/// The kernel's clock of changes moves at least this often.
const LONGEST_TICK: Duration = Duration::from_millis(25);
const NAP: Duration = Duration::from_micros(500);
/// With more files than this that changed just now, it pays to wait until they can be copied ahead.
const MANY_HOT: usize = 16;

pub(super) fn begin<'a>(
    store: &'a LayerDirectory,
    writable: BorrowedFd<'a>,
    order: &CopyOrder<'_>,
) -> Result<Draft<'a>, LayerError> {
    let copying = Copying {
        store,
        writable,
        into: order.into.clone(),
        since: order.since.cloned(),
        last: order.since.and_then(|since| Stamps::load(store.place_of(since).ok()?.as_fd())),
        bound: order.bound,
    };
    let began = Instant::now();
    let mut look = scan(writable, copying.last.as_ref(), None);
    let still = |bound: CopyBound| bound.still < began.elapsed();
    if look.is_ok() && order.bound.is_some_and(still) {
        // The first look may have had to wait for the disk; this one tells how long the sandbox
        // would have to stand still.
        look = scan(writable, copying.last.as_ref(), order.bound.map(|bound| Instant::now() + bound.still));
    }
    let stamps = match look {
        Ok(stamps) => Some(stamps),
        Err(Stop::Failed(_)) => None,
        Err(stop) => match (order.bound, copying.exceeded(stop)) {
            (Some(_), Some(too_much)) => return Ok(Draft::TooMuch(too_much)),
            _ => return copying.begin_plain(),
        },
    };
    if let Some(stamps) = &stamps
        && copying.is_unchanged(stamps, order.below)?
    {
        return Ok(Draft::Unchanged);
    }
    if store.driver != LayerDriver::Reflink && btrfs::is_subvolume(writable) {
        return Ok(Draft::Begun(Box::new(Subvolume { copying, staged: None })));
    }
    copying.begin_files(stamps)
}

/// The inputs of all ways to copy.
struct Copying<'a> {
    store: &'a LayerDirectory,
    writable: BorrowedFd<'a>,
    into: LayerId,
    since: Option<LayerId>,
    /// The stamps of the directories at the last copy, if they are known.
    last: Option<Stamps>,
    bound: Option<CopyBound>,
}

impl<'a> Copying<'a> {
    fn failed(&self) -> impl FnOnce(Errno) -> LayerError {
        failed(format!("copy the files of a sandbox into {}", self.into))
    }

    /// The bound that a look at the files exceeded; `None` if it failed.
    fn exceeded(&self, stop: Stop) -> Option<TooMuch> {
        let bound = self.bound.unwrap_or_default();
        match stop {
            Stop::Failed(_) => None,
            Stop::Many => Some(TooMuch::Entries(bound.entries)),
            Stop::Deep => Some(TooMuch::Depth),
            Stop::Late => Some(TooMuch::Time(bound.still)),
        }
    }

    /// The work to do, and whether it covers only changes since the last copy.
    fn plan(&self, now: &Stamps) -> (Plan, bool) {
        match self.last.as_ref().and_then(|last| Plan::since(last, now)) {
            Some(plan) => (plan, true),
            None => (Plan::whole(now), false),
        }
    }

    fn is_unchanged(&self, now: &Stamps, below: &[RootTree]) -> Result<bool, LayerError> {
        match &self.last {
            Some(_) => {
                let (plan, on_last) = self.plan(now);
                Ok(on_last && plan.items.is_empty())
            }
            // What the last copy had, and is gone since, leaves no trace.
            None if self.since.is_some() => Ok(false),
            None => self.is_untouched(now, below).map_err(self.failed()),
        }
    }

    /// True if nothing was ever written.
    fn is_untouched(&self, now: &Stamps, below: &[RootTree]) -> Result<bool, Errno> {
        if now.entries.keys().any(|path| path.parent().is_some()) {
            return Ok(false);
        }
        let mut untouched = true;
        for_each_upper(self.writable, |number, name| {
            let tree = usize::try_from(number).ok().and_then(|number| writable_tree(below, number));
            untouched &= appearance(&walk::open(self.writable, name)?)? == expected(tree)?;
            Ok(())
        })?;
        Ok(untouched)
    }

    fn check(&self, plan: &Plan) -> Option<TooMuch> {
        let bound = self.bound?;
        if plan.items.len() as u64 > bound.entries {
            return Some(TooMuch::Entries(bound.entries));
        }
        (plan.bytes > bound.bytes && !self.store.shares_data()).then_some(TooMuch::Bytes(bound.bytes))
    }

    fn begin_files(self, stamps: Option<Stamps>) -> Result<Draft<'a>, LayerError> {
        let plan = stamps.map(|stamps| self.plan(&stamps).0);
        if let Some(too_much) = plan.as_ref().and_then(|plan| self.check(plan)) {
            return Ok(Draft::TooMuch(too_much));
        }
        let staged = Staged::begin(self.store)?;
        let filling = Filling::new(self.writable, staged).map_err(self.failed())?;
        let mut files = Files { filling, settled: None, on_last: false, copying: self };
        if let Some(plan) = plan {
            files.copy_ahead(&plan)?;
        }
        Ok(Draft::Begun(Box::new(files)))
    }

    fn begin_plain(self) -> Result<Draft<'a>, LayerError> {
        let staged = Staged::begin(self.store)?;
        let copier = Copier::new(&staged).map_err(self.failed())?;
        Ok(Draft::Begun(Box::new(Plain { staged, copier, copying: self })))
    }

    /// Forgets the stamps of the last copy, which are of no use any more.
    fn forget_last(&self) {
        if let Some(directory) = self.since.as_ref().and_then(|since| self.store.place_of(since).ok()) {
            // It costs some room if it stays.
            let _ = Stamps::forget(directory.as_fd());
        }
    }
}

/// A copy by files and by what changed.
struct Files<'a> {
    copying: Copying<'a>,
    filling: Filling<'a>,
    settled: Option<Stamps>,
    on_last: bool,
}

impl Files<'_> {
    fn copy_ahead(&mut self, plan: &Plan) -> Result<(), LayerError> {
        let newest = |item: &&plan::Item| item.stamp.is_some_and(|stamp| stamp.changed >= clock_of_changes());
        if plan.items.values().filter(newest).count() > MANY_HOT {
            wait_for_tick(clock_of_changes());
        }
        self.filling.ahead(plan, clock_of_changes()).map_err(self.copying.failed())
    }
}

impl LayerCopy for Files<'_> {
    fn settle(&mut self) -> Result<Settled, LayerError> {
        let copying = &self.copying;
        let deadline = copying.bound.map(|bound| Instant::now() + bound.still);
        let now = match scan(copying.writable, copying.last.as_ref(), deadline) {
            Ok(now) => now,
            Err(Stop::Failed(errno)) => return Err(copying.failed()(errno)),
            Err(stop) => {
                let too_much = copying.exceeded(stop).unwrap_or(TooMuch::Depth);
                return Ok(Settled::TooMuch(too_much));
            }
        };
        let (plan, on_last) = copying.plan(&now);
        if on_last && plan.items.is_empty() {
            return Ok(Settled::Unchanged);
        }
        if let Some(too_much) = copying.check(&plan) {
            return Ok(Settled::TooMuch(too_much));
        }
        match self.filling.finish(&plan, deadline) {
            Ok(()) => {}
            Err(Halt::Failed(errno)) => return Err(self.copying.failed()(errno)),
            Err(Halt::Late) => {
                return Ok(Settled::TooMuch(TooMuch::Time(self.copying.bound.unwrap_or_default().still)));
            }
        }
        // What changes after this has a time of its own.
        wait_for_tick(now.entries.values().map(|stamp| stamp.changed).max().unwrap_or_default());
        (self.settled, self.on_last) = (Some(now), on_last);
        Ok(Settled::Done)
    }

    fn place(self: Box<Self>) -> Result<Copied, LayerError> {
        let Self { copying, filling, settled, on_last } = *self;
        let Filling { staged, copier, .. } = filling;
        if let Some(stamps) = settled {
            stamps.save(staged.directory()).map_err(failed(format!("note what {} has", copying.into)))?;
        }
        let data = copier.data.verdict(copying.store.driver);
        drop(copier);
        staged.place(&copying.into)?;
        copying.forget_last();
        Ok(Copied { data, on_last })
    }
}

/// A snapshot of a subvolume. One that cannot be where the layers are is copied.
struct Subvolume<'a> {
    copying: Copying<'a>,
    staged: Option<(Staged<'a>, CopiedData)>,
}

impl LayerCopy for Subvolume<'_> {
    fn settle(&mut self) -> Result<Settled, LayerError> {
        let (store, writable) = (self.copying.store, self.copying.writable);
        // The descriptor may be one that only names the directory.
        let source = walk::open(writable, c".").map_err(self.copying.failed())?;
        let mut made = false;
        let staged = Staged::begin_with(store, |parent, name| {
            made = btrfs::snapshot(source.as_fd(), parent, name).map_err(self.copying.failed())?;
            if made {
                Ok(())
            } else {
                rustix::fs::mkdirat(parent, name, Mode::RWXU).map_err(self.copying.failed())
            }
        })?;
        let data = if made {
            CopiedData::Shared
        } else {
            let mut copier = Copier::new(&staged).map_err(self.copying.failed())?;
            copier.all(writable, &staged).map_err(self.copying.failed())?;
            copier.data.verdict(store.driver)
        };
        self.staged = Some((staged, data));
        Ok(Settled::Done)
    }

    fn place(self: Box<Self>) -> Result<Copied, LayerError> {
        let Self { copying, staged } = *self;
        let Some((staged, data)) = staged else {
            let action = format!("put {} into its place before it is complete", copying.into);
            return Err(LayerError::new(LayerErrorKind::Invalid, action));
        };
        btrfs::keep_uppers(staged.directory()).map_err(copying.failed())?;
        // A snapshot has the inodes and times of the original. Without them the next one is taken
        // for a change.
        if data == CopiedData::Shared
            && let Ok(stamps) = scan(staged.directory(), None, None)
        {
            stamps.save(staged.directory()).map_err(failed(format!("note what {} has", copying.into)))?;
        }
        staged.place(&copying.into)?;
        copying.forget_last();
        Ok(Copied { data, on_last: false })
    }
}

/// A copy of everything, of which nothing is remembered.
struct Plain<'a> {
    copying: Copying<'a>,
    staged: Staged<'a>,
    copier: Copier,
}

impl LayerCopy for Plain<'_> {
    fn settle(&mut self) -> Result<Settled, LayerError> {
        self.copier.all(self.copying.writable, &self.staged).map_err(self.copying.failed())?;
        Ok(Settled::Done)
    }

    fn place(self: Box<Self>) -> Result<Copied, LayerError> {
        let Self { copying, staged, copier } = *self;
        let data = copier.data.verdict(copying.store.driver);
        drop(copier);
        staged.place(&copying.into)?;
        Ok(Copied { data, on_last: false })
    }
}

/// Waits until the kernel's clock of changes is past a moment that it has just shown.
fn wait_for_tick(moment: Moment) {
    let began = Instant::now();
    while clock_of_changes() <= moment && began.elapsed() < LONGEST_TICK {
        thread::sleep(NAP);
    }
}

/// Mode, user and group of an open directory.
fn appearance(directory: &OwnedFd) -> Result<(u32, u32, u32), Errno> {
    let stat = rustix::fs::fstat(directory)?;
    Ok((stat.st_mode & 0o7777, stat.st_uid, stat.st_gid))
}

/// How the root of a writable directory looks in which nothing was written: as that of the layer
/// below, if there is one.
fn expected(tree: Option<&RootTree>) -> Result<(u32, u32, u32), Errno> {
    let below = tree.and_then(|tree| tree.lowers.first());
    let layer =
        below.filter(|path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"upper-")));
    match layer {
        Some(layer) => appearance(&walk::open(rustix::fs::CWD, layer.as_path())?),
        None => Ok((0o755, 0, 0)),
    }
}

fn writable_tree(below: &[RootTree], number: usize) -> Option<&RootTree> {
    below.iter().filter(|tree| tree.access == warren_core::MountAccess::ReadWrite).nth(number)
}

/// True if files in the store can share data, found by trying.
pub(super) fn can_share(staged: &Staged<'_>) -> Result<bool, LayerError> {
    data::can_share(staged.beside()).map_err(failed("try to share data between files"))
}

/// True if two empty files can share data. Writes to them.
pub(super) fn can_share_between(original: BorrowedFd<'_>, copy: BorrowedFd<'_>) -> Result<bool, Errno> {
    data::can_share_between(original, copy)
}

struct Copier {
    links: OwnedFd,
    attributes: Attributes,
    data: Data,
}

impl Copier {
    fn new(staged: &Staged<'_>) -> Result<Self, Errno> {
        rustix::fs::mkdirat(staged.beside(), LINKS, Mode::RWXU)?;
        let links = walk::open(staged.beside(), LINKS)?;
        Ok(Self { links, attributes: Attributes::new(), data: Data::new() })
    }

    /// A file changed after it was copied: names that are still to come are links to another copy.
    fn forget(&self, inode: u64) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&self.links, link_name(inode), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            forgotten => forgotten,
        }
    }

    /// Copies every `upper-<n>` of a directory.
    fn all(&mut self, writable: BorrowedFd<'_>, staged: &Staged<'_>) -> Result<(), Errno> {
        for_each_upper(writable, |_, name| {
            let from = walk::open(writable, name)?;
            rustix::fs::mkdirat(staged.directory(), name, Mode::RWXU)?;
            self.tree(from, walk::open(staged.directory(), name)?)
        })
    }

    /// Copies what is in a directory, and then what the directory itself has: its mode could forbid
    /// to write in it, and writing in it changes its time.
    fn tree(&mut self, from: OwnedFd, to: OwnedFd) -> Result<(), Errno> {
        let mut source = Walk::new(from)?;
        let mut target = Walk::new(to)?;
        loop {
            let Some(name) = source.next()? else {
                self.attributes.copy(source.directory()?, target.directory()?)?;
                if !source.leave()? {
                    return Ok(());
                }
                target.leave()?;
                continue;
            };
            let stat = rustix::fs::statat(source.directory()?, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            if is_directory(&stat) {
                rustix::fs::mkdirat(target.directory()?, &name, Mode::RWXU)?;
                source.enter(&name)?;
                target.enter(&name)?;
            } else {
                self.entry(source.directory()?, target.directory()?, &name, &stat)?;
            }
        }
    }

    fn entry(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
    ) -> Result<(), Errno> {
        if stat.st_nlink < 2 {
            return self.file(from, to, name, stat);
        }
        let first = link_name(stat.st_ino);
        match rustix::fs::linkat(&self.links, &first, to, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            // It has as many names as a file can have: this is the last.
            Err(Errno::MLINK) => rustix::fs::renameat(&self.links, &first, to, name),
            Err(Errno::NOENT) => {
                self.file(from, to, name, stat)?;
                rustix::fs::linkat(to, name, &self.links, &first, AtFlags::empty())
            }
            Err(error) => Err(error),
        }
    }

    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
    ) -> Result<(), Errno> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                // Never waits, whatever the name leads to.
                let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOATIME | OFlags::CLOEXEC;
                let source = rustix::fs::openat(from, name, OFlags::RDONLY | flags, Mode::empty())?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let target = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
                self.data.copy(source.as_fd(), target.as_fd(), stat)?;
                self.attributes.copy(source.as_fd(), target.as_fd())
            }
            FileType::Symlink => {
                let goal = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(&goal, to, name)?;
                self.attributes.copy_named(from, to, name, stat)
            }
            kind => {
                rustix::fs::mknodat(to, name, kind, Mode::RUSR | Mode::WUSR, stat.st_rdev)?;
                self.attributes.copy_named(from, to, name, stat)
            }
        }
    }
}

/// All of a sandbox's files are on one file system.
fn link_name(inode: u64) -> String {
    format!("{inode:x}")
}
