//! Counting what a data directory's sandboxes hold on this machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Everything that exists for the sandboxes of one data directory, one line each.
pub(crate) fn census(data_dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["sandboxes", "trash", "ranges"] {
        found.extend(names_in(&data_dir.join(part)).into_iter().map(|name| format!("{part}/{name}")));
    }
    let Ok(instance) = fs::read_to_string(data_dir.join("instance")) else { return found };
    for parent in parents(&instance) {
        let groups = names_in(&parent).into_iter().filter(|name| parent.join(name).is_dir());
        found.extend(groups.map(|name| format!("control group {}", parent.join(name).display())));
    }
    found.extend(processes_of(&instance).into_iter().map(|pid| format!("process {pid}")));
    let data_dir = data_dir.to_string_lossy().into_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = mounts.lines().filter(|line| line.contains(&data_dir));
    found.extend(mounts.map(|line| format!("mount {line}")));
    let loops = names_in(Path::new("/sys/block")).into_iter().filter(|name| {
        let file = format!("/sys/block/{name}/loop/backing_file");
        fs::read_to_string(file).is_ok_and(|backing| backing.contains(&data_dir))
    });
    found.extend(loops.map(|name| format!("loop device {name}")));
    found
}

/// Takes away the control groups that a data directory keeps for as long as it exists.
pub(crate) fn remove_parents(data_dir: &Path) {
    let Ok(instance) = fs::read_to_string(data_dir.join("instance")) else { return };
    for parent in parents(&instance) {
        drop(fs::remove_dir(parent));
    }
}

/// Processes, as the host counts them, in a control group whose path holds this word: a sandbox id, or the instance of
/// a data directory. Those that have ended and only wait for their parent, which may be any program, hold nothing.
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

/// `warren/<instance>` below each mounted hierarchy that has it.
fn parents(instance: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let roots = mounts.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right.starts_with("cgroup").then(|| left.split(' ').nth(4).map(PathBuf::from))?
    });
    roots.map(|root| root.join("warren").join(instance)).filter(|parent| parent.is_dir()).collect()
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
