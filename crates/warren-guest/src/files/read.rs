//! Describing and reading one file.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use warren_wire::guest::{CHUNK, Detail, Failure, FailureCode, FrameKind, HEADER_BYTES, Reply};

use super::Task;
use super::entry::{describe, elaborate, file_type, from_stat};
use super::failure::{Stop, denied, refused};
use super::place::Place;

pub(super) fn stat(
    task: &mut Task,
    place: &Place,
    follow: bool,
    detail: Option<&Detail>,
) -> Result<(), Stop> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let mut entry = describe(CWD, place.path(), (&place.tidy()).into(), flags, &mut task.names)
        .map_err(|errno| refused("stat", place.path(), errno))?;
    if let Some(detail) = detail {
        elaborate(&mut entry, CWD, place.path(), detail);
    }
    task.channel.reply(&Reply::Entry(entry))
}

pub(super) fn read(task: &mut Task, place: &Place, offset: u64, length: Option<u64>) -> Result<(), Stop> {
    let (file, stat) = open_regular("read", place, OFlags::RDONLY)?;
    let entry = from_stat(&stat, (&place.tidy()).into(), &mut task.names);
    task.channel.reply(&Reply::Entry(entry))?;

    let mut position = offset;
    let mut left = length.unwrap_or(u64::MAX);
    let mut frame = vec![0; HEADER_BYTES + CHUNK];
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let count = match rustix::io::pread(&file, &mut frame[HEADER_BYTES..HEADER_BYTES + wanted], position)
        {
            // A file of the kernel's that has nothing more to tell for now ends here, rather than
            // block.
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(refused("read", place.path(), errno).into()),
        };
        task.channel.send(FrameKind::Data, &mut frame[..HEADER_BYTES + count])?;
        position = position.saturating_add(count as u64);
        left -= count as u64;
    }
    task.channel.end()
}

/// Opens a regular file that exists. Anything else is refused before it is opened, since opening a
/// device acts on it, and again after, since it may have been exchanged in between.
pub(super) fn open_regular(action: &str, place: &Place, access: OFlags) -> Result<(OwnedFd, Stat), Failure> {
    let failed = |errno| refused(action, place.path(), errno);
    expect_regular(action, place, &rustix::fs::stat(place.path()).map_err(failed)?)?;
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(place.path(), flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    expect_regular(action, place, &stat)?;
    Ok((file, stat))
}

pub(super) fn expect_regular(action: &str, place: &Place, stat: &Stat) -> Result<(), Failure> {
    let found = match file_type(stat) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "it is a directory",
        FileType::Fifo => "it is a FIFO",
        FileType::Socket => "it is a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "it is a device",
        FileType::Symlink => "it is a symbolic link",
        FileType::Unknown => "it is not a regular file",
    };
    Err(denied(FailureCode::WrongKind, action, place.path(), found))
}
