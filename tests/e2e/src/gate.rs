use std::fs::File;
use std::path::Path;

/// Who else may run meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// Any other test.
    Others,
    /// No other test: this one measures the machine, or changes a setting of it.
    Nobody,
}

/// Passes the gate: a lock on the directory where all tests of the machine work, because a test runner may start a
/// process for each test. It opens when the file is closed, however the test ends.
pub(crate) fn pass(place: &Path, company: Company) -> File {
    let gate = File::open(place).expect("the directory for tests can be opened");
    let locked = match company {
        Company::Others => gate.lock_shared(),
        Company::Nobody => gate.lock(),
    };
    locked.expect("the directory for tests can be locked");
    gate
}
