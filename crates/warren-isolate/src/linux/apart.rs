//! A mount table of this process's own.
//!
//! Where the host's mounts are shared (as systemd makes them), a mount on one of them appears in
//! every mount table of the machine. No mount for a sandbox may do that. So every mount made here
//! is private, and the process that makes them has a mount table of its own besides, which follows
//! the host's changes and passes none back.

use std::fs;
use std::io;

use rustix::mount::{MountPropagationFlags, mount_change};

use super::seal::sys;

/// The process could not be given a mount table of its own.
#[derive(Debug, thiserror::Error)]
pub enum ApartError {
    #[error("read this process's mount table")]
    Table(#[source] io::Error),
    #[error("a mount table of its own is taken before the first thread, and there are {0}")]
    Threads(usize),
    #[error("leave the host's mount table, which needs root's rights")]
    Leave(#[source] io::Error),
    #[error("let mounts of this process reach nobody else")]
    Detach(#[source] io::Error),
}

/// Gives this process, which has one thread, a mount table of its own if it shares a mount with
/// others. Later mounts of the host appear here too. A mount that the host is to see must be made
/// before.
pub fn live_apart() -> Result<(), ApartError> {
    let table = fs::read("/proc/self/mountinfo").map_err(ApartError::Table)?;
    if !has_shared(&table) {
        // No mount could get out, and a separate table would miss later mounts of the host.
        return Ok(());
    }
    let threads = fs::read_dir("/proc/self/task").map_err(ApartError::Table)?.count();
    if threads != 1 {
        return Err(ApartError::Threads(threads));
    }
    sys::unshare_mounts().map_err(|errno| ApartError::Leave(errno.into()))?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|errno| ApartError::Detach(errno.into()))
}

/// True if any mount of the table is shared. Its tags are between six fields and a dash.
fn has_shared(table: &[u8]) -> bool {
    table.split(|byte| *byte == b'\n').any(|line| {
        let tags = line.split(|byte| *byte == b' ').skip(6).take_while(|field| *field != b"-");
        tags.into_iter().any(|tag| tag.starts_with(b"shared:"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tag_says_that_a_mount_is_shared() {
        assert!(has_shared(b"1 0 0:1 / / rw\n2 1 0:2 / /a rw master:3 shared:4 - tmpfs tmpfs rw\n"));
        for private in [
            "",
            "1 0 0:1 / / rw - tmpfs tmpfs rw",
            "1 0 0:1 / / rw master:2 - tmpfs tmpfs rw",
            "1 0 0:1 / /shared:1 rw - tmpfs shared:1 rw",
        ] {
            assert!(!has_shared(private.as_bytes()), "{private}");
        }
    }
}
