//! Counting what a data directory's sandboxes hold on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use warren_testkit::Census;

/// Everything that exists for the sandboxes of one data directory, one line each.
pub(crate) fn census(data_dir: &Path) -> Vec<String> {
    let mut taken = Census::take(data_dir);
    // Counted below, without those that have ended: whose children they are and when they are
    // waited for is not ours.
    taken.processes.clear();
    taken.zombies.clear();
    let mut found = taken.leftovers();
    let instance = instance(data_dir);
    let processes = instance.iter().flat_map(|word| processes_of(word));
    found.extend(processes.map(|pid| format!("  process: {pid}")));
    // A disk that is mounted on the directory itself is none of a sandbox.
    let data_dir = format!("{}/", data_dir.to_string_lossy());
    let mounts = taken.mounts.into_iter().filter(|line| line.contains(&data_dir));
    found.extend(mounts.map(|line| format!("  mount: {line}")));
    found
}

/// The word that names a data directory's control groups, once it has been opened.
pub(crate) fn instance(data_dir: &Path) -> Option<String> {
    fs::read_to_string(data_dir.join("instance")).ok().filter(|word| !word.is_empty())
}

/// Takes away the control groups that a data directory keeps for as long as it exists.
pub(crate) fn remove_parents(data_dir: &Path) {
    let Some(instance) = instance(data_dir) else { return };
    for parent in parents(&instance) {
        drop(fs::remove_dir(parent));
    }
}

/// Processes, as the host counts them, in a control group whose path holds this word: a sandbox id,
/// or the instance of a data directory. Those that have ended and only wait for their parent, which
/// may be any program, hold nothing.
pub fn processes_of(word: &str) -> Vec<u32> {
    let pids = names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
    pids.filter(|pid| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("cgroup").contains(word) && !read("stat").contains(") Z ")
    })
    .collect()
}

pub fn resident_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

pub fn count_descriptors(pid: u32) -> usize {
    names_in(Path::new(&format!("/proc/{pid}/fd"))).len()
}

/// `warren/<instance>`, of every backend, below each mounted hierarchy that has it.
fn parents(instance: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let roots = mounts.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right.starts_with("cgroup").then(|| left.split(' ').nth(4).map(PathBuf::from))?
    });
    let groups = roots.map(|root| root.join("warren"));
    let of_instance = |group: &PathBuf| {
        let names = names_in(group).into_iter().filter(|name| name.starts_with(instance));
        names.map(|name| group.join(name)).filter(|parent| parent.is_dir()).collect::<Vec<_>>()
    };
    groups.flat_map(|group| of_instance(&group)).collect()
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
