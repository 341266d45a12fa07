//! What `doctor` reports: every feature the backend needs, tried where that is cheap, with what to do about it.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::thread::CapabilitySet;
use warren_core::{ByteSize, Check, CheckStatus, DiskQuota};

use super::cgroup::Layout;
use super::quota::{FORMATTER, Quotas};
use super::sys;
use super::userns::{self, Mapping};

/// The first kernel whose overlayfs takes id-mapped layers.
const LEAST_KERNEL: (u32, u32) = (5, 19);

pub(super) fn examine(data_dir: &Path) -> Vec<Check> {
    vec![
        rights(),
        kernel(),
        control_groups(),
        user_namespaces(),
        overlay(),
        id_mapping(data_dir),
        seccomp(),
        disk_quota(data_dir),
        disk_space(data_dir),
        processes(),
        open_files(),
        resource_limits(),
        core_pattern(),
    ]
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, status: CheckStatus::Ok, found: found.into(), advice: String::new() }
}

fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { name, status: CheckStatus::Warning, found: found.into(), advice: advice.into() }
}

fn failed(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Check {
    Check { name, status: CheckStatus::Failed, found: found.into(), advice: advice.into() }
}

fn rights() -> Check {
    let name = "rights";
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::MKNOD
        | CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE;
    match rustix::thread::capabilities(None) {
        Ok(held) if held.effective.contains(needed) => ok(name, "root with the capabilities that are needed"),
        Ok(held) => failed(
            name,
            format!("missing {:?}", needed - held.effective),
            "run as root, outside of other containers",
        ),
        Err(errno) => failed(name, errno.to_string(), "run as root"),
    }
}

fn kernel() -> Check {
    let name = "kernel";
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= LEAST_KERNEL {
        return ok(name, format!("Linux {release}"));
    }
    let (major, minor) = LEAST_KERNEL;
    failed(
        name,
        format!("Linux {release}"),
        format!("install Linux {major}.{minor} or newer: overlays on id-mapped layers need it"),
    )
}

fn control_groups() -> Check {
    match Layout::detect() {
        Ok(layout) => ok("control groups", layout.describe()),
        Err(error) => failed("control groups", "incomplete", error.to_string()),
    }
}

fn user_namespaces() -> Check {
    match userns::make(Mapping::whole(0x7fff_0000), Mapping::whole(0x7fff_0000)) {
        Ok(_) => ok("user namespaces", "can be made"),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            failed(
                "user namespaces",
                format!("{error}: {cause}"),
                "raise the sysctl user.max_user_namespaces, and do not run in a chroot",
            )
        }
    }
}

fn overlay() -> Check {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.ends_with("\toverlay")) {
        return ok("overlayfs", "known to the kernel");
    }
    failed("overlayfs", "not known to the kernel", "load it: modprobe overlay")
}

/// Tried on the data directory's own file system, or on that of the nearest directory above that exists.
fn id_mapping(data_dir: &Path) -> Check {
    let name = "id-mapped layers";
    let place = existing(data_dir);
    let attempt = || -> Result<(), String> {
        let namespace = userns::make(Mapping::whole(0x7fff_0000), Mapping::whole(0x7fff_0000))
            .map_err(|e| e.to_string())?;
        let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let mount = open_tree(CWD, &place, clone).map_err(|errno| errno.to_string())?;
        sys::set_mount(mount.as_fd(), 0, Some(namespace.as_fd())).map_err(|errno| errno.to_string())
    };
    match attempt() {
        Ok(()) => ok(name, format!("allowed on the file system of {}", place.display())),
        Err(cause) => failed(
            name,
            format!("refused on the file system of {}: {cause}", place.display()),
            "put the data directory on ext4, XFS, btrfs or tmpfs: --data-dir",
        ),
    }
}

fn seccomp() -> Check {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if ["kill_process", "errno", "allow"]
        .iter()
        .all(|action| actions.split_whitespace().any(|known| known == *action))
    {
        return ok("seccomp", "filters can be loaded");
    }
    failed("seccomp", "not available", "use a kernel with CONFIG_SECCOMP_FILTER")
}

fn disk_quota(data_dir: &Path) -> Check {
    let name = "disk quota";
    match Quotas::detect(&existing(data_dir)).strongest() {
        DiskQuota::Project => ok(name, "project: hard limits for every sandbox"),
        DiskQuota::Image => warning(
            name,
            "image: hard limits where one is asked for, watched otherwise",
            "mount the data directory's file system (ext4 or XFS) with prjquota for hard limits at no cost",
        ),
        DiskQuota::Watched => warning(
            name,
            "watched: limits are soft, and one that is asked for is refused",
            format!(
                "install e2fsprogs (for {FORMATTER}), or mount the data directory's file system with prjquota"
            ),
        ),
    }
}

fn disk_space(data_dir: &Path) -> Check {
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

fn processes() -> Check {
    let most =
        fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    match most {
        Some(most) if most >= 100_000 => ok("processes", format!("pid_max is {most}")),
        Some(most) => warning(
            "processes",
            format!("pid_max is {most}"),
            "for hundreds of sandboxes, raise it: sysctl kernel.pid_max=4194304",
        ),
        None => warning("processes", "pid_max cannot be read", "mount /proc"),
    }
}

/// All processes of one sandbox at its default limits must not be able to use up the machine's stock.
fn open_files() -> Check {
    let defaults = warren_core::Limits::default();
    let least = u64::from(defaults.pids) * defaults.open_files;
    let most =
        fs::read_to_string("/proc/sys/fs/file-max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    match most {
        Some(most) if most >= least => ok("open files", format!("file-max is {most}")),
        Some(most) => warning(
            "open files",
            format!("file-max is {most}, which one sandbox with a thousand processes could use up"),
            "raise it: sysctl fs.file-max=9223372036854775807",
        ),
        None => warning("open files", "file-max cannot be read", "mount /proc"),
    }
}

fn resource_limits() -> Check {
    let name = "resource limits";
    let held = rustix::thread::capabilities(None)
        .is_ok_and(|held| held.effective.contains(CapabilitySet::SYS_RESOURCE));
    if held {
        return ok(name, "can be set freely");
    }
    warning(
        name,
        "CAP_SYS_RESOURCE is missing: hard limits of this process are upper bounds",
        "nothing needs to be done; open files of a sandbox are at most this process's own hard limit",
    )
}

/// Sandboxes never dump core, so a handler is no danger; it is told because it matters to everything else.
fn core_pattern() -> Check {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default().trim().to_owned();
    let handled = if pattern.starts_with('|') {
        "a program handles core dumps; sandboxes make none"
    } else {
        "sandboxes make none"
    };
    ok("core dumps", handled)
}

fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or_else(|| Path::new("/")).to_owned()
}
