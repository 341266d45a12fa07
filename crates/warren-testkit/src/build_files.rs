use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};

use parking_lot::Mutex;
use warren_core::{BuildFiles, FilesHash, Owner};

/// Archives for builds, in memory. An archive that did not arrive whole does not exist.
#[derive(Debug, Default)]
pub struct FakeBuildFiles {
    kept: Mutex<BTreeMap<(Owner, FilesHash), Vec<u8>>>,
}

impl BuildFiles for FakeBuildFiles {
    fn has(&self, owner: &Owner, hash: &FilesHash) -> bool {
        let kept = self.kept.lock();
        kept.contains_key(&(owner.clone(), hash.clone()))
    }

    fn keep(&self, owner: &Owner, hash: &FilesHash, source: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes)?;
        let mut kept = self.kept.lock();
        kept.insert((owner.clone(), hash.clone()), bytes);
        Ok(())
    }

    fn open(&self, owner: &Owner, hash: &FilesHash) -> io::Result<Box<dyn Read + Send>> {
        let kept = self.kept.lock();
        let bytes = kept.get(&(owner.clone(), hash.clone())).cloned();
        Ok(Box::new(Cursor::new(bytes.ok_or(io::ErrorKind::NotFound)?)))
    }
}
