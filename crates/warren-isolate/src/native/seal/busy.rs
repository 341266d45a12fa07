//! Whether a sandbox can be sealed: nothing but its agent runs, and the agent holds nothing of the root.

use std::fs;
use std::io;

use super::mounts::{MountId, Mounts};

/// Says which processes are in the way, for people; `None` if none but the agent is there.
pub(super) fn processes(agent: u32, all: &[u32]) -> Option<String> {
    match all.iter().filter(|pid| **pid != agent).count() {
        0 => None,
        1 => Some("a process runs in it".to_owned()),
        count => Some(format!("{count} processes run in it")),
    }
}

/// Says what the agent holds, for people; `None` if nothing. The sandbox stands still while this looks.
pub(super) fn agent(agent: u32, mounts: &Mounts) -> io::Result<Option<String>> {
    for entry in fs::read_dir(format!("/proc/{agent}/task"))? {
        // The exchange of roots moves those whose working directory is the root itself.
        let directory = fs::read_link(entry?.path().join("cwd"))?;
        if directory.as_os_str() != "/" {
            return Ok(Some("its agent works in a directory".to_owned()));
        }
    }
    for entry in fs::read_dir(format!("/proc/{agent}/fdinfo"))? {
        let text = fs::read_to_string(entry?.path())?;
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
