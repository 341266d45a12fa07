//! The repository's files.

use std::fs;
use std::path::{Path, PathBuf};

/// Made by tools, and not checked.
const SKIPPED: [&str; 2] = ["target", "node_modules"];

pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("the crate is in `crates/`").to_owned()
}

/// Paths below the root, relative to it, of all files with one of these extensions.
pub(crate) fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    let mut waiting = vec![root.clone()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).expect("directories can be read").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|found| extensions.iter().any(|known| found == *known)) {
                found.push(path.strip_prefix(&root).expect("it is below").to_owned());
            }
        }
    }
    found.sort_unstable();
    assert!(!found.is_empty(), "no file with {extensions:?} below {}", root.display());
    found
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// Fails with one line for each complaint.
#[track_caller]
pub(crate) fn complain(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}
