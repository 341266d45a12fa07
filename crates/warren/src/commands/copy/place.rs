//! Puts files of a sandbox on this machine.
//!
//! The sandbox chose the names, and somebody else may have put links where they lead. So a
//! directory is opened once, every name below it is looked up by itself in the directory above it,
//! and no link is followed: one that is in the way is replaced. A file is written beside its place
//! and takes it when it is whole, so that neither a symbolic nor a hard link carries what is
//! written elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// A directory of this machine.
#[derive(Debug)]
pub(super) struct Place {
    directory: OwnedFd,
}

impl Place {
    /// Opens the directory that the user named, links and all.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        Ok(Self { directory: rustix::fs::openat(CWD, directory, flags() - OFlags::NOFOLLOW, Mode::empty())? })
    }

    /// A directory below this one, made if it is missing.
    pub(super) fn below(&self, name: &Path) -> io::Result<Self> {
        let mut here = self.directory.try_clone()?;
        for part in name.components() {
            here = step(&here, plain(part)?)?;
        }
        Ok(Self { directory: here })
    }

    /// Puts a file here, with the nine permission bits of its mode.
    pub(super) fn put(&self, name: &Path, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        let (above, name) = (name.parent().unwrap_or_else(|| Path::new("")), name.components().next_back());
        let name = plain(name.ok_or(io::ErrorKind::InvalidInput)?)?;
        let place = self.below(above)?;
        place.may_replace(name)?;
        let mut part = OsStr::new(".").to_os_string();
        part.push(format!("warren-cp-{}", std::process::id()));
        let written = place
            .fill(&part, mode, content)
            .and_then(|()| Ok(rustix::fs::renameat(&place.directory, &part, &place.directory, name)?));
        if written.is_err() {
            rustix::fs::unlinkat(&place.directory, &part, AtFlags::empty()).ok();
        }
        written
    }

    fn fill(&self, part: &OsStr, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || rustix::fs::openat(&self.directory, part, flags, Mode::from_raw_mode(mode & 0o777));
        let file = match create() {
            // A copy that was killed left it.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&self.directory, part, AtFlags::empty())?;
                create()?
            }
            file => file?,
        };
        let mut file = File::from(file);
        io::copy(content, &mut file)?;
        file.flush()
    }

    /// Refuses to replace anything but a file or a link.
    fn may_replace(&self, name: &OsStr) -> io::Result<()> {
        match kind(&self.directory, name) {
            Err(Errno::NOENT) => Ok(()),
            Ok(FileType::RegularFile | FileType::Symlink) => Ok(()),
            Ok(FileType::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => Err(io::Error::other("what is there is neither a file nor a link, and stays")),
            Err(error) => Err(error.into()),
        }
    }
}

fn flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Goes one name down.
fn step(above: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let open = || rustix::fs::openat(above, name, flags(), Mode::empty());
    match open() {
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR | Errno::LOOP) if kind(above, name)? == FileType::Symlink => {
            rustix::fs::unlinkat(above, name, AtFlags::empty())?;
        }
        opened => return Ok(opened?),
    }
    match rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(open()?),
        Err(error) => Err(error.into()),
    }
}

fn kind(directory: &OwnedFd, name: &OsStr) -> Result<FileType, Errno> {
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

fn plain(part: Component<'_>) -> io::Result<&OsStr> {
    match part {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn put(place: &Place, name: &str, text: &str) -> io::Result<()> {
        place.put(Path::new(name), 0o6755, &mut text.as_bytes())
    }

    #[test]
    fn links_in_the_way_are_replaced_and_never_followed() {
        let (target, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = other.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        symlink(other.path(), target.path().join("dir")).unwrap();
        symlink(&victim, target.path().join("file")).unwrap();
        symlink(other.path().join("new"), target.path().join("dangling")).unwrap();
        fs::hard_link(&victim, target.path().join("hard")).unwrap();
        let place = Place::open(target.path()).unwrap();
        for name in ["dir/inner/file", "file", "dangling", "hard"] {
            put(&place, name, "new").unwrap();
            assert_eq!(fs::read_to_string(target.path().join(name)).unwrap(), "new", "{name}");
            assert!(fs::symlink_metadata(target.path().join(name)).unwrap().is_file(), "{name}");
        }
        place.below(Path::new("dir/made")).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1, "nothing was made elsewhere");
        let mode = fs::metadata(target.path().join("file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7000, 0, "{mode:o}");
    }

    #[test]
    fn names_lead_down_and_nowhere_else() {
        let target = tempfile::tempdir().unwrap();
        let place = Place::open(target.path()).unwrap();
        for name in ["..", "../x", "a/../../x", "/etc/x", "", "."] {
            assert!(put(&place, name, "x").is_err(), "{name}");
        }
        fs::create_dir(target.path().join("taken")).unwrap();
        assert!(put(&place, "taken", "x").is_err());
        fs::write(target.path().join("flat"), "").unwrap();
        assert!(put(&place, "flat/below", "x").is_err());
    }

    #[test]
    fn what_is_neither_file_nor_link_stays_and_half_a_file_does_not() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("cut"))
            }
        }
        let target = tempfile::tempdir().unwrap();
        let place = Place::open(target.path()).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(target.path().join("socket")).unwrap();
        assert!(put(&place, "socket", "x").is_err());
        put(&place, "file", "before").unwrap();
        let number = fs::metadata(target.path().join("file")).unwrap().ino();
        assert!(place.put(Path::new("file"), 0o644, &mut b"part".chain(Broken)).is_err());
        assert_eq!(fs::metadata(target.path().join("file")).unwrap().ino(), number);
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 2);
        drop(socket);
    }
}
