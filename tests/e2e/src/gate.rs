use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

/// Who else may run meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// Any other test.
    Others,
    /// No other test: this one measures the machine, or changes a setting of it.
    Nobody,
}

/// Passes the gate. A lock on a file, because a test runner may start a process for each test; it opens when the file
/// is closed, however the test ends.
pub(crate) fn pass(company: Company) -> File {
    let path = std::env::temp_dir().join("warren-e2e.lock");
    let gate = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .expect("the lock file can be made");
    match company {
        Company::Others => gate.lock_shared(),
        Company::Nobody => gate.lock(),
    }
    .expect("the lock file can be locked");
    gate
}
