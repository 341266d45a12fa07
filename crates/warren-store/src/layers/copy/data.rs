use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use warren_core::{CopiedData, LayerDriver};

/// How much goes through memory at a time where the kernel cannot copy by itself.
const CHUNK: usize = 256 << 10;
/// One request to the kernel. Short enough that the process can be killed between two.
const MOST_AT_ONCE: u64 = 64 << 20;

/// Copies what is in files, in the cheapest way that the file systems allow. Holes stay holes.
pub(super) struct Data {
    /// Sharing has not been found impossible.
    share: bool,
    /// Copying within the kernel has not been found impossible.
    offload: bool,
    shared: u64,
    copied: u64,
    chunk: Vec<u8>,
}

impl Data {
    pub(super) fn new() -> Self {
        Self { share: true, offload: true, shared: 0, copied: 0, chunk: Vec::new() }
    }

    /// Where nothing had to be copied, a driver that shares has shared it.
    pub(super) fn verdict(&self, driver: LayerDriver) -> CopiedData {
        let shared = self.copied == 0 && (self.shared > 0 || driver != LayerDriver::Overlay);
        if shared { CopiedData::Shared } else { CopiedData::Bytes }
    }

    pub(super) fn copy(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        stat: &Stat,
    ) -> Result<(), Errno> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size == 0 {
            return Ok(());
        }
        if self.share {
            match rustix::fs::ioctl_ficlone(to, from) {
                Ok(()) => {
                    self.shared += 1;
                    return Ok(());
                }
                Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) => self.share = false,
                // Some files cannot, such as those whose data is not checksummed.
                Err(Errno::INVAL | Errno::PERM | Errno::TXTBSY) => {}
                Err(error) => return Err(error),
            }
        }
        self.ranges(from, to, size)
    }

    fn ranges(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        let mut position = 0;
        let mut reached = 0;
        while position < size {
            let start = match rustix::fs::seek(from, SeekFrom::Data(position)) {
                Ok(start) => start,
                // Nothing but a hole up to the end.
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error),
            };
            let end = rustix::fs::seek(from, SeekFrom::Hole(start))?.min(size);
            reached = self.range(from, to, start, end)?;
            position = end;
        }
        if reached == size { Ok(()) } else { rustix::fs::ftruncate(to, size) }
    }

    /// Says how far it came.
    fn range(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        start: u64,
        end: u64,
    ) -> Result<u64, Errno> {
        let mut position = start;
        while position < end {
            let length = if self.offload {
                match offload(from, to, position, (end - position).min(MOST_AT_ONCE)) {
                    Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                        self.offload = false;
                        continue;
                    }
                    Err(Errno::INTR) => continue,
                    length => length?,
                }
            } else {
                self.chunk(from, to, position, end - position)?
            };
            // Shorter than it was a moment ago. It is not ours to judge; the size is made good at
            // the end.
            if length == 0 {
                break;
            }
            position += length;
            self.copied += length;
        }
        Ok(position)
    }

    fn chunk(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        position: u64,
        most: u64,
    ) -> Result<u64, Errno> {
        self.chunk.resize(CHUNK, 0);
        let room = usize::try_from(most).unwrap_or(CHUNK).min(CHUNK);
        let room = self.chunk.get_mut(..room).unwrap_or_default();
        let length = rustix::io::retry_on_intr(|| rustix::io::pread(from, &mut *room, position))?;
        let mut written = 0;
        while let Some(rest) = room.get(written..length).filter(|rest| !rest.is_empty()) {
            let at = position + written as u64;
            written += rustix::io::retry_on_intr(|| rustix::io::pwrite(to, rest, at))?;
        }
        Ok(length as u64)
    }
}

fn offload(from: BorrowedFd<'_>, to: BorrowedFd<'_>, position: u64, most: u64) -> Result<u64, Errno> {
    let (mut read, mut write) = (position, position);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut write), most).map(|length| length as u64)
}

/// True if two files in a directory can share data.
pub(super) fn can_share(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let make = |name: &str| {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
    };
    can_share_between(make("original")?.as_fd(), make("copy")?.as_fd())
}

/// True if two empty files can share data. Writes to them.
pub(super) fn can_share_between(original: BorrowedFd<'_>, copy: BorrowedFd<'_>) -> Result<bool, Errno> {
    rustix::io::write(original, &[1; 4096])?;
    match rustix::fs::ioctl_ficlone(copy, original) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(error) => Err(error),
    }
}
