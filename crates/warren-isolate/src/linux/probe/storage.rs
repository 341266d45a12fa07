//! Checks of the data directory's file system, and of others the backend needs. Each is tried, as a
//! file system missing from the kernel's list may be a module that it loads on demand.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MountAttrFlags, fsopen};
use warren_core::{ByteSize, Check, DiskQuota};

use super::{TRIAL, failed, ok, warning};
use crate::linux::layers::{clone_mount, small_tmpfs};
use crate::linux::quota::{self, FORMATTER};
use crate::linux::{sys, userns};

/// Fails if the kernel lacks a file system, and cannot load a module for it either.
fn knows(name: &str) -> Result<(), Errno> {
    fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC).map(drop)
}

pub(super) fn overlay() -> Check {
    let name = "overlayfs";
    match knows("overlay") {
        Ok(()) => ok(name, "known to the kernel"),
        Err(Errno::NODEV) => failed(
            name,
            "not known to the kernel",
            "use a kernel with CONFIG_OVERLAY_FS, or install its modules",
        ),
        Err(errno) => {
            failed(name, format!("cannot be asked for: {errno}"), "run it outside of other containers")
        }
    }
}

/// Tries the data directory's file system, or that of the nearest existing directory above it.
pub(super) fn id_mapping(data_dir: &Path) -> Check {
    let name = "id-mapped layers";
    let place = existing(data_dir);
    let kind = file_system(&place);
    match try_mapping(&place) {
        Ok(()) => ok(name, format!("allowed on the {kind} of {}", place.display())),
        Err(cause) => failed(
            name,
            format!("refused on the {kind} of {}: {cause}", place.display()),
            format!("put the data directory on {}: --data-dir", fit_file_systems()),
        ),
    }
}

fn try_mapping(place: &Path) -> Result<(), String> {
    let namespace = userns::make(TRIAL, TRIAL).map_err(|error| error.to_string())?;
    let mount = clone_mount(place).map_err(|errno| errno.to_string())?;
    sys::set_mount(mount.as_fd(), 0, Some(namespace.as_fd())).map_err(|errno| match errno {
        Errno::INVAL => "it takes no id mapping on this kernel".to_owned(),
        errno => errno.to_string(),
    })
}

/// The file systems that a data directory may be on with this kernel. tmpfs takes id mappings from
/// Linux 6.3 on.
fn fit_file_systems() -> &'static str {
    let tmpfs = || {
        let namespace = userns::make(TRIAL, TRIAL).ok()?;
        let mount = small_tmpfs("64k", MountAttrFlags::empty()).ok()?;
        sys::set_mount(mount.as_fd(), 0, Some(namespace.as_fd())).ok()
    };
    if tmpfs().is_some() { "ext4, XFS, btrfs or tmpfs" } else { "ext4, XFS or btrfs" }
}

pub(super) fn disk_quota(data_dir: &Path) -> Check {
    let name = "disk quota";
    let mount = "mount the data directory's file system (ext4 or XFS) with prjquota";
    match quota::strongest(&existing(data_dir)) {
        DiskQuota::Project => ok(name, "project: hard limits for every sandbox"),
        DiskQuota::Image => match images() {
            Ok(()) => warning(
                name,
                "image: hard limits where one is asked for, watched otherwise",
                format!("{mount} for hard limits at no cost"),
            ),
            Err(cause) => warning(
                name,
                format!("image: one that is asked for will fail, for {cause}"),
                format!("{mount}, or modprobe loop"),
            ),
        },
        DiskQuota::Watched | DiskQuota::None => warning(
            name,
            "watched: limits are soft, and one that is asked for is refused",
            format!("install e2fsprogs (for {FORMATTER}), or {mount}"),
        ),
    }
}

/// Fails if no disk image could be mounted.
fn images() -> Result<(), String> {
    let control = fs::OpenOptions::new().read(true).write(true).open("/dev/loop-control");
    control.map_err(|error| format!("there are no loop devices: {error}"))?;
    knows("ext4").map_err(|_| "the kernel has no ext4".to_owned())
}

pub(super) fn disk_space(data_dir: &Path) -> Check {
    let name = "disk space";
    let Ok(found) = rustix::fs::statvfs(existing(data_dir)) else {
        return warning(name, "cannot be read", "look at the data directory's file system");
    };
    let free = ByteSize(found.f_bavail.saturating_mul(found.f_frsize));
    let text = format!("{free} free for the data directory");
    if free < ByteSize::gib(1) {
        warning(name, text, "free some space, or choose another place: --data-dir")
    } else {
        ok(name, text)
    }
}

/// The directory, or the nearest one above it that exists.
pub(super) fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or_else(|| Path::new("/")).to_owned()
}

/// The type of a directory's file system by the mount table. Of several mounts on one directory the
/// last is visible.
fn file_system(place: &Path) -> String {
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let on = left.split(' ').nth(4)?.replace("\\040", " ");
        place.starts_with(&on).then(|| (on.len(), right.split(' ').next().unwrap_or_default().to_owned()))
    });
    mounts.max_by_key(|(length, _)| *length).map_or_else(|| "file system".to_owned(), |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_and_not_believed_to_know_everything() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        assert_eq!(knows("tmpfs"), Ok(()));
        assert_eq!(knows("warrenfs"), Err(Errno::NODEV));
    }

    #[test]
    fn a_file_system_without_id_mapping_is_named_with_those_that_have_it() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let check = id_mapping(Path::new("/proc/sys"));
        assert_eq!(check.status, warren_core::CheckStatus::Failed);
        assert!(check.found.contains("proc of /proc/sys"), "{check:?}");
        assert!(check.advice.contains("ext4, XFS"), "{check:?}");
        let advised = check.advice.contains("tmpfs");
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        if file_system(place.path()) == "tmpfs" {
            let fits = id_mapping(place.path()).status == warren_core::CheckStatus::Ok;
            assert_eq!(advised, fits, "what is advised works");
        }
    }
}
