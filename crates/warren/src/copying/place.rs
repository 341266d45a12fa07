//! Puts files of a sandbox on this machine.
//!
//! The sandbox chose the names, and somebody else may have put links where they lead. So a
//! directory is opened once, every name below it is looked up by itself in the directory above it,
//! and no link is followed: one that is in the way is replaced. A file is written beside its place
//! and takes it when it is whole, so that neither a symbolic nor a hard link carries what is
//! written elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::interrupt::Unfinished;

/// A directory of this machine.
#[derive(Debug)]
pub(crate) struct Place {
    directory: OwnedFd,
}

impl Place {
    /// Opens the directory that the user named, links and all.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        Ok(Self { directory: rustix::fs::openat(CWD, directory, flags() - OFlags::NOFOLLOW, Mode::empty())? })
    }

    /// A directory below this one, made if it is missing.
    pub(crate) fn below(&self, name: &Path) -> io::Result<Self> {
        let mut here = self.directory.try_clone()?;
        for part in name.components() {
            here = step(&here, plain(part)?)?;
        }
        Ok(Self { directory: here })
    }

    /// Puts a file here, with the nine permission bits of its mode.
    pub(crate) fn put(&self, name: &Path, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        let (above, name) = (name.parent().unwrap_or_else(|| Path::new("")), name.components().next_back());
        let name = plain(name.ok_or(io::ErrorKind::InvalidInput)?)?;
        let place = self.below(above)?;
        place.may_replace(name)?;
        let part = part_name();
        let (here, named) = (place.directory.try_clone()?, part.clone());
        let undo = move || {
            rustix::fs::unlinkat(&here, &named, AtFlags::empty()).ok();
        };
        let (mut file, _unfinished) = Unfinished::begin(|| place.create(&part, mode), undo)?;
        let written = io::copy(content, &mut file)
            .and_then(|_| file.flush())
            .and_then(|()| Ok(rustix::fs::renameat(&place.directory, &part, &place.directory, name)?));
        if written.is_err() {
            rustix::fs::unlinkat(&place.directory, &part, AtFlags::empty()).ok();
        }
        written
    }

    /// Puts a symbolic link here.
    pub(crate) fn link(&self, name: &Path, target: &str) -> io::Result<()> {
        let (above, name) = (name.parent().unwrap_or_else(|| Path::new("")), name.components().next_back());
        let name = plain(name.ok_or(io::ErrorKind::InvalidInput)?)?;
        let place = self.below(above)?;
        place.may_replace(name)?;
        let part = part_name();
        let made = match rustix::fs::symlinkat(target, &place.directory, &part) {
            // A copy that was killed left it.
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&place.directory, &part, AtFlags::empty())?;
                rustix::fs::symlinkat(target, &place.directory, &part)
            }
            made => made,
        };
        Ok(made.and_then(|()| rustix::fs::renameat(&place.directory, &part, &place.directory, name))?)
    }

    /// Removes a file or a link, and the directories above it that it leaves empty.
    pub(crate) fn remove(&self, name: &Path) -> io::Result<()> {
        let mut above = vec![(self.directory.try_clone()?, name.components().next())];
        let mut parts = name.components().peekable();
        while let Some(part) = parts.next() {
            let Some((here, _)) = above.last() else { break };
            let name = plain(part)?;
            if parts.peek().is_some() {
                let below = match rustix::fs::openat(here, name, flags(), Mode::empty()) {
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                    below => below?,
                };
                above.push((below, parts.peek().copied()));
                continue;
            }
            match rustix::fs::unlinkat(here, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        above.pop();
        while let Some((directory, Some(part))) = above.pop() {
            // One that is not empty stays, and so does all above it.
            if rustix::fs::unlinkat(&directory, plain(part)?, AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn create(&self, part: &OsStr, mode: u32) -> io::Result<File> {
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
        Ok(File::from(file))
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

/// The name of a file that is not whole yet.
fn part_name() -> OsString {
    format!(".warren-cp-{}", std::process::id()).into()
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
    fn what_is_removed_takes_empty_directories_along_and_no_link_is_followed() {
        let (target, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = Place::open(target.path()).unwrap();
        put(&place, "a/b/c", "x").unwrap();
        put(&place, "a/kept", "x").unwrap();
        place.remove(Path::new("a/b/c")).unwrap();
        assert!(!target.path().join("a/b").exists() && target.path().join("a/kept").exists());
        fs::write(other.path().join("victim"), "kept").unwrap();
        symlink(other.path(), target.path().join("out")).unwrap();
        place.remove(Path::new("out/victim")).unwrap();
        assert!(other.path().join("victim").exists());
        place.remove(Path::new("a/none/x")).unwrap();
        assert!(place.remove(Path::new("../x")).is_err());
        place.link(Path::new("d/link"), "../a/kept").unwrap();
        place.link(Path::new("d/link"), "../a").unwrap();
        assert_eq!(fs::read_link(target.path().join("d/link")).unwrap(), Path::new("../a"));
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
