//! The names of what is in a sandbox, as resources have them.

use std::fmt::Write as _;

use warren_core::SandboxId;

/// The beginning of every name.
const SCHEME: &str = "warren://";

/// A file of a sandbox, by its absolute path.
pub(crate) fn file(sandbox: &SandboxId, path: &str) -> String {
    let mut uri = format!("{SCHEME}{sandbox}/files");
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            byte => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

/// All that a process wrote, as far as it is kept.
pub(crate) fn output(sandbox: &SandboxId, process: u64) -> String {
    format!("{SCHEME}{sandbox}/output/{process}")
}
