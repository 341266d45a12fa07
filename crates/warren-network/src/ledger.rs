//! Which sandbox has which link, in a file: `<data>/networks/links` has a slot for every place,
//! with the link's number in the kernel and whose it is.
//!
//! The kernel keeps it too, in the link's description, but it has one lock for everything about
//! links and holds it for tens of milliseconds while it removes one. A slot is written at once.
//! Neither outlives the machine's next start, and neither has to. Processes share the file; their
//! slots are apart, since their blocks are.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use warren_core::SandboxId;

use crate::place::{NUMBERS, Place};

/// A number, a space, an id, the end of a line; then zeros.
const SLOT: usize = 64;

/// One data directory's.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
}

impl Ledger {
    /// In a directory that is there.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        Ok(Self { file: options.open(data_dir.join("networks/links"))? })
    }

    pub(crate) fn write(&self, place: Place, index: u32, id: &SandboxId) -> io::Result<()> {
        let mut slot = format!("{index} {id}\n").into_bytes();
        if slot.len() > SLOT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        slot.resize(SLOT, 0);
        self.file.write_all_at(&slot, offset(place))
    }

    /// The sandbox that has the link. An entry about an earlier link in the same place does not
    /// count.
    pub(crate) fn read(&self, place: Place, index: u32) -> Option<SandboxId> {
        let mut slot = [0; SLOT];
        self.file.read_exact_at(&mut slot, offset(place)).ok()?;
        let line = slot.split(|byte| *byte == b'\n').next().filter(|line| line.len() < SLOT)?;
        let (written, id) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        id.parse().ok().filter(|_| written.parse() == Ok(index))
    }

    /// Right for one that is not there.
    pub(crate) fn erase(&self, place: Place) {
        if let Err(error) = self.file.write_all_at(&[0; SLOT], offset(place)) {
            tracing::warn!(%error, link = %place, "the ledger of links cannot be written");
        }
    }
}

fn offset(place: Place) -> u64 {
    (u64::from(place.block) * u64::from(NUMBERS) + u64::from(place.number)) * SLOT as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_link_that_was_meant_is_anybodys() {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir(data.path().join("networks")).unwrap();
        let ledger = Ledger::open(data.path()).unwrap();
        let (place, other) = (Place { block: 1, number: 7 }, Place { block: 2, number: 7 });
        let id = SandboxId::from_random([3; 16]);
        assert_eq!(ledger.read(place, 0), None);
        ledger.write(place, 41, &id).unwrap();
        ledger.write(other, u32::MAX, &id).unwrap();
        let again = Ledger::open(data.path()).unwrap();
        assert_eq!((again.read(place, 41), again.read(place, 42)), (Some(id.clone()), None));
        again.erase(place);
        again.erase(place);
        assert_eq!((ledger.read(place, 41), ledger.read(other, u32::MAX)), (None, Some(id)));
    }
}
