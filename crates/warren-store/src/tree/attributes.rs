use std::os::fd::AsFd;

use rustix::fs::{Gid, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use super::EntryError;

const MAX_ID: u32 = 65_535;
const MAX_XATTR_NAME: usize = 255;
const MAX_XATTR_VALUE: usize = 64 << 10;

/// The owner, permissions and times of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: Option<Timespec>,
    /// `user.*` only, without those that overlayfs reads.
    pub(crate) xattrs: Vec<Xattr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Xattr {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Attributes {
    /// Owned by root, unchanged time.
    pub(crate) fn root(mode: u32) -> Self {
        Self { mode, uid: 0, gid: 0, modified: None, xattrs: Vec::new() }
    }

    pub(crate) fn of(stat: &Stat) -> Result<Self, EntryError> {
        Ok(Self {
            mode: stat.st_mode & 0o7777,
            uid: canonical_id(stat.st_uid.into())?,
            gid: canonical_id(stat.st_gid.into())?,
            modified: modified(stat),
            xattrs: Vec::new(),
        })
    }

    pub(crate) fn owner(&self) -> (Option<Uid>, Option<Gid>) {
        (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
    }

    /// The memory that its extended attributes take, about.
    pub(super) fn xattr_bytes(&self) -> usize {
        let each = |xattr: &Xattr| xattr.name.len() + xattr.value.len() + size_of::<Xattr>();
        self.xattrs.iter().map(each).sum()
    }

    pub(crate) fn times(&self) -> Timestamps {
        let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let modified = self.modified.unwrap_or(unchanged);
        Timestamps { last_access: modified, last_modification: modified }
    }

    /// Applies everything to an open file or directory. The owner comes first, because changing it
    /// clears the set-id bits.
    pub(crate) fn apply(&self, file: impl AsFd) -> Result<(), EntryError> {
        let file = file.as_fd();
        let (uid, gid) = self.owner();
        rustix::fs::fchown(file, uid, gid).map_err(EntryError::io("change the owner of"))?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))
            .map_err(EntryError::io("change the mode of"))?;
        for xattr in &self.xattrs {
            match rustix::fs::fsetxattr(file, xattr.name.as_slice(), &xattr.value, XattrFlags::empty()) {
                // The filesystem has none: the file is still whole.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(error) => return Err(EntryError::io("set an extended attribute of")(error)),
            }
        }
        rustix::fs::futimens(file, &self.times()).map_err(EntryError::io("set the times of"))
    }
}

impl Xattr {
    /// Keeps an attribute if it means nothing to the kernel: `security.*` and `trusted.*` grant
    /// rights, `system.*` holds access lists with host ids, and `user.overlay.*` redirects lookups.
    pub(crate) fn keep(name: &[u8], value: &[u8]) -> Result<Option<Self>, EntryError> {
        if !name.starts_with(b"user.") || name.starts_with(b"user.overlay.") {
            return Ok(None);
        }
        if name.len() > MAX_XATTR_NAME || value.len() > MAX_XATTR_VALUE || name.contains(&0) {
            return Err(EntryError::Xattr);
        }
        Ok(Some(Self { name: name.to_owned(), value: value.to_owned() }))
    }
}

/// Ids on disk are those seen inside, and a sandbox has 65 536 of them.
pub(crate) fn canonical_id(id: u64) -> Result<u32, EntryError> {
    u32::try_from(id).ok().filter(|id| *id <= MAX_ID).ok_or(EntryError::Id { id })
}

pub(crate) fn modified(stat: &Stat) -> Option<Timespec> {
    Some(Timespec { tv_sec: stat.st_mtime, tv_nsec: i64::try_from(stat.st_mtime_nsec).ok()? })
}
