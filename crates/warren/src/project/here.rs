//! The side of this machine.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::plan::Side;
use super::rules::Rules;
use super::{Known, Stamp, is_safe_link};
use crate::error::CliError;

/// The depth of directories that are looked into.
const DEEPEST: usize = 64;

/// Looks at a directory. Links are never followed.
pub(super) struct Look<'a> {
    pub(super) top: &'a Path,
    pub(super) rules: &'a mut Rules,
    pub(super) side: Side,
    pub(super) left_out: BTreeSet<String>,
}

impl Look<'_> {
    pub(super) fn all(&mut self) -> Result<(), CliError> {
        self.directory(&PathBuf::new(), 0)
    }

    fn directory(&mut self, below: &Path, depth: usize) -> Result<(), CliError> {
        let directory = self.top.join(below);
        if depth > DEEPEST {
            return Err(CliError::new(format!(
                "{} is deeper than {DEEPEST} directories",
                directory.display()
            )));
        }
        for entry in fs::read_dir(&directory).map_err(|error| CliError::at(&directory, error))? {
            let entry = entry.map_err(|error| CliError::at(&directory, error))?;
            self.entry(&entry, below, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &DirEntry, below: &Path, depth: usize) -> Result<(), CliError> {
        if abandoned(entry) {
            drop(fs::remove_file(entry.path()));
            return Ok(());
        }
        let path = below.join(entry.file_name());
        let Some(name) = path.to_str().map(str::to_owned) else {
            self.left_out.insert(path.to_string_lossy().into_owned());
            return Ok(());
        };
        let about = match fs::symlink_metadata(entry.path()) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(CliError::at(&entry.path(), error)),
        };
        if self.rules.leave_out(&name, about.is_dir(), |_| Ok(None))? {
            return Ok(());
        }
        if about.is_dir() {
            return self.directory(&path, depth + 1);
        }
        match stamp(&entry.path(), &name, &about) {
            Some(stamp) => drop(self.side.insert(name, stamp)),
            None => drop(self.left_out.insert(name)),
        }
        Ok(())
    }
}

/// Tells whether this is half a file of a copy that was killed.
fn abandoned(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let owner = name.to_str().and_then(|name| name.strip_prefix(".warren-cp-")?.parse::<u32>().ok());
    owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// The stamp of a file or a link; `None` for anything that is not carried.
pub(super) fn stamp(path: &Path, name: &str, about: &Metadata) -> Option<Stamp> {
    let changed = about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
    if about.is_symlink() {
        let target = fs::read_link(path).ok()?.to_str()?.to_owned();
        let link = is_safe_link(name, &target).then_some(target)?;
        return Some(Stamp { size: 0, changed: 0, executable: false, link: Some(link) });
    }
    let executable = about.mode() & 0o100 != 0;
    about.is_file().then_some(Stamp { size: about.len(), changed, executable, link: None })
}

/// The present stamp of a path.
pub(super) fn look(top: &Path, name: &str) -> Option<Stamp> {
    let path = top.join(name);
    stamp(&path, name, &fs::symlink_metadata(&path).ok()?)
}

/// Opens a file that is no link.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

/// The digest of a file or link as it is now.
pub(super) fn digest(top: &Path, name: &str, stamp: &Stamp) -> io::Result<String> {
    if let Some(target) = &stamp.link {
        return Ok(digest_of_link(target));
    }
    let mut hashing = Hashing::new(open(&top.join(name))?);
    io::copy(&mut hashing, &mut io::sink())?;
    Ok(hashing.digest())
}

pub(super) fn digest_of_link(target: &str) -> String {
    format!("link:{target}")
}

/// Takes files for the same that were only touched.
pub(super) fn settle(
    top: &Path,
    known: &mut std::collections::BTreeMap<String, Known>,
    side: &Side,
) -> Result<(), CliError> {
    for (name, now) in side {
        let Some(known) = known.get_mut(name).filter(|known| known.here != *now) else { continue };
        if known.here.executable == now.executable
            && known.here.size == now.size
            && digest(top, name, now).map_err(|error| CliError::at(&top.join(name), error))? == known.digest
        {
            known.here = now.clone();
        }
    }
    Ok(())
}

/// Computes the digest of what is read.
pub(super) struct Hashing<R> {
    content: R,
    hash: Sha256,
}

impl<R> Hashing<R> {
    pub(super) fn new(content: R) -> Self {
        Self { content, hash: Sha256::new() }
    }

    pub(super) fn digest(self) -> String {
        self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
