//! Paths as a call names them.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use warren_wire::guest::{ByteString, Failure, FailureCode};

use super::entry::file_type;
use super::failure::{denied, invalid};
use super::rights::NewOwner;

/// The longest path the kernel takes, without the final NUL.
const PATH_BYTES: usize = 4095;

/// Links followed before they count as a loop, as in the kernel.
const LINKS: usize = 40;

/// Permission bits of directories made on the way.
pub(super) const DIRECTORY_PERMISSIONS: u32 = 0o755;

/// An absolute path, free of NUL and short enough for the kernel.
#[derive(Debug, Clone)]
pub(super) struct Place {
    path: PathBuf,
}

impl Place {
    /// A relative path starts at `home`.
    pub(super) fn new(path: ByteString, home: &Path) -> Result<Self, Failure> {
        let bytes = path.as_bytes();
        if bytes.is_empty() {
            return Err(invalid("use path ``: it is empty"));
        }
        if bytes.contains(&0) {
            return Err(invalid(format!(
                "use path `{}`: it contains a NUL byte",
                path.to_text().escape_debug()
            )));
        }
        let absolute = home.join(path.as_path());
        if absolute.as_os_str().len() > PATH_BYTES {
            return Err(invalid(format!("use a path of {} bytes: the most is {PATH_BYTES}", bytes.len())));
        }
        Ok(Self { path: absolute })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path as entries below it start with: no doubled and no final slash.
    pub(super) fn tidy(&self) -> PathBuf {
        self.path.components().collect()
    }

    /// A path that can only be a directory's: it ends in `/`, `.` or `..`.
    pub(super) fn is_directory_name(&self) -> bool {
        let bytes = self.path.as_os_str().as_bytes();
        bytes.ends_with(b"/") || bytes.ends_with(b"/.") || self.path.file_name().is_none()
    }

    /// The directory and the name in it; `None` for the root and for a path that ends in `..`.
    pub(super) fn split(&self) -> Option<(&Path, &OsStr)> {
        Some((self.path.parent()?, self.path.file_name()?))
    }

    /// Follows a final symbolic link to the path it stands for, which need not exist.
    pub(super) fn follow(self) -> Result<Self, Errno> {
        let mut path = self.path;
        for _ in 0..LINKS {
            match rustix::fs::lstat(&path) {
                Ok(stat) if file_type(&stat) == FileType::Symlink => {}
                Ok(_) | Err(Errno::NOENT) => return Ok(Self { path }),
                Err(errno) => return Err(errno),
            }
            let target = rustix::fs::readlink(&path, Vec::new())?;
            path = path.parent().unwrap_or_else(|| Path::new("/")).join(OsStr::from_bytes(target.to_bytes()));
        }
        Err(Errno::LOOP)
    }

    /// Opens the directory for reading, through a final link if it is one.
    pub(super) fn open_directory(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(&self.path, flags, Mode::empty())
    }
}

/// Opens a directory only to work in it, which takes no right to read it.
pub(super) fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// As `mkdir -p`, component by component so that links and `..` mean what they mean to the kernel.
/// The permissions are those of the last directory, if it is made. All that are made are the
/// new_owner's.
pub(super) fn make_directories(
    path: &Path,
    permissions: u32,
    new_owner: Option<NewOwner>,
) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = open_path(Path::new("/"))?;
    let mut components = path.components().filter(|part| *part != Component::RootDir).peekable();
    while let Some(component) = components.next() {
        let name = component.as_os_str();
        let bits = if components.peek().is_none() { permissions } else { DIRECTORY_PERMISSIONS };
        directory = match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                match make_directory_at(&directory, name, bits, new_owner) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                rustix::fs::openat(&directory, name, flags, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok(())
}

/// Makes one directory with exactly these permission bits, whatever the process's mask.
pub(super) fn make_directory_at(
    directory: &OwnedFd,
    name: &OsStr,
    permissions: u32,
    new_owner: Option<NewOwner>,
) -> Result<(), Errno> {
    rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(permissions))?;
    give_at(directory, name, new_owner)?;
    let made = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    // The set-group-id bit of the parent is inherited and stays.
    let wanted = permissions | (made.st_mode & 0o2000);
    if made.st_mode & 0o7777 == wanted {
        return Ok(());
    }
    rustix::fs::chmodat(directory, name, Mode::from_raw_mode(wanted), AtFlags::empty())
}

/// Gives what was just made to the new_owner, if there is one. A link that took its place meanwhile
/// is given itself.
pub(super) fn give_at(
    directory: impl AsFd,
    name: impl Arg,
    new_owner: Option<NewOwner>,
) -> Result<(), Errno> {
    let Some(NewOwner { uid, gid }) = new_owner else { return Ok(()) };
    rustix::fs::chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

/// Permission bits as a call gives them.
pub(super) fn check_permissions(action: &str, place: &Place, permissions: u32) -> Result<u32, Failure> {
    if permissions & !0o7777 == 0 {
        return Ok(permissions);
    }
    let reason = format!("{permissions:o} is not a set of permission bits");
    Err(denied(FailureCode::Invalid, action, place.path(), &reason))
}
