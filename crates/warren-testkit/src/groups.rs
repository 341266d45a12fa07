use std::fs;
use std::path::{Path, PathBuf};

/// The word that names a data directory's control groups. `None` before the directory was first
/// opened.
pub(crate) fn instance(data_dir: &Path) -> Option<String> {
    let word = fs::read_to_string(data_dir.join("instance")).ok()?.trim().to_owned();
    (!word.is_empty()).then_some(word)
}

/// The groups above all sandboxes of an instance, one for each backend and each mounted hierarchy
/// that has it.
pub(crate) fn parents(instance: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let roots = mounts.lines().filter_map(control_group_mount);
    let groups = roots.flat_map(|root| fs::read_dir(Path::new(root).join("warren")).into_iter().flatten());
    let mut found: Vec<PathBuf> = groups
        .flatten()
        .filter(|entry| is_of(&entry.file_name().to_string_lossy(), instance))
        .map(|entry| entry.path())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The group is named after the instance, with the backend's name behind a dot unless it is native.
pub(crate) fn is_of(group: &str, instance: &str) -> bool {
    group.strip_prefix(instance).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The mount point, if the line of `mountinfo` is a control group hierarchy's.
fn control_group_mount(line: &str) -> Option<&str> {
    let (mount, file_system) = line.split_once(" - ")?;
    let kind = file_system.split(' ').next()?;
    matches!(kind, "cgroup" | "cgroup2").then(|| mount.split(' ').nth(4))?
}

#[cfg(test)]
mod tests {
    use super::control_group_mount;

    #[test]
    fn only_control_group_hierarchies_are_looked_at() {
        let hybrid = "36 29 0:31 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
        let old = "37 29 0:32 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids";
        let other = "29 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755";
        assert_eq!(control_group_mount(hybrid), Some("/sys/fs/cgroup/unified"));
        assert_eq!(control_group_mount(old), Some("/sys/fs/cgroup/pids"));
        assert_eq!(control_group_mount(other), None);
    }
}
