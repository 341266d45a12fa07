//! The state of the machine's packages, so that `apt-get` and `dpkg` work inside.
//!
//! The programs are in `/usr`, and what they know of it is in `/var/lib` and `/etc/apt`. A sandbox
//! gets what everybody on the machine may read of that, without anything that logs in somewhere.
//! The database and the lists of packages have thousands of files, tens of megabytes: they are hard
//! links where that is possible, as package managers replace such files and never change them.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};

use super::HostError;
use super::copy::Copier;
use crate::tree::{self, Attributes, EntryError, TreePath, TreeWriter};

/// The user that `apt-get` becomes to fetch packages.
pub(super) const APT_USER: u32 = 42;

/// Exists where packages are Debian's.
const STATUS: &str = "var/lib/dpkg/status";

/// Paths that are copied as they are. No `auth.conf`, which holds passwords.
const COPIED: &[&str] = &[
    "etc/apt/apt.conf",
    "etc/apt/apt.conf.d",
    "etc/apt/keyrings",
    "etc/apt/preferences",
    "etc/apt/preferences.d",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d",
    "etc/apt/trusted.gpg",
    "etc/apt/trusted.gpg.d",
    STATUS,
    "var/lib/dpkg/alternatives",
    "var/lib/dpkg/arch",
    "var/lib/dpkg/diversions",
    "var/lib/dpkg/triggers",
    "var/lib/apt/extended_states",
];

/// Directories with many files, which are linked.
const LINKED: &[&str] = &["var/lib/dpkg/info", "var/lib/apt/lists"];

/// Directories that have to be there, with mode and owner.
const DIRECTORIES: &[(&str, u32, u32)] = &[
    ("etc/apt", 0o755, 0),
    ("var/cache/apt", 0o755, 0),
    ("var/cache/apt/archives", 0o755, 0),
    ("var/cache/apt/archives/partial", 0o700, APT_USER),
    ("var/cache/debconf", 0o755, 0),
    ("var/lib/apt", 0o755, 0),
    ("var/lib/apt/lists", 0o755, 0),
    ("var/lib/apt/lists/partial", 0o700, APT_USER),
    ("var/lib/dpkg", 0o755, 0),
    ("var/lib/dpkg/info", 0o755, 0),
    ("var/lib/dpkg/parts", 0o755, 0),
    ("var/lib/dpkg/updates", 0o755, 0),
    ("var/log/apt", 0o755, 0),
];

/// Overrides name users and groups of the machine, which a sandbox does not have.
const OVERRIDES: &str = "var/lib/dpkg/statoverride";

/// Says what to do where the machine has no such program.
const NO_APT: &str = "#!/bin/sh
echo \"${0##*/}: this template shows the /usr of a machine that is no Debian.\" >&2
echo 'Make the sandbox of a template of Debian: `warren template build --help` tells how.' >&2
exit 127
";

/// Where [`NO_APT`] goes.
const APT_PROGRAMS: [&str; 2] = ["opt/warren/bin/apt", "opt/warren/bin/apt-get"];

/// The paths that this depends on.
pub(super) fn watched() -> impl Iterator<Item = &'static str> {
    COPIED.iter().chain(LINKED).copied().chain(["usr/bin/apt-get"])
}

/// Writes the state, if the machine has one. `machine` is its root.
pub(super) fn write(machine: BorrowedFd<'_>, writer: &mut TreeWriter) -> Result<(), HostError> {
    let exists = |path: &str| rustix::fs::statat(machine, path, AtFlags::empty()).is_ok();
    if !exists("usr/bin/apt-get") {
        for path in APT_PROGRAMS {
            text(writer, path, NO_APT, &Attributes::root(0o755))?;
        }
    }
    if !exists(STATUS) {
        return Ok(());
    }
    for (path, mode, owner) in DIRECTORIES {
        let attributes = Attributes { uid: *owner, ..Attributes::root(*mode) };
        writer.directory(&parse(path)?, attributes).map_err(failed(path))?;
    }
    let mut copier = Copier::new(machine, writer);
    COPIED.iter().try_for_each(|path| copier.copy(path))?;
    for directory in LINKED {
        link_all(machine, directory, writer).map_err(failed(directory))?;
    }
    text(writer, OVERRIDES, "", &Attributes::root(0o644))
}

/// Links or copies the files of a directory that everybody may read.
fn link_all(machine: BorrowedFd<'_>, path: &str, writer: &mut TreeWriter) -> Result<(), EntryError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let Ok(directory) = rustix::fs::openat2(machine, path, flags, Mode::empty(), inside) else {
        return Ok(());
    };
    let place = TreePath::parse(path.as_bytes(), super::copy::MAX_DEPTH)?;
    for name in tree::names(&directory)? {
        let Ok(stat) = tree::stat(directory.as_fd(), &name) else { continue };
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_mode & 0o6004 != 0o004 || (stat.st_uid, stat.st_gid) != (0, 0) {
            continue;
        }
        let target = place.join(OsStr::from_bytes(name.as_bytes()));
        if !writer.link_from(&target, directory.as_fd(), &name)? {
            Copier::new(machine, writer).file(directory.as_fd(), &name, &target)?;
        }
    }
    Ok(())
}

fn parse(path: &str) -> Result<TreePath, HostError> {
    TreePath::parse(path.as_bytes(), super::copy::MAX_DEPTH).map_err(failed(path))
}

fn text(writer: &mut TreeWriter, path: &str, text: &str, attributes: &Attributes) -> Result<(), HostError> {
    writer.text_file(&parse(path)?, text, attributes).map_err(failed(path))
}

fn failed(path: &str) -> impl FnOnce(EntryError) -> HostError {
    let path = path.to_owned();
    move |source| HostError::Write { path, source }
}
