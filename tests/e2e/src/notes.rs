use std::io::Write;
use std::sync::{Mutex, PoisonError};

static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// See [`crate::not_tested`] and [`crate::known_gap`]. Written past the test runner's capture,
/// because a note that only shows on failure is a check that silently passed.
pub fn note(kind: &str, check: u32, text: &str) {
    let line = format!("{kind} check {check:02}: {text}");
    drop(writeln!(std::io::stderr(), "{line}"));
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Every note of this process so far, in order of kind and check.
pub fn notes() -> Vec<String> {
    let mut lines = NOTES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    lines.sort();
    lines
}
