//! Whether a sandbox can be sealed: nothing but its agent runs, and the agent holds nothing of the root.

use std::fs;
use std::io;

use super::mounts::{MountId, Mounts};

/// Why it cannot be sealed now, for people; `None` if it can. Certain if the sandbox stands still, else a guess.
pub(super) fn look(agent: u32, processes: &[u32], mounts: &Mounts) -> io::Result<Option<String>> {
    match processes.iter().filter(|pid| **pid != agent).count() {
        0 => {}
        1 => return Ok(Some("a process runs in it".to_owned())),
        count => return Ok(Some(format!("{count} processes run in it"))),
    }
    for entry in fs::read_dir(format!("/proc/{agent}/task"))? {
        // The exchange of roots moves those whose working directory is the root itself.
        let directory = unless_gone(fs::read_link(entry?.path().join("cwd")))?;
        if directory.is_some_and(|directory| directory.as_os_str() != "/") {
            return Ok(Some("its agent works in a directory".to_owned()));
        }
    }
    for entry in fs::read_dir(format!("/proc/{agent}/fdinfo"))? {
        let Some(text) = unless_gone(fs::read_to_string(entry?.path()))? else { continue };
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

/// What is listed may be gone the next moment.
fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
