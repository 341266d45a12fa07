//! Kernel memory that no control group counts: unread netlink answers, file locks and multicast
//! memberships.
//!
//! The kernel has no limit for these, and each is cheap to make. So the machine's memory for kernel
//! objects is watched. When it has grown by much, a sandbox that holds a lot of them loses its
//! processes, as it would for ordinary memory.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;

use super::Backend;

/// Growth of the machine's kernel objects after which sandboxes are looked at.
const STEP_BYTES: u64 = 64 << 20;
/// Limits of one sandbox. An ordinary one has a few kilobytes, a few hundred locks and a few
/// memberships.
const MOST_ANSWER_BYTES: u64 = 16 << 20;
const MOST_LOCKS: u64 = 65_536;
const MOST_MEMBERSHIPS: usize = 32_768;
/// Room for twice as many locks as one sandbox may hold, at some sixty bytes each.
const LIST_BYTES: u64 = 8 << 20;

/// When to look again.
#[derive(Debug, Default)]
pub(super) struct Uncounted {
    /// The size of all kernel objects above which sandboxes are looked at.
    look_at_bytes: Option<u64>,
}

impl Uncounted {
    /// Looks at the sandboxes if kernel memory has grown.
    pub(super) fn inspect(&mut self, backend: &Backend) {
        let Some(now) = kernel_objects(&fs::read_to_string("/proc/meminfo").unwrap_or_default()) else {
            return;
        };
        if self.is_due(now) {
            look(backend);
        }
    }

    fn is_due(&mut self, now: u64) -> bool {
        let is_due = self.look_at_bytes.is_some_and(|look_at| now > look_at);
        let next = now.saturating_add(STEP_BYTES);
        self.look_at_bytes =
            Some(if is_due { next } else { self.look_at_bytes.map_or(next, |at| at.min(next)) });
        is_due
    }
}

fn look(backend: &Backend) {
    let locks = Locks::read(&newest_locks());
    for name in backend.cgroups.names() {
        let Ok(processes) = backend.cgroups.processes(&name) else { continue };
        let Some(first) = processes.iter().copied().find(|pid| is_first(*pid)) else { continue };
        let text = |file: &str| fs::read_to_string(format!("/proc/{first}/{file}")).unwrap_or_default();
        let answers = waiting_answers(&text("net/netlink"));
        let memberships = text("net/igmp6").lines().count();
        let held = locks.of(&processes, &own_devices(&text("mountinfo")));
        if answers > MOST_ANSWER_BYTES || memberships > MOST_MEMBERSHIPS || held > MOST_LOCKS {
            tracing::warn!(
                sandbox = name,
                answers,
                memberships,
                locks = held,
                "kernel memory that nobody counts is used up: the sandbox's processes are ended"
            );
            backend.cgroups.kill_all_but(&name, first);
        }
    }
}

/// The list of locks, newest first. The kernel walks it from its beginning for each page that is
/// read, and blocks all locking meanwhile, so only as much is read as shows a sandbox with too
/// many.
fn newest_locks() -> String {
    let mut text = Vec::new();
    let read = fs::File::open("/proc/locks").and_then(|file| file.take(LIST_BYTES).read_to_end(&mut text));
    drop(read);
    String::from_utf8_lossy(&text).into_owned()
}

/// Memory of kernel objects that cannot be reclaimed.
fn kernel_objects(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("SUnreclaim:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// True for the agent, the first process of its namespace.
fn is_first(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|numbers| numbers.split_whitespace().next_back()) == Some("1")
}

/// Unread bytes in all netlink sockets of a namespace.
fn waiting_answers(netlink: &str) -> u64 {
    let bytes = |line: &str| line.split_whitespace().nth(4)?.parse::<u64>().ok();
    netlink.lines().filter_map(bytes).sum()
}

/// Devices of the file systems that are the sandbox's own, as `/proc/locks` writes them.
fn own_devices(mountinfo: &str) -> HashSet<String> {
    let device = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let (major, minor) = left.split(' ').nth(2)?.split_once(':')?;
        let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
        matches!(right.split(' ').next(), Some("overlay" | "tmpfs"))
            .then(|| format!("{major:02x}:{minor:02x}"))
    };
    mountinfo.lines().filter_map(device).collect()
}

/// Locks of the whole machine: by process, and those of no process by device.
#[derive(Debug, Default)]
struct Locks {
    by_process: HashMap<u32, u64>,
    by_device: HashMap<String, u64>,
}

impl Locks {
    fn read(text: &str) -> Self {
        let mut locks = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace().skip(1).filter(|word| *word != "->").skip(3);
            let (Some(process), Some(file)) = (words.next(), words.next()) else { continue };
            match process.parse::<u32>() {
                Ok(process) => *locks.by_process.entry(process).or_default() += 1,
                Err(_) => {
                    let device = file.rsplit_once(':').map_or(file, |(device, _)| device);
                    *locks.by_device.entry(device.to_owned()).or_default() += 1;
                }
            }
        }
        locks
    }

    fn of(&self, processes: &[u32], devices: &HashSet<String>) -> u64 {
        let by_process: u64 = processes.iter().filter_map(|process| self.by_process.get(process)).sum();
        let by_device: u64 = devices.iter().filter_map(|device| self.by_device.get(device)).sum();
        by_process + by_device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_looked_at_when_the_machine_holds_more() {
        let mut uncounted = Uncounted::default();
        let mib = |count: u64| count << 20;
        assert!(!uncounted.is_due(mib(100)));
        assert!(!uncounted.is_due(mib(160)));
        assert!(uncounted.is_due(mib(170)));
        assert!(!uncounted.is_due(mib(200)), "not again for the same");
        assert!(!uncounted.is_due(mib(50)), "less is held now");
        assert!(uncounted.is_due(mib(120)));
        assert_eq!(kernel_objects("MemTotal: 5 kB\nSUnreclaim:      12 kB\n"), Some(12 << 10));
    }

    #[test]
    fn answers_and_locks_are_counted_for_whom_they_are() {
        let netlink = "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode\n\
                       0 0 7 00000000 4096 0 0 2 0 99\n0 0 8 00000000 100 0 0 2 0 98\n";
        assert_eq!(waiting_answers(netlink), 4196);
        let locks = Locks::read(
            "1: POSIX  ADVISORY  WRITE 77 00:2e:11 0 0\n2: POSIX  ADVISORY  READ 77 00:2e:12 0 EOF\n\
             2: -> POSIX  ADVISORY  WRITE 78 00:2e:12 0 EOF\n3: OFDLCK ADVISORY  WRITE -1 00:2e:13 0 0\n\
             4: OFDLCK ADVISORY  WRITE -1 08:01:13 0 0\n5: FLOCK  ADVISORY  WRITE 5 08:01:9 0 EOF\n",
        );
        let mounts = "30 1 0:46 / / rw - overlay overlay rw\n31 1 8:1 / /home rw - ext4 /dev/sda1 rw\n";
        assert_eq!(own_devices(mounts), HashSet::from(["00:2e".to_owned()]));
        assert_eq!(locks.of(&[77, 78], &own_devices(mounts)), 4);
        assert_eq!(locks.of(&[5], &HashSet::new()), 1);
    }
}
