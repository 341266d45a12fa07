//! The report of `doctor`: every feature the backend needs, tried where that is cheap, with advice.

mod propagation;
mod storage;
mod tables;

use std::fs;
use std::path::Path;

use rustix::thread::CapabilitySet;
use warren_core::{Check, CheckStatus};

use super::cgroup::Layout;
use super::userns::{self, Mapping};

/// The first kernel whose overlayfs takes id-mapped layers.
const LEAST_KERNEL: (u32, u32) = (5, 19);

/// Makes all checks. Those that need root's rights are left out without them: each would fail for
/// that one reason and suggest another.
pub(super) fn examine(data_dir: &Path) -> Vec<Check> {
    let rights = rights();
    let may_try = rights.status != CheckStatus::Failed;
    let mut checks = vec![rights, kernel(), control_groups()];
    if may_try {
        checks.extend([user_namespaces(), storage::overlay(), storage::id_mapping(data_dir)]);
        checks.push(propagation::propagation(data_dir));
    }
    checks.push(seccomp());
    if may_try {
        checks.extend([storage::disk_quota(data_dir), resource_limits()]);
    }
    checks.extend([
        tables::filters(),
        tables::socket_buffers(),
        tables::kernel_memory(),
        tables::merged_pages(),
    ]);
    checks.extend([storage::disk_space(data_dir), processes(), open_files(), core_pattern()]);
    checks
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
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return failed(
            name,
            format!("user {}, who is not root", user.as_raw()),
            "sandboxes are made with root's rights, and without them most cannot be tried: run this with sudo",
        );
    }
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::MKNOD
        | CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE;
    let advice = "run it outside of other containers, or in one that has these: docker run --privileged";
    match rustix::thread::capabilities(None) {
        Ok(held) if held.effective.contains(needed) => ok(name, "root with the capabilities that are needed"),
        Ok(held) => failed(name, format!("root without {}", words(needed - held.effective)), advice),
        Err(errno) => failed(name, errno.to_string(), advice),
    }
}

/// Capabilities by the names that manuals use.
fn words(capabilities: CapabilitySet) -> String {
    let names: Vec<String> = capabilities.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    names.join(", ")
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

/// Ids that the trials use. No sandbox has these: ranges are given out from below.
const TRIAL: Mapping = Mapping { inside: 0, outside: 0x7fff_0000, count: 65_536 };

fn user_namespaces() -> Check {
    match userns::make(TRIAL, TRIAL) {
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

/// One sandbox at its default limits must not be able to use up the machine's open files.
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

/// Sandboxes never dump core, so a handler is harmless here; the report mentions it for the rest of
/// the machine.
fn core_pattern() -> Check {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default().trim().to_owned();
    let handled = if pattern.starts_with('|') {
        "a program handles core dumps; sandboxes make none"
    } else {
        "sandboxes make none"
    };
    ok("core dumps", handled)
}
