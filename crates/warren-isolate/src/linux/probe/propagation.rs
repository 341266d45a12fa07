//! Checks that mounts made for a sandbox stay out of other mount tables. Where a mount is shared,
//! as `/` is under systemd, a mount on it or on a clone of it appears in every other table that has
//! it. The trial mounts something the way a sandbox's layers are mounted.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use rustix::fs::CWD;
use rustix::mount::{
    MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount_change, move_mount, unmount,
};
use warren_core::Check;

use super::storage::existing;
use super::{failed, ok};
use crate::linux::layers::{clone_mount, mount_new};
use crate::linux::seal::sys::unshare_mounts;
use crate::linux::sys;

/// The mount table of the trial: one that passes nothing on, as sandboxes have, or a shared one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Apart,
    #[cfg(test)]
    Shared,
}

pub(super) fn propagation(data_dir: &Path) -> Check {
    let name = "mounts";
    let found = describe(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(), data_dir);
    match escaped(&place(data_dir), Table::Apart) {
        Ok(at) if at.is_empty() => ok(name, format!("{found}; those of sandboxes stay apart")),
        Ok(at) => failed(
            name,
            format!("{found}, and what is mounted for a sandbox appears on the host at {}", at.join(", ")),
            "mount --make-private on what the data directory is on, and report this",
        ),
        Err(error) => failed(
            name,
            format!("{found}; a mount of a sandbox could not be tried: {error}"),
            "run it outside of other containers",
        ),
    }
}

/// The directory where a mount left by a failed trial would hide the least.
fn place(data_dir: &Path) -> PathBuf {
    let trash = data_dir.join("trash");
    if trash.is_dir() { trash } else { existing(data_dir) }
}

fn describe(table: &str, data_dir: &Path) -> String {
    let place = existing(data_dir);
    let place = place.canonicalize().unwrap_or(place);
    let mounts = || table.lines().filter_map(Line::parse);
    let holder = mounts().filter(|line| place.starts_with(&line.at)).max_by_key(|line| line.at.len());
    let root = mounts().rfind(|line| line.at == "/").is_some_and(|line| line.shared);
    match (root, holder) {
        (true, Some(holder)) if holder.shared && holder.at != "/" => {
            format!("`/` and `{}` are shared with other mount tables", holder.at)
        }
        (true, _) => "`/` is shared with other mount tables".to_owned(),
        (false, Some(holder)) if holder.shared => {
            format!("`{}` is shared with other mount tables", holder.at)
        }
        (false, _) => "the host's are shared with no other mount table".to_owned(),
    }
}

/// A line of a mount table.
struct Line {
    at: String,
    shared: bool,
    source: String,
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let (left, right) = text.split_once(" - ")?;
        let mut fields = left.split(' ');
        let at = fields.nth(4)?.replace("\\040", " ");
        let shared = fields.skip(1).any(|tag| tag.starts_with("shared:"));
        Some(Self { at, shared, source: right.split(' ').nth(1)?.to_owned() })
    }
}

/// Mounts something for a moment as a sandbox's layers are mounted, and returns where it appears in
/// this thread's mount table.
fn escaped(place: &Path, table: Table) -> io::Result<Vec<String>> {
    let token = &format!("warren-trial-{:016x}", getrandom::u64().map_err(io::Error::other)?);
    let (say, said) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let trial = move || {
            let mut mounts = 0;
            drop(say.send(attach(place, table, token, &mut mounts)));
            let _ = left.recv();
            for _ in 0..mounts {
                let _ = unmount(place, UnmountFlags::DETACH);
            }
        };
        thread::Builder::new().spawn_scoped(scope, trial)?;
        let attached = said.recv().map_err(io::Error::other)?;
        let seen = fs::read_to_string("/proc/thread-self/mountinfo");
        drop(leave);
        attached?;
        let lines = seen?;
        let ours = lines.lines().filter_map(Line::parse).filter(|line| line.source == *token);
        Ok(ours.map(|line| format!("`{}`", line.at)).collect())
    })
}

/// Mounts a file system of our own, on it a clone of the place's mount, and on that another one, as
/// overlays stand on layers.
fn attach(place: &Path, table: Table, token: &str, mounts: &mut usize) -> io::Result<()> {
    unshare_mounts()?;
    if table == Table::Apart {
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    }
    let layer = clone_mount(place)?;
    sys::set_mount(layer.as_fd(), 0, None)?;
    for mount in [marked(token)?, layer, marked(token)?] {
        move_mount(&mount, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        *mounts += 1;
    }
    Ok(())
}

/// A small file system that mount tables list under this name.
fn marked(token: &str) -> io::Result<rustix::fd::OwnedFd> {
    let options = [("source", token), ("size", "4k"), ("nr_inodes", "2")];
    Ok(mount_new("tmpfs", options, MountAttrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /proc rw shared:2 - proc proc rw
23 21 8:2 / /srv/my\\040data rw shared:3 master:1 - ext4 /dev/vdb rw
24 21 8:3 / /srv/private rw - ext4 shared:9 rw
";

    #[test]
    fn what_is_shared_is_said() {
        let said = |table: &str, path: &str| describe(table, Path::new(path));
        assert_eq!(said(TABLE, "/"), "`/` is shared with other mount tables");
        let private = TABLE.replace("shared:1 ", "");
        assert_eq!(said(&private, "/"), "the host's are shared with no other mount table");
        let line = Line::parse(TABLE.lines().nth(2).unwrap()).unwrap();
        assert_eq!((line.at.as_str(), line.shared, line.source.as_str()), ("/srv/my data", true, "/dev/vdb"));
        assert!(!Line::parse(TABLE.lines().nth(3).unwrap()).unwrap().shared);
    }

    /// In a mount table of the test's own, where a tmpfs is shared with another one.
    #[test]
    fn a_mount_that_gets_out_is_found_and_one_that_stays_apart_is_not() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let at = place.path().canonicalize().unwrap();
        let host = || {
            unshare_mounts().unwrap();
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            let volume = marked("warren-volume").unwrap();
            move_mount(&volume, "", CWD, &at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).unwrap();
            let table = || fs::read_to_string("/proc/thread-self/mountinfo").unwrap().replace("shared:", "");
            let before = table().lines().count();
            assert_eq!(escaped(&at, Table::Shared).unwrap(), [] as [&str; 0], "nobody else knows the mount");
            mount_change(&at, MountPropagationFlags::SHARED).unwrap();
            assert_eq!(escaped(&at, Table::Apart).unwrap(), [] as [&str; 0]);
            assert!(!escaped(&at, Table::Shared).unwrap().is_empty());
            assert_eq!(table().lines().count(), before, "whatever came out is gone again");
        };
        thread::scope(|scope| scope.spawn(host).join().unwrap());
    }
}
