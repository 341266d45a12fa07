//! Numbers that belong to one sandbox each: host id ranges, and quota projects.
//!
//! A claim is a symbolic link `<directory>/<number>` whose text is the backend's place and the
//! sandbox's id. Any process makes it in one system call, and it is released when the sandbox no
//! longer uses the number. While a sandbox moves between backends, both have claims for its id, and
//! each releases only its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use warren_core::SandboxId;

use super::starter::Place;

/// One kind of number.
#[derive(Debug)]
pub(super) struct Kind {
    plural: &'static str,
    first: u32,
    step: u32,
    count: u32,
}

/// 65 536 ids for each sandbox. Common distributions do not use the ids 0x7000_0000 to 0x7fff_ffff.
const ID_RANGES: Kind = Kind { plural: "id ranges", first: 0x7000_0000, step: 65_536, count: 4_095 };

/// A number for each sandbox that has files under a project quota, alive or not.
const PROJECTS: Kind = Kind { plural: "quota projects", first: 0x6000_0000, step: 1, count: 0x0fff_ffff };

/// The claims of one data directory to one kind of number.
#[derive(Debug)]
pub(super) struct Claims {
    directory: PathBuf,
    /// The place of the backend below the data directory: empty for `native`, whose claims are
    /// plain ids.
    place: PathBuf,
    kind: Kind,
}

/// A claim could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error("all {count} {plural} are in use: destroy sandboxes that are no longer needed")]
    Exhausted { count: u32, plural: &'static str },
    #[error("claim a number in `{}`", path.display())]
    Claim { path: PathBuf, source: io::Error },
    #[error("draw a number")]
    Draw(#[source] io::Error),
}

impl Claims {
    /// The claims of the backend that has this place.
    pub(super) fn id_ranges(directory: PathBuf, place: &Place) -> Self {
        Self { directory, place: place.path(), kind: ID_RANGES }
    }

    pub(super) fn projects(directory: PathBuf, place: &Place) -> Self {
        Self { directory, place: place.path(), kind: PROJECTS }
    }

    /// Claims a number that is free; for a range, its first id.
    pub(super) fn claim(&self, id: &SandboxId) -> Result<u32, ClaimError> {
        let start = getrandom::u32().map_err(|error| ClaimError::Draw(io::Error::other(error)))?;
        self.claim_from(id, start)
    }

    fn claim_from(&self, id: &SandboxId, start: u32) -> Result<u32, ClaimError> {
        let Kind { plural, first, step, count } = self.kind;
        for offset in 0..count {
            let number = (start.wrapping_add(offset)) % count;
            let path = self.directory.join(number.to_string());
            match std::os::unix::fs::symlink(self.text(id), &path) {
                Ok(()) => return Ok(first + number * step),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(ClaimError::Claim { path, source }),
            }
        }
        Err(ClaimError::Exhausted { count, plural })
    }

    /// Releases a sandbox's number. It is looked up if it is not known.
    pub(super) fn release(&self, number: Option<u32>, owner: &SandboxId) {
        let number = number.map(|number| number.saturating_sub(self.kind.first) / self.kind.step);
        let named = number.map(|number| self.directory.join(number.to_string()));
        let path = named.filter(|path| self.is_claimed_by(path, owner)).or_else(|| self.find(owner));
        if let Some(path) = path {
            drop(fs::remove_file(path));
        }
    }

    fn find(&self, owner: &SandboxId) -> Option<PathBuf> {
        let entries = fs::read_dir(&self.directory).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| self.is_claimed_by(path, owner))
    }

    fn is_claimed_by(&self, path: &Path, owner: &SandboxId) -> bool {
        fs::read_link(path).is_ok_and(|claimant| claimant == self.text(owner))
    }

    fn text(&self, owner: &SandboxId) -> PathBuf {
        self.place.join(owner.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u32 = ID_RANGES.first;
    const SIZE: u32 = ID_RANGES.step;
    const COUNT: u32 = ID_RANGES.count;

    /// The place of `native`.
    const HERE: Place = Place { below: &[], shared: None, elsewhere: false };

    fn id(byte: u8) -> SandboxId {
        SandboxId::from_random([byte; 16])
    }

    #[test]
    fn a_sandbox_that_moves_keeps_what_its_new_backend_claimed() {
        let directory = tempfile::tempdir().unwrap();
        let native = Claims::id_ranges(directory.path().to_owned(), &HERE);
        let there = Place { below: &["oci", "crun"], ..HERE };
        let crun = Claims::id_ranges(directory.path().to_owned(), &there);
        let link = |number: u32| fs::read_link(directory.path().join(number.to_string()));
        native.claim_from(&id(1), 1).unwrap();
        assert_eq!(link(1).unwrap(), Path::new(id(1).as_str()), "as it has always been");
        native.release(Some(FIRST + SIZE), &id(1));
        crun.claim_from(&id(1), 1).unwrap();
        for stale in [Some(FIRST + SIZE), Some(FIRST + 2 * SIZE), None] {
            native.release(stale, &id(1));
        }
        assert_eq!(link(1).unwrap(), Path::new("oci/crun").join(id(1).as_str()));
        native.claim_from(&id(1), 1).unwrap();
        crun.release(None, &id(1));
        assert!(link(1).is_err() && link(2).is_ok());
    }

    #[test]
    fn two_claims_never_share_a_range() {
        let directory = tempfile::tempdir().unwrap();
        let ranges = Claims::id_ranges(directory.path().to_owned(), &HERE);
        let first = ranges.claim_from(&id(1), 7).unwrap();
        let second = ranges.claim_from(&id(2), 7).unwrap();
        assert_eq!((first, second), (FIRST + 7 * SIZE, FIRST + 8 * SIZE));
        ranges.release(Some(first), &id(2));
        let third = ranges.claim_from(&id(3), 7).unwrap();
        assert_eq!(third, second, "a wrong number does not free another's range");
        ranges.release(None, &id(1));
        assert_eq!(ranges.claim_from(&id(4), 7).unwrap(), first);
    }

    #[test]
    fn the_last_range_is_followed_by_the_first_and_then_by_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let ranges = Claims::id_ranges(directory.path().to_owned(), &HERE);
        let starts = [COUNT - 1].into_iter().chain(COUNT - 1..2 * COUNT - 2);
        let bases: Vec<u32> = starts.map(|start| ranges.claim_from(&id(1), start).unwrap()).collect();
        assert_eq!((bases[1], bases.len()), (FIRST, COUNT as usize));
        assert!(bases.iter().all(|base| base.checked_add(SIZE).is_some()));
        assert!(matches!(ranges.claim(&id(2)), Err(ClaimError::Exhausted { .. })));
    }

    #[test]
    fn no_sandbox_is_given_the_id_of_the_stranger() {
        let ranges = FIRST..FIRST + COUNT * SIZE;
        assert!(!ranges.contains(&warren_wire::guest::STRANGER));
    }

    #[test]
    fn the_last_project_is_below_the_first_id() {
        const { assert!(PROJECTS.first + (PROJECTS.count - 1) * PROJECTS.step < ID_RANGES.first) };
        let directory = tempfile::tempdir().unwrap();
        let projects = Claims::projects(directory.path().to_owned(), &HERE);
        let number = projects.claim(&id(1)).unwrap();
        projects.release(Some(number), &id(1));
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }
}
