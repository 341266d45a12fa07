//! Makes a layer of a sandbox's writable directories while the sandbox stands still.
//!
//! What is in them was written by the sandbox. It is walked by descriptors, so a link in it leads nowhere, and memory and
//! descriptors do not grow with it. Of a file with several names the first copy is kept under its inode's number beside the
//! new layer, and the others are made links to that.

mod attributes;
mod data;

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use warren_core::{Copied, LayerDriver, LayerError, LayerId};

use super::failure::failed;
use super::staging::Staged;
use super::walk::{self, Walk, is_directory};
use super::{LayerDirectory, btrfs, for_each_upper};
use attributes::Attributes;
use data::Data;

const LINKS: &str = "links";

pub(super) fn copy(
    store: &LayerDirectory,
    writable: BorrowedFd<'_>,
    into: &LayerId,
) -> Result<Copied, LayerError> {
    let copying = || failed(format!("copy the files of a sandbox into {into}"));
    if store.driver != LayerDriver::Reflink && btrfs::is_subvolume(writable) {
        let mut made = false;
        let staged = Staged::begin_with(store, |parent, name| {
            made = btrfs::snapshot(writable, parent, name).map_err(copying())?;
            if !made {
                rustix::fs::mkdirat(parent, name, Mode::RWXU).map_err(copying())?;
            }
            Ok(())
        })?;
        if made {
            btrfs::keep_uppers(staged.directory()).map_err(copying())?;
            staged.place(into)?;
            return Ok(Copied::Shared);
        }
    }
    let staged = Staged::begin(store)?;
    let mut copier = Copier::new(&staged).map_err(copying())?;
    for_each_upper(writable, |_, name| {
        let from = walk::open(writable, name)?;
        rustix::fs::mkdirat(staged.directory(), name, Mode::RWXU)?;
        copier.tree(from, walk::open(staged.directory(), name)?)
    })
    .map_err(copying())?;
    let shared =
        copier.data.all_shared() && (copier.data.any_shared() || store.driver != LayerDriver::Overlay);
    drop(copier);
    staged.place(into)?;
    Ok(if shared { Copied::Shared } else { Copied::Bytes })
}

/// Whether files in the store can share data, found by trying.
pub(super) fn can_share(staged: &Staged<'_>) -> Result<bool, LayerError> {
    data::can_share(staged.beside()).map_err(failed("try to share data between files"))
}

/// Whether two empty files can share data. Writes to them.
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

    /// Copies what is in a directory, and then what the directory itself has: its mode could forbid to write in it, and
    /// writing in it changes its time.
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
        let first = format!("{:x}-{:x}", stat.st_dev, stat.st_ino);
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
