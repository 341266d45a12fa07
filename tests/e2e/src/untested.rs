use std::io::Write;
use std::sync::{Mutex, PoisonError};

static NOTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// See [`crate::not_tested`]. Written past the test runner's capture, because a reason that only shows on failure is a
/// check that silently passed.
pub fn note_untested(check: u32, reason: &str) {
    let line = format!("NOT TESTED check {check}: {reason}");
    drop(writeln!(std::io::stderr(), "{line}"));
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Every note of this process so far, in order of checks.
pub fn untested() -> Vec<String> {
    let mut lines = NOTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    lines.sort();
    lines
}
