use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::groups;

/// A data directory for one test. Dropping it removes the directory and its control groups, but
/// ends no sandbox: use [`crate::Census::assert_clean`] to show that none is left.
#[derive(Debug)]
pub struct ScratchData {
    directory: TempDir,
}

impl ScratchData {
    /// Makes one on disk, not in `/tmp`, which is often a tmpfs: real sandboxes are on a disk too.
    pub fn new() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("warren-test-").tempdir_in("/var/tmp")?;
        Ok(Self { directory })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for ScratchData {
    fn drop(&mut self) {
        for group in groups::instance(self.path()).iter().flat_map(|word| groups::parents(word)) {
            // A group that still holds a sandbox stays, as evidence.
            drop(fs::remove_dir(group));
        }
    }
}
