//! Checks that a sandbox can be sealed: only its agent runs, and the agent has nothing open on the
//! root.

use std::fs;
use std::io;

use super::mounts::{MountId, Mounts, read_kernel_file};

/// Descriptors that stand for no file and watch none. A file's name begins with a slash.
const FILELESS: [&str; 3] = ["socket:[", "pipe:[", "anon_inode:["];

/// A text about the processes in the way; `None` if only the agent runs.
pub(super) fn processes(agent: u32, all: &[u32]) -> Option<String> {
    match all.iter().filter(|pid| **pid != agent).count() {
        0 => None,
        1 => Some("a process runs in it".to_owned()),
        count => Some(format!("{count} processes run in it")),
    }
}

/// A text about what the agent has open on the root; `None` if nothing. The sandbox is frozen
/// meanwhile.
pub(super) fn agent(agent: u32, mounts: &Mounts) -> io::Result<Option<String>> {
    for entry in fs::read_dir(format!("/proc/{agent}/task"))? {
        // The exchange of roots moves threads whose working directory is the root itself.
        let directory = fs::read_link(entry?.path().join("cwd"))?;
        if directory.as_os_str() != "/" {
            return Ok(Some("its agent works in a directory".to_owned()));
        }
    }
    for entry in fs::read_dir(format!("/proc/{agent}/fd"))? {
        let entry = entry?;
        let names = fs::read_link(entry.path())?;
        if names.to_str().is_some_and(|names| FILELESS.iter().any(|kind| names.starts_with(kind))) {
            continue;
        }
        let number = entry.file_name();
        let text = read_kernel_file(&format!("/proc/{agent}/fdinfo/{}", number.to_string_lossy()))?;
        let text = String::from_utf8_lossy(&text);
        if text.lines().any(|line| line.starts_with("inotify ")) {
            return Ok(Some("somebody watches its files".to_owned()));
        }
        let mount =
            text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse::<MountId>().ok());
        if mount.is_some_and(|mount| mounts.is_overlay(mount)) {
            return Ok(Some("a file of it is being read or written".to_owned()));
        }
    }
    Ok(None)
}
