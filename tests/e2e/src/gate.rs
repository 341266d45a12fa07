use std::fs::File;
use std::path::Path;

/// The tests that may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alongside {
    /// Any other test.
    Others,
    /// No other test: this one measures the machine, or changes a setting of it.
    Nobody,
}

/// Passes the gate: a lock on the directory where all tests of the machine work, because a test
/// runner may start a process for each test. It opens when the file is closed, however the test
/// ends.
pub(crate) fn pass(place: &Path, alongside: Alongside) -> File {
    let gate = File::open(place).expect("the directory for tests can be opened");
    let locked = match alongside {
        Alongside::Others => gate.lock_shared(),
        Alongside::Nobody => gate.lock(),
    };
    locked.expect("the directory for tests can be locked");
    gate
}
