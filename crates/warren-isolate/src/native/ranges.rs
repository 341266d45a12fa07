//! Host id ranges: 65 536 ids for each sandbox, never shared by two that live.
//!
//! A claim is a symbolic link `ranges/<number>` whose text is the sandbox's id: made in one system call, by any process,
//! and released only when the sandbox is verifiably gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use warren_core::SandboxId;

/// Ids 0x7000_0000 to 0x7fff_ffff are used by nothing else on common distributions.
const FIRST_BASE: u32 = 0x7000_0000;
const SIZE: u32 = 65_536;
const COUNT: u32 = 4_095;

/// The claims of one data directory.
#[derive(Debug)]
pub(super) struct Ranges {
    directory: PathBuf,
}

/// A claim could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum RangeError {
    #[error("all {COUNT} id ranges are in use: destroy sandboxes that are no longer needed")]
    Exhausted,
    #[error("claim an id range in `{}`", path.display())]
    Claim { path: PathBuf, source: io::Error },
}

impl Ranges {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Claims a free range, looking from `start` on, and answers its first id.
    pub(super) fn claim(&self, id: &SandboxId, start: u32) -> Result<u32, RangeError> {
        for step in 0..COUNT {
            let number = (start.wrapping_add(step)) % COUNT;
            let path = self.directory.join(number.to_string());
            match std::os::unix::fs::symlink(id.as_str(), &path) {
                Ok(()) => return Ok(FIRST_BASE + number * SIZE),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(RangeError::Claim { path, source }),
            }
        }
        Err(RangeError::Exhausted)
    }

    /// Gives a sandbox's range back. Its first id is looked up if it is not known.
    pub(super) fn release(&self, base: Option<u32>, owner: &str) {
        let number = base.map(|base| base.saturating_sub(FIRST_BASE) / SIZE);
        let named = number.map(|number| self.directory.join(number.to_string()));
        let path = named.filter(|path| claimant(path).as_deref() == Some(owner)).or_else(|| self.find(owner));
        if let Some(path) = path {
            drop(fs::remove_file(path));
        }
    }

    fn find(&self, owner: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(&self.directory).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| claimant(path).as_deref() == Some(owner))
    }
}

fn claimant(path: &Path) -> Option<String> {
    fs::read_link(path).ok()?.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> SandboxId {
        SandboxId::from_random([byte; 16])
    }

    #[test]
    fn two_claims_never_share_a_range() {
        let directory = tempfile::tempdir().unwrap();
        let ranges = Ranges::new(directory.path().to_owned());
        let first = ranges.claim(&id(1), 7).unwrap();
        let second = ranges.claim(&id(2), 7).unwrap();
        assert_eq!((first, second), (FIRST_BASE + 7 * SIZE, FIRST_BASE + 8 * SIZE));
        ranges.release(Some(first), id(2).as_str());
        assert_eq!(ranges.claim(&id(3), 7).unwrap(), second, "a wrong number does not free another's range");
        ranges.release(None, id(1).as_str());
        assert_eq!(ranges.claim(&id(4), 7).unwrap(), first);
    }

    #[test]
    fn the_last_range_is_followed_by_the_first_and_then_by_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let ranges = Ranges::new(directory.path().to_owned());
        let bases: Vec<u32> = (0..COUNT).map(|_| ranges.claim(&id(1), COUNT - 1).unwrap()).collect();
        assert_eq!(bases[1], FIRST_BASE);
        assert!(bases.iter().all(|base| base.checked_add(SIZE).is_some()));
        assert!(matches!(ranges.claim(&id(2), 0), Err(RangeError::Exhausted)));
    }
}
