//! The machine that a sandbox sees. The agent writes the files with measured values. Files that are
//! the same for all sandboxes with as many processors (`/proc/cpuinfo`, `/proc/vmstat` and the part
//! of `/sys` that counts processors) are prepared here once and cloned, with the program `sudo`.

mod cpuinfo;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsPickFlags, MountAttrFlags, fsconfig_reconfigure, fsconfig_set_string, fspick};
use warren_core::Cpus;

use super::{clones, layers, sys};

/// The directory where C libraries count processors. A sandbox has nothing else of `/sys`, which
/// would tell about the host.
const PROCESSORS: &str = "sys/devices/system/cpu";

/// The lines of `/proc/vmstat` that programs read. Paging is not counted for one sandbox, and there
/// is no swap.
const PAGING: &str = "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\noom_kill 0\n";

static SUDO: &[u8] = include_bytes!(env!("WARREN_SUDO"));

/// Makes machines.
#[derive(Debug)]
pub(super) struct Machines {
    /// The host's memory: no sandbox sees more, even with a larger limit.
    memory_bytes: u64,
    cpus: u32,
    /// The prepared trees, by number of processors.
    trees: Mutex<BTreeMap<u32, OwnedFd>>,
}

impl Machines {
    pub(super) fn new() -> Self {
        let host = rustix::system::sysinfo();
        let memory_bytes = host.totalram.saturating_mul(host.mem_unit.into());
        // Asked once, as it reads every control group above this process.
        let cpus =
            std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        Self { memory_bytes, cpus, trees: Mutex::default() }
    }

    pub(super) fn memory_bytes(&self, limit: u64) -> u64 {
        limit.min(self.memory_bytes)
    }

    /// The processors of a sandbox: as many as wanted, spread over the machine by its id range.
    pub(super) fn processors(&self, wanted: u32, id_base: u32) -> Vec<u32> {
        let first = id_base / 65_536 % self.cpus;
        (0..wanted.min(self.cpus)).map(|step| (first + step) % self.cpus).collect()
    }

    /// Prepares the tree of a machine with these processors. If that fails, a create says why.
    pub(super) fn prepare(&self, wanted: Cpus) {
        let cpus = wanted.visible().min(self.cpus);
        if let Entry::Vacant(entry) = self.trees.lock().entry(cpus) {
            prepare(cpus).ok().map(|tree| entry.insert(tree));
        }
    }

    /// The tree of a machine with this many processors, ids mapped through `namespace`.
    pub(super) fn tree(&self, cpus: u32, namespace: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let mut trees = self.trees.lock();
        let prepared = match trees.entry(cpus) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(prepare(cpus)?),
        };
        layers::clone_prepared(prepared, namespace, || prepare(cpus))
    }
}

/// A tmpfs that is filled here and never changes again.
fn prepare(cpus: u32) -> Result<OwnedFd, Errno> {
    let cpuinfo = cpuinfo::of_host(cpus);
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let tree = layers::small_tmpfs("4m", flags)?;
    prefer_large_pages(&tree);
    let mut directory = String::new();
    for part in PROCESSORS.split('/') {
        directory.push_str(part);
        rustix::fs::mkdirat(&tree, directory.as_str(), Mode::from_raw_mode(0o755))?;
        directory.push('/');
    }
    write(&tree, "cpuinfo", 0o444, cpuinfo.as_bytes())?;
    write(&tree, "vmstat", 0o444, PAGING.as_bytes())?;
    write(&tree, "sudo", 0o555, SUDO)?;
    for name in ["online", "possible", "present"] {
        write(&tree, &format!("{PROCESSORS}/{name}"), 0o444, range(cpus).as_bytes())?;
    }
    clones::outwait(Errno::BUSY, || sys::set_mount(tree.as_fd(), libc::MOUNT_ATTR_RDONLY, None))?;
    Ok(tree)
}

/// A program in pages of their own takes eight times as long to write, and to throw away. Without
/// it, or on a kernel that knows no such thing, all is the same but slower.
fn prefer_large_pages(tree: &OwnedFd) {
    let asked = || -> Result<(), Errno> {
        let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
        let context = fspick(tree, "", flags)?;
        fsconfig_set_string(context.as_fd(), "huge", "within_size")?;
        fsconfig_reconfigure(context.as_fd())
    };
    let _ignored = asked();
}

fn write(tree: &OwnedFd, path: &str, mode: u32, content: &[u8]) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(tree, path, flags, mode)?;
    rustix::fs::fchmod(&file, mode)?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(())
}

/// A number of processors as the kernel writes it.
fn range(cpus: u32) -> String {
    match cpus {
        0 | 1 => "0\n".to_owned(),
        more => format!("0-{}\n", more - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_no_range() {
        assert_eq!((range(1).as_str(), range(2).as_str(), range(64).as_str()), ("0\n", "0-1\n", "0-63\n"));
    }

    #[test]
    fn no_machine_has_more_memory_than_the_host() {
        let machines = Machines { memory_bytes: 100, cpus: 1, trees: Mutex::default() };
        assert_eq!((machines.memory_bytes(99), machines.memory_bytes(u64::MAX)), (99, 100));
    }

    #[test]
    fn processors_are_spread_over_the_host() {
        let machines = Machines { memory_bytes: 0, cpus: 4, trees: Mutex::default() };
        assert_eq!(machines.processors(2, 65_536 * 8), [0, 1]);
        assert_eq!(machines.processors(2, 65_536 * 7), [3, 0]);
        assert_eq!(machines.processors(9, 0), [0, 1, 2, 3]);
    }
}
