//! Control groups on every kind of host: v2, v1, and both side by side.
//!
//! Each job (limit memory, limit processes, limit processor time, freeze, count) goes to the
//! hierarchy that can do it: v2 where it has the controller, else v1. On a hybrid host the v2 tree
//! has no controllers but still freezes, kills and counts processor time, and a process can be
//! cloned into it, so it is used beside the v1 controllers.
//!
//! A sandbox's group is `warren/<instance>/<sandbox id>` in every hierarchy in use. The groups, not
//! the records, are the truth about which sandboxes run.

mod layout;
mod stat;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use warren_core::{Limits, Pulse, Usage};

pub(crate) use self::layout::Layout;
use self::layout::Setting;

/// The groups of all sandboxes of one data directory.
#[derive(Debug)]
pub(crate) struct Cgroups {
    layout: Layout,
    /// `warren/<instance>`, below each hierarchy's root.
    parent: PathBuf,
    /// Roots of hierarchies in which others may make groups of the same name.
    elsewhere: Vec<PathBuf>,
}

/// An operation on a file of a control group failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} `{}`", path.display())]
pub(crate) struct CgroupError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The ways for a process to enter a sandbox's group.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// The v2 group, for cloning into.
    pub(crate) clone_into: Option<OwnedFd>,
    /// v1 `tasks` files, for the process to write itself into.
    pub(crate) tasks: Vec<OwnedFd>,
}

/// Open files with a group's usage. A host may lack some.
#[derive(Debug)]
pub(crate) struct Gauges {
    pub(crate) memory_used: Option<OwnedFd>,
    pub(crate) memory_stat: Option<OwnedFd>,
    pub(crate) cpu_used: Option<OwnedFd>,
}

/// The usage of a group that somebody else made, by its path below each hierarchy's root.
pub(crate) fn usage_of(layout: &Layout, group: &Path) -> Usage {
    stat::usage(layout, |root| root.join(group))
}

/// As [`usage_of`], the figures that show activity.
pub(crate) fn pulse_of(layout: &Layout, group: &Path) -> Pulse {
    stat::pulse(layout, |root| root.join(group))
}

impl Cgroups {
    /// Prepares the parent groups, with a limit on all sandboxes together so that they cannot
    /// starve the machine. With `elsewhere`, groups in hierarchies that are not used here are
    /// removed too.
    pub(super) fn open(layout: Layout, instance: &str, elsewhere: bool) -> Result<Self, CgroupError> {
        let parent = Path::new("warren").join(instance);
        let elsewhere = if elsewhere { layout.unused() } else { Vec::new() };
        let cgroups = Self { layout, parent, elsewhere };
        for root in cgroups.layout.roots() {
            make_directory(&root.join("warren"))?;
            make_directory(&root.join(&cgroups.parent))?;
        }
        cgroups.layout.delegate(&["", "warren", &cgroups.parent.to_string_lossy()])?;
        let (memory, pids) = most_for_all();
        apply(cgroups.layout.totals(memory, pids), |root| root.join("warren"))?;
        Ok(cgroups)
    }

    /// Puts the limits on a sandbox's group.
    pub(crate) fn limit(&self, name: &str, limits: &Limits) -> Result<(), CgroupError> {
        apply(self.layout.settings(limits), |root| self.group(root, name))
    }

    /// The path of a sandbox's group below each hierarchy's root.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::new("/").join(&self.parent).join(name)
    }

    /// The hierarchy of v2, if there are v1 controllers beside it.
    pub(crate) fn hybrid(&self) -> Option<&Path> {
        self.layout.v2_root().filter(|_| self.layout.v1_roots().next().is_some())
    }

    /// Makes a sandbox's group, without limits.
    pub(super) fn create(&self, name: &str) -> Result<Entrance, CgroupError> {
        for root in self.layout.roots() {
            make_directory(&self.group(root, name))?;
        }
        let clone_into = self
            .layout
            .v2_root()
            .map(|root| open(&self.group(root, name), OFlags::RDONLY | OFlags::DIRECTORY))
            .transpose()?;
        let v1 = self.layout.v1_roots();
        let tasks = v1
            .map(|root| open(&self.group(root, name).join("tasks"), OFlags::WRONLY))
            .collect::<Result<_, _>>()?;
        Ok(Entrance { clone_into, tasks })
    }

    /// Stops or releases every process of the group, and waits until the kernel says so.
    pub(super) fn set_frozen(&self, name: &str, frozen: bool) -> Result<(), CgroupError> {
        let (root, control) = self.layout.freezer();
        let group = self.group(root, name);
        write(&group.join(control.file), if frozen { control.freeze } else { control.thaw })?;
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(10);
        while self.is_frozen(name)? != frozen {
            // This mostly takes microseconds, and a sleep would take longer.
            if begun.elapsed() < Duration::from_micros(300) {
                std::thread::yield_now();
                continue;
            }
            if Instant::now() > deadline {
                return Err(failed("wait for", &group, io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    pub(super) fn is_frozen(&self, name: &str) -> Result<bool, CgroupError> {
        let (root, control) = self.layout.freezer();
        let state = read(&self.group(root, name).join(control.state_file))?;
        Ok(state.lines().any(|line| line == control.frozen_line))
    }

    /// Kills every process of the group. Idempotent; a group that is gone has none.
    pub(super) fn kill(&self, name: &str) -> Result<(), CgroupError> {
        if let Some(root) = self.layout.v2_root() {
            let file = self.group(root, name).join("cgroup.kill");
            match write(&file, "1") {
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
                answer => return answer,
            }
        }
        for pid in self.processes(name)? {
            kill_if_still_in(pid, name);
        }
        // A frozen v1 group takes no signal before it is thawed.
        match self.set_frozen(name, false) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => answer,
        }
    }

    /// Kills every process of the group but one. Processes started meanwhile may be missed.
    pub(super) fn kill_all_but(&self, name: &str, kept: u32) {
        for pid in self.processes(name).unwrap_or_default() {
            if pid != kept {
                kill_if_still_in(pid, name);
            }
        }
    }

    /// Processes in the group, as the host counts them.
    pub(super) fn processes(&self, name: &str) -> Result<Vec<u32>, CgroupError> {
        let mut found = Vec::new();
        for root in self.layout.roots() {
            match read(&self.group(root, name).join("cgroup.procs")) {
                Ok(text) => found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok())),
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Removes the group if it is empty. Returns whether it is gone.
    pub(super) fn remove(&self, name: &str) -> bool {
        let elsewhere = self.elsewhere.iter().map(PathBuf::as_path);
        self.layout.roots().chain(elsewhere).all(|root| match fs::remove_dir(self.group(root, name)) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
    }

    /// Names of all groups that exist in any hierarchy.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .layout
            .roots()
            .chain(self.elsewhere.iter().map(PathBuf::as_path))
            .filter_map(|root| fs::read_dir(root.join(&self.parent)).ok())
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(super) fn usage(&self, name: &str) -> Usage {
        stat::usage(&self.layout, |root| self.group(root, name))
    }

    /// The figures of [`Cgroups::usage`] that show activity. Groups do not count connections.
    pub(super) fn pulse(&self, name: &str) -> Pulse {
        stat::pulse(&self.layout, |root| self.group(root, name))
    }

    /// Sets the group's share of busy processors; 100 is the default.
    pub(super) fn weigh(&self, name: &str, weight: u32) -> Result<(), CgroupError> {
        apply(self.layout.weight(weight), |root| self.group(root, name))
    }

    pub(super) fn gauges(&self, name: &str) -> Result<Gauges, CgroupError> {
        let open = |(root, file): (&Path, &str)| open(&self.group(root, name).join(file), OFlags::RDONLY);
        let [memory_used, memory_stat, cpu_used] =
            self.layout.gauges().map(|file| file.map(open).transpose());
        Ok(Gauges { memory_used: memory_used?, memory_stat: memory_stat?, cpu_used: cpu_used? })
    }

    fn group(&self, root: &Path, name: &str) -> PathBuf {
        root.join(&self.parent).join(name)
    }
}

/// Memory and processes for all sandboxes together. A tenth of the memory, and at least 512 MiB,
/// is left to the machine itself.
fn most_for_all() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let total = total.unwrap_or(0u64).saturating_mul(1024);
    let reserve = (total / 10).max(512 << 20);
    let pids =
        fs::read_to_string("/proc/sys/kernel/pid_max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    (total.saturating_sub(reserve).max(256 << 20), pids.unwrap_or(32_768) / 4 * 3)
}

fn apply(settings: Vec<Setting<'_>>, group: impl Fn(&Path) -> PathBuf) -> Result<(), CgroupError> {
    for setting in settings {
        match write(&group(setting.root).join(setting.file), &setting.value) {
            Err(error) if setting.optional && error.source.kind() == io::ErrorKind::NotFound => {}
            answer => answer?,
        }
    }
    Ok(())
}

/// Kills by pidfd, so that a program which got the same number is never hit: the descriptor is
/// opened first, then the process behind it must still be in the group.
fn kill_if_still_in(pid: u32, name: &str) {
    let Some(number) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return };
    let Ok(pidfd) = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()) else { return };
    let in_group = fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(name));
    if in_group {
        let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
    }
}

fn make_directory(path: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(failed("make the control group", path, error))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    let file = open(path, OFlags::WRONLY)?;
    rustix::io::write(&file, value.as_bytes()).map(drop).map_err(|errno| failed("write", path, errno.into()))
}

fn read(path: &Path) -> Result<String, CgroupError> {
    fs::read_to_string(path).map_err(|error| failed("read", path, error))
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, CgroupError> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| failed("open", path, errno.into()))
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> CgroupError {
    CgroupError { action, path: path.to_owned(), source }
}
