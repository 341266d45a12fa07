use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

/// The kernel lists no more names, and has no longer values.
const MOST_BYTES: usize = 64 << 10;
pub(super) const OPAQUE: &CStr = c"trusted.overlay.opaque";
/// Where the layers below have a directory that was renamed.
pub(super) const REDIRECT: &CStr = c"trusted.overlay.redirect";
const CAPABILITY: &CStr = c"security.capability";

/// Gives copies the owner, mode, times and extended attributes of their originals. Has the room for
/// the latter.
pub(super) struct Attributes {
    names: Vec<u8>,
    value: Vec<u8>,
}

impl Attributes {
    pub(super) fn new() -> Self {
        Self { names: vec![0; MOST_BYTES], value: vec![0; MOST_BYTES] }
    }

    /// For an open file or directory. The owner comes first, because changing it takes capabilities
    /// and set-id bits away; the mode after the access list, which changes it.
    pub(super) fn copy(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        self.copy_some(from, to, |_| true)
    }

    /// As [`Attributes::copy`], without what overlayfs noted of a directory: the layer below has
    /// it.
    pub(super) fn copy_unmarked(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        self.copy_some(from, to, |name| name != OPAQUE && name != REDIRECT)
    }

    fn copy_some(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        wanted: impl Fn(&CStr) -> bool,
    ) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(from)?;
        let made = rustix::fs::fstat(to)?;
        // Most files are root's, and a change to what already is costs a write.
        if (made.st_uid, made.st_gid) != (stat.st_uid, stat.st_gid) {
            let (uid, gid) = owner(&stat);
            rustix::fs::fchown(to, uid, gid)?;
        }
        let length = without_any(rustix::fs::flistxattr(from, &mut self.names[..]))?;
        for name in names(&self.names, length).filter(|name| wanted(name)) {
            let length = rustix::fs::fgetxattr(from, name, &mut self.value[..])?;
            let value = self.value.get(..length).unwrap_or_default();
            settle(name, rustix::fs::fsetxattr(to, name, value, XattrFlags::empty()))?;
        }
        rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode))?;
        rustix::fs::futimens(to, &times(&stat))
    }

    /// For what cannot be opened, by its name in two directories. Nobody but us has a way into the
    /// one that is written to.
    pub(super) fn copy_named(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
    ) -> Result<(), Errno> {
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        let (uid, gid) = owner(stat);
        rustix::fs::chownat(to, name, uid, gid, nofollow)?;
        let (source, target) = (path(from, name), path(to, name));
        let length = without_any(rustix::fs::llistxattr(source.as_slice(), &mut self.names[..]))?;
        for name in names(&self.names, length) {
            let length = rustix::fs::lgetxattr(source.as_slice(), name, &mut self.value[..])?;
            let value = self.value.get(..length).unwrap_or_default();
            settle(name, rustix::fs::lsetxattr(target.as_slice(), name, value, XattrFlags::empty()))?;
        }
        // The mode of a link means nothing and cannot be changed.
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Symlink {
            rustix::fs::chmodat(to, name, Mode::from_raw_mode(stat.st_mode), AtFlags::empty())?;
        }
        rustix::fs::utimensat(to, name, &times(stat), nofollow)
    }
}

fn without_any(length: Result<usize, Errno>) -> Result<usize, Errno> {
    match length {
        Err(Errno::OPNOTSUPP) => Ok(0),
        length => length,
    }
}

/// The attributes that belong to a file's state. What overlayfs notes for itself refers to the
/// original's place, and all else that is trusted was not set by the sandbox.
fn names(list: &[u8], length: usize) -> impl Iterator<Item = &CStr> {
    list.get(..length).unwrap_or_default().split_inclusive(|byte| *byte == 0).filter_map(|name| {
        let name = CStr::from_bytes_with_nul(name).ok()?;
        let bytes = name.to_bytes();
        let kept = bytes.starts_with(b"user.")
            || bytes.starts_with(b"security.")
            || bytes.starts_with(b"system.posix_acl_")
            || name == OPAQUE
            || name == REDIRECT;
        kept.then_some(name)
    })
}

/// Labels of the host's security modules may not be settable; what the sandbox set must be.
fn settle(name: &CStr, set: Result<(), Errno>) -> Result<(), Errno> {
    match set {
        Err(Errno::OPNOTSUPP | Errno::PERM)
            if name != CAPABILITY && name.to_bytes().starts_with(b"security.") =>
        {
            Ok(())
        }
        set => set,
    }
}

fn owner(stat: &Stat) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

fn times(stat: &Stat) -> Timestamps {
    let nanoseconds = |count: u64| i64::try_from(count).unwrap_or(0);
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: nanoseconds(stat.st_atime_nsec) },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds(stat.st_mtime_nsec) },
    }
}

/// The one way to name the attributes of a link or a pipe by its directory's descriptor.
fn path(directory: BorrowedFd<'_>, name: &CStr) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    path
}
