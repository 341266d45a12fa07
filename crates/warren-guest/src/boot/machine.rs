//! The sandbox's own machine, in front of the host's: clocks that begin with it, and covers for
//! what `/proc` and `/sys` say about size and use.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, mount_bind};
use rustix::time::ClockId;
use warren_wire::guest::{FdNumber, Machine as Plan};

use super::report::{Refusal, StepResult};
use super::root::{attach, new_file_system};
use super::{sudo, sys};
use crate::machine::{Cover, Covers, Gauges, Machine, Size, boot_clock};

const STEP: &str = "machine";
const BOOT_ID: &CStr = c"sys/kernel/random/boot_id";
/// Tells another number each time it is read.
const NEW_ID: &str = "sys/kernel/random/uuid";
/// In the old root, which the process still has as its own.
pub(super) const OLD_DEV: &str = "/dev";

/// Sets the clocks that count from the start of the machine to when the sandbox began, for this
/// process and all to come: the kernel then shows the start of each process in the same terms as
/// the uptime. Only used while the host's `/proc` is still in place. Returns when the machine was
/// switched on, by this process's boot-time clock from now on.
pub(super) fn set_clocks(plan: &Plan) -> Result<Duration, Refusal> {
    let began = Duration::from_nanos(plan.began_ns);
    let up = boot_clock().saturating_sub(began);
    let monotonic = rustix::time::clock_gettime(ClockId::Monotonic);
    let monotonic = Duration::try_from(monotonic).unwrap_or_default();
    match sys::unshare_time() {
        // A kernel without time namespaces: the uptime is right all the same, only the start of a
        // process is told in host time.
        Err(Errno::INVAL) => return Ok(began),
        answer => answer.step(STEP, "make a time namespace")?,
    }
    let offsets = format!("boottime {}\nmonotonic {}\n", minus(began), minus(monotonic.saturating_sub(up)));
    let enter = || {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open("/proc/self/timens_offsets", flags, Mode::empty())?;
        rustix::io::write(&file, offsets.as_bytes())?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let namespace = rustix::fs::open("/proc/self/ns/time_for_children", flags, Mode::empty())?;
        sys::enter_time_namespace(&namespace)
    };
    enter().step(STEP, "set the clocks")?;
    Ok(Duration::ZERO)
}

/// A negative offset in the kernel's words: seconds, and nanoseconds that are never negative.
fn minus(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => format!("-{} 0", time.as_secs()),
        nanos => format!("-{} {}", time.as_secs() + 1, 1_000_000_000 - nanos),
    }
}

/// Covers the host's figures. `began` is what [`set_clocks`] returned. The working directory is the
/// new root.
pub(super) fn mount(proc: &OwnedFd, plan: &Plan, began: Duration) -> Result<Machine, Refusal> {
    let take = |number: FdNumber| sys::inherit(number).step(STEP, "take a descriptor");
    let take_gauge = |number: Option<FdNumber>| number.map(take).transpose();
    stow(&take(plan.tree)?).step(STEP, "attach the prepared tree")?;
    let sudo = sudo::make_place()?;
    for (name, at) in
        [("cpuinfo", "proc/cpuinfo"), ("vmstat", "proc/vmstat"), ("sys", "sys"), ("sudo", &sudo)]
    {
        bind(name, at).step(STEP, format!("cover {at}"))?;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let kernel_load = rustix::fs::openat(proc, "loadavg", flags, Mode::empty()).step(STEP, "open loadavg")?;
    let gauges = Gauges {
        memory_used: take_gauge(plan.memory_used)?,
        memory_stat: take_gauge(plan.memory_stat)?,
        cpu_used: take_gauge(plan.cpu_used)?,
        kernel_load: Some(kernel_load),
    };
    let options = [("mode", "0755"), ("size", "256k"), ("nr_inodes", "16")];
    let place = new_file_system("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NOEXEC)
        .step(STEP, "mount a place for the covers")?;
    stow(&place).step(STEP, "attach the place of the covers")?;
    // The backend's own mask must not count: modes here and below are meant as they are written.
    rustix::process::umask(Mode::empty());
    let cover =
        |name: &CStr| cover(&place, proc, name).step(STEP, format!("cover {}", name.to_string_lossy()));
    let covers = Covers {
        meminfo: cover(c"meminfo")?,
        stat: cover(c"stat")?,
        uptime: cover(c"uptime")?,
        loadavg: cover(c"loadavg")?,
    };
    cover_boot_id(&place, proc).step(STEP, "cover the boot id")?;
    let size = Size { memory_bytes: plan.memory_bytes, cpus: plan.cpus };
    Ok(Machine::new(size, gauges, covers, began))
}

/// Gives a tree a path for as long as it takes to mount what is in it. The old root's `/dev` is not
/// used any more, and leaves with it.
fn stow(tree: &OwnedFd) -> Result<(), Errno> {
    attach(tree, CWD, OLD_DEV)
}

/// Mounts what lies in the tree that was stowed last.
fn bind(name: &str, at: &str) -> Result<(), Errno> {
    mount_bind(format!("{OLD_DEV}/{name}"), at)
}

/// Only the descriptor returned can write: the mount that the sandbox sees is read-only, and
/// nothing inside may change that.
fn cover(place: &OwnedFd, proc: &OwnedFd, name: &CStr) -> Result<Cover, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(place, name, flags, Mode::from_raw_mode(0o444))?;
    let text = name.to_string_lossy();
    bind(&text, &format!("proc/{text}"))?;
    sys::make_read_only(proc, name)?;
    Ok(Cover::new(file))
}

/// A number of this start alone, where programs look for one that changes with every start of the
/// machine.
fn cover_boot_id(place: &OwnedFd, proc: &OwnedFd) -> Result<(), Errno> {
    let random = rustix::fs::openat(proc, NEW_ID, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0; 64];
    let count = rustix::io::read(&random, &mut text)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(place, "boot_id", flags, Mode::from_raw_mode(0o444))?;
    rustix::io::write(&file, &text[..count])?;
    bind("boot_id", &format!("proc/{}", BOOT_ID.to_string_lossy()))?;
    sys::make_read_only(proc, BOOT_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_negative_with_positive_nanoseconds() {
        assert_eq!(minus(Duration::from_secs(7)), "-7 0");
        assert_eq!(minus(Duration::new(7, 250_000_000)), "-8 750000000");
        assert_eq!(minus(Duration::new(0, 1)), "-1 999999999");
        assert_eq!(minus(Duration::ZERO), "-0 0");
    }
}
