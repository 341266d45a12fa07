//! The sandbox's file systems: overlays, `/proc`, `/dev` and the rest, built by descriptor and then
//! pivoted into.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_bind, mount_change, move_mount, unmount,
};
use warren_wire::guest::BootPlan;

use super::overlay::Layers;
use super::report::{Refusal, StepResult};
use super::{files, identity, machine, sudo, sys};
use crate::machine::Machine;

/// Files of `/proc` that tell of the host or act on it. Covered by the null device.
const COVERED_FILES: &[&str] = &[
    "cmdline",
    "config.gz",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "modules",
    "partitions",
    "diskstats",
    "sched_debug",
    "swaps",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
];

/// Directories of `/proc` that are covered by an empty one.
/// Opening a file of `pressure` for writing starts a thread of the kernel, and everybody may do it.
const COVERED_DIRECTORIES: &[&str] =
    &["acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi", "tty"];

/// Root inside has no capability over its network namespace, so low ports and ping are opened this
/// way. The namespace has no other user, so all groups will do. Written through the sandbox's own
/// `/proc`: in the host's, every network namespace adds to the names that a lookup has to pass.
pub(super) const SYSCTLS: [(&str, &str); 2] =
    [("sys/net/ipv4/ip_unprivileged_port_start", "0"), ("sys/net/ipv4/ping_group_range", "0 2147483647")];

/// The options of the sandbox's own `/run`.
pub(super) const RUN_OPTIONS: [(&str, &str); 3] = [("mode", "0755"), ("size", "64m"), ("nr_inodes", "16384")];

/// An empty directory of the prepared `/dev`, which serves as the cover.
const EMPTY_DIRECTORY: &str = "dev/mqueue";

/// Builds everything under a new root and makes it the root. `began` is when the sandbox's own
/// machine was switched on. Answers that machine, and where its `sudo` knocks.
pub(super) fn build(
    plan: &BootPlan,
    began: Option<Duration>,
) -> Result<(Option<Machine>, Option<OwnedFd>), Refusal> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step("mount namespace", "make every mount private")?;
    identity::assume_file_ids(plan.id_base).step("overlay", "take the sandbox's file ids")?;
    let root = mount_trees(plan)?;
    let dev = sys::inherit(plan.dev).step("/dev", "take the prepared tree")?;
    mount_dev(&root, &dev, plan)?;
    let proc = mount_proc(&root)?;
    mount_own(&root, "run", "tmpfs", &RUN_OPTIONS)?;
    files::system_directory(&root, "sys").step("/sys", "make it an empty directory")?;
    let machine = plan.machine.as_ref().zip(began);
    let machine = machine.map(|(plan, began)| machine::mount(&proc, plan, began)).transpose()?;
    let sudo = machine.as_ref().map(|_| sudo::listen(&root)).transpose()?;
    bind_mounts(&root, plan)?;
    pivot(&root)?;
    Ok((machine, sudo))
}

/// The overlay at `/`, with the others attached below it.
fn mount_trees(plan: &BootPlan) -> Result<OwnedFd, Refusal> {
    let layers = Layers::take(plan, machine::OLD_DEV)?;
    let root = layers.mount(0, "/")?;
    attach(&root, CWD, "/").step("overlay", "attach the root")?;
    for (number, tree) in plan.trees.iter().enumerate().skip(1) {
        let at = tree.at.to_text();
        let target = files::mount_point(&root, &at, true).step("overlay", format!("open `{at}`"))?;
        attach(&layers.mount(number, &at)?, &target, "").step("overlay", format!("attach `{at}`"))?;
    }
    layers.show(&root)?;
    Ok(root)
}

/// Leaves the working directory at the new root. From there `dev` and `proc` are mounts of the
/// sandbox's own, so that covers are named by path, which takes the kernel half as many calls as by
/// descriptor.
fn mount_proc(root: &OwnedFd) -> Result<OwnedFd, Refusal> {
    let proc = mount_own(root, "proc", "proc", &[])?;
    for (name, value) in SYSCTLS {
        files::write(&proc, name, value).step("network namespace", format!("set {name}"))?;
    }
    rustix::process::fchdir(root).step("/proc", "go to the new root")?;
    for name in COVERED_FILES {
        cover("dev/null", &proc, name).step("/proc", format!("cover {name}"))?;
    }
    for name in COVERED_DIRECTORIES {
        cover(EMPTY_DIRECTORY, &proc, name).step("/proc", format!("cover {name}"))?;
    }
    mount_bind("proc/sys", "proc/sys").step("/proc", "mount sys apart")?;
    sys::make_read_only(&proc, c"sys").step("/proc", "make sys read-only")?;
    Ok(proc)
}

fn mount_dev(root: &OwnedFd, dev: &OwnedFd, plan: &BootPlan) -> Result<(), Refusal> {
    let target = files::system_directory(root, "dev").step("/dev", "open the mount point")?;
    attach(dev, &target, "").step("/dev", "attach the prepared tree")?;
    furnish_dev(dev, plan)
}

/// Attaches what is the sandbox's own below an attached `/dev`.
pub(super) fn furnish_dev(dev: &OwnedFd, plan: &BootPlan) -> Result<(), Refusal> {
    let group = (plan.id_base + 5).to_string();
    // The kernel's stock of terminals is one for the whole machine.
    let terminals = [("ptmxmode", "0666"), ("mode", "0620"), ("gid", group.as_str()), ("max", "256")];
    let terminals = own_file_system("devpts", &terminals, MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    attach(&terminals, dev, "pts").step("/dev", "attach pts")?;
    let size = plan.shm_bytes.to_string();
    let shared = [("mode", "1777"), ("size", size.as_str()), ("nr_inodes", "65536")];
    let shared = own_file_system("tmpfs", &shared, MountAttrFlags::empty())?;
    attach(&shared, dev, "shm").step("/dev", "attach shm")
}

/// Mounts a fresh file system of the sandbox's own on a directory at the top of its root.
fn mount_own(root: &OwnedFd, name: &str, kind: &str, options: &[(&str, &str)]) -> Result<OwnedFd, Refusal> {
    let target = files::system_directory(root, name).step(name, "open the mount point")?;
    let noexec = if kind == "proc" { MountAttrFlags::MOUNT_ATTR_NOEXEC } else { MountAttrFlags::empty() };
    let mount = own_file_system(kind, options, noexec)?;
    attach(&mount, &target, "").step(name, "attach it")?;
    Ok(mount)
}

fn own_file_system(kind: &str, options: &[(&str, &str)], more: MountAttrFlags) -> Result<OwnedFd, Refusal> {
    new_file_system(kind, options, more).step(kind, "mount a new one")
}

/// A file system of the sandbox's own, as a detached mount.
pub(super) fn new_file_system(
    kind: &str,
    options: &[(&str, &str)],
    more: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | more;
    // Device nodes of a devpts are what it is for.
    let flags = if kind == "devpts" { flags - MountAttrFlags::MOUNT_ATTR_NODEV } else { flags };
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

fn bind_mounts(root: &OwnedFd, plan: &BootPlan) -> Result<(), Refusal> {
    for bind in &plan.binds {
        let at = bind.at.to_text();
        let source = sys::inherit(bind.source).step("mounts", format!("take the source for `{at}`"))?;
        let target = files::mount_point(root, &at, bind.directory).step("mounts", format!("open `{at}`"))?;
        attach(&source, &target, "").step("mounts", format!("attach `{at}`"))?;
    }
    Ok(())
}

fn pivot(root: &OwnedFd) -> Result<(), Refusal> {
    let enter = || -> Result<bool, Errno> {
        rustix::process::fchdir(root)?;
        rustix::process::pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")?;
        files::root_is_sound()
    };
    match enter().step("pivot", "enter the new root")? {
        true => Ok(()),
        false => Err(Refusal::new("pivot", "the working directory is not inside the new root")),
    }
}

fn cover(with: &str, proc: &OwnedFd, name: &str) -> Result<(), Errno> {
    match mount_bind(with, format!("proc/{name}")) {
        // Not every kernel has it.
        Err(Errno::NOENT) if !files::exists(proc, name) => Ok(()),
        answer => answer,
    }
}

/// Attaches a detached mount at `path` below `directory`, or on `directory` itself if the path is
/// empty.
pub(super) fn attach(mount: &OwnedFd, directory: impl AsFd, path: &str) -> Result<(), Errno> {
    let target =
        if path.is_empty() { MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH } else { MoveMountFlags::empty() };
    move_mount(mount, "", directory, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | target)
}
