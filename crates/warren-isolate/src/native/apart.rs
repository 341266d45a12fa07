//! A mount table of this process's own.
//!
//! Where the host's mounts are shared (as systemd makes them), what is attached to one of them appears in every mount table of
//! the machine. Nothing that is mounted for a sandbox is ever meant to: every mount made here is private, and whoever makes
//! mounts lives in a table of its own besides, to which the host's changes come and from which none goes back.

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

/// Gives this process, which has one thread, a mount table of its own if it shares a mount with others. What the host mounts
/// and unmounts later is seen here too. Whatever is to be mounted for all to see is mounted before.
pub fn live_apart() -> Result<(), ApartError> {
    let table = fs::read("/proc/self/mountinfo").map_err(ApartError::Table)?;
    if !has_shared(&table) {
        // Nothing could get out, and a table of its own would not hear of what is mounted later.
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

/// Whether a mount of the table has others that see what is mounted on it. Tags stand between six fields and a dash.
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
