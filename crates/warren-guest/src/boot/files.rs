//! Opening and making things in a tree that a tenant wrote, without ever leaving it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How often a path is asked for that the kernel gives up on.
const RESOLVE_ATTEMPTS: usize = 256;

/// Writes a file that is there, in a file system of the kernel's.
pub(super) fn write(directory: impl AsFd, path: &str, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::openat(directory, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(drop)
}

/// Opens a directory of the system's own at the top of the root (`/proc`, `/dev`, …). Whatever else
/// the image put there, link or file, is replaced by an empty directory.
pub(super) fn system_directory(root: impl AsFd, name: &str) -> Result<OwnedFd, Errno> {
    let root = root.as_fd();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..2 {
        match rustix::fs::openat(root, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR | Errno::LOOP) => rustix::fs::unlinkat(root, name, AtFlags::empty())?,
            answer => return answer,
        }
        rustix::fs::mkdirat(root, name, Mode::from_raw_mode(0o755))?;
    }
    Err(Errno::NOTDIR)
}

/// Opens a mount point anywhere in the root, making what is missing. Links are followed, but as the
/// sandbox would: confined to its root.
pub(super) fn mount_point(root: impl AsFd, path: &str, directory: bool) -> Result<OwnedFd, Errno> {
    let root = root.as_fd();
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let mut here = open_in_root(root, ".", OFlags::DIRECTORY)?;
    for (index, name) in names.iter().enumerate() {
        let so_far = names[..=index].join("/");
        let is_directory = directory || index + 1 < names.len();
        let wanted = if is_directory { OFlags::DIRECTORY } else { OFlags::empty() };
        let found = match open_in_root(root, &so_far, wanted) {
            Err(Errno::NOENT) => {
                make(&here, name, is_directory)?;
                open_in_root(root, &so_far, wanted)
            }
            answer => answer,
        };
        here = found?;
    }
    Ok(here)
}

fn make(parent: impl AsFd, name: &str, directory: bool) -> Result<(), Errno> {
    if directory {
        return rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
}

/// The kernel gives up on a path with `..` in it, in a link of a template, whenever something is
/// renamed or mounted elsewhere on the machine meanwhile; it wants to be asked again.
fn open_in_root(root: impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mut attempt = 0;
    loop {
        match rustix::fs::openat2(root.as_fd(), path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if attempt < RESOLVE_ATTEMPTS => attempt += 1,
            result => return result,
        }
    }
}

/// True if the path exists below `directory`. The caller made it up, and no tenant can influence
/// it.
pub(super) fn exists(directory: impl AsFd, path: &str) -> bool {
    rustix::fs::statat(directory, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Leaves for the new root, which the current directory must be by now.
pub(super) fn root_is_sound() -> Result<bool, Errno> {
    let here = rustix::fs::stat(".")?;
    let root = rustix::fs::statat(CWD, "/", AtFlags::empty())?;
    let above = rustix::fs::stat("..")?;
    Ok((here.st_dev, here.st_ino) == (root.st_dev, root.st_ino) && here.st_ino == above.st_ino)
}
