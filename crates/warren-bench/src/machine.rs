use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The machine that the figures are from.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) cpus: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) filesystem: String,
    pub(crate) cgroups: &'static str,
    pub(crate) load_average: String,
    pub(crate) warren: &'static str,
    pub(crate) build: &'static str,
    /// The versions of the other subjects, by name.
    pub(crate) versions: BTreeMap<&'static str, String>,
}

impl Machine {
    pub(crate) fn here(data_dir: &Path, layout: &CgroupLayout) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let kib = meminfo(&read("/proc/meminfo")).get("MemTotal").copied().unwrap_or_default();
        let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib * 1024,
            filesystem: describe_filesystem(&read("/proc/self/mountinfo"), &data_dir),
            cgroups: match layout {
                CgroupLayout::V1 => "v1",
                CgroupLayout::V2 => "v2",
                CgroupLayout::Hybrid { .. } => "hybrid",
            },
            load_average: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            warren: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            versions: BTreeMap::new(),
        }
    }
}

/// The layout of the machine's control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CgroupLayout {
    V1,
    V2,
    /// Controllers in the old hierarchies, and a bare new one beside them.
    Hybrid {
        cgroup2: PathBuf,
    },
}

impl CgroupLayout {
    pub(crate) fn detect() -> Self {
        Self::of(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn of(mountinfo: &str) -> Self {
        let at = |kind: &str| mounts(mountinfo).find(|mount| mount.kind == kind).map(|mount| mount.at);
        match (at("cgroup"), at("cgroup2")) {
            (Some(_), Some(cgroup2)) => Self::Hybrid { cgroup2: cgroup2.into() },
            (None, Some(_)) => Self::V2,
            (_, None) => Self::V1,
        }
    }
}

/// The amounts in `/proc/meminfo` and the like, in KiB.
pub(crate) fn meminfo(text: &str) -> BTreeMap<&str, u64> {
    let amount = |line: &str| line.split_whitespace().next().and_then(|number| number.parse().ok());
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(name, rest)| Some((name, amount(rest)?)))
        .collect()
}

struct MountPoint<'a> {
    at: &'a str,
    kind: &'a str,
    device: &'a str,
}

fn mounts(mountinfo: &str) -> impl Iterator<Item = MountPoint<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (place, origin) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(2);
        let device = fields.next()?;
        Some(MountPoint { at: fields.nth(1)?, kind: origin.split(' ').next()?, device })
    })
}

fn mount_of<'a>(mountinfo: &'a str, path: &Path) -> Option<MountPoint<'a>> {
    mounts(mountinfo).filter(|mount| path.starts_with(mount.at)).max_by_key(|mount| mount.at.len())
}

/// Names the file system, and says if ext4 has no journal: it then avoids the inodes of files that
/// were removed in the last minutes by looking at each, which makes new files many times slower.
fn describe_filesystem(mountinfo: &str, path: &Path) -> String {
    let Some(mount) = mount_of(mountinfo, path) else {
        return "unknown".to_owned();
    };
    let without_journal = mount.kind == "ext4" && has_journal(mount.device) == Some(false);
    format!("{}{}", mount.kind, if without_journal { WITHOUT_JOURNAL } else { "" })
}

pub(crate) const WITHOUT_JOURNAL: &str = " without a journal";

/// Tells whether the kernel keeps a journal for the device with these numbers.
fn has_journal(device: &str) -> Option<bool> {
    let link = fs::read_link(Path::new("/sys/dev/block").join(device)).ok()?;
    let prefix = format!("{}-", link.file_name()?.to_string_lossy());
    let Ok(journals) = fs::read_dir("/proc/fs/jbd2") else {
        return Some(false);
    };
    Some(journals.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
        30 27 0:9 / /var/lib/x rw,relatime shared:1 - xfs /dev/vdb rw\n\
        31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_nearest_mount_above_holds_a_path() {
        let of = |path| mount_of(MOUNTS, Path::new(path)).map(|mount| (mount.kind, mount.device));
        assert_eq!(of("/var/lib/x/y"), Some(("xfs", "0:9")));
        assert_eq!(of("/var/lib/xy"), Some(("ext4", "254:0")));
    }

    #[test]
    fn layouts_are_told_apart() {
        let hybrid = CgroupLayout::Hybrid { cgroup2: "/sys/fs/cgroup/unified".into() };
        assert_eq!(CgroupLayout::of(MOUNTS), hybrid);
        assert_eq!(CgroupLayout::of("41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"), CgroupLayout::V2);
        assert_eq!(
            CgroupLayout::of("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw"),
            CgroupLayout::V1
        );
    }

    #[test]
    fn amounts_are_read_in_kib() {
        let text = "MemTotal:       24682416 kB\nHugePages_Total:       0\nnonsense\n";
        assert_eq!(meminfo(text), BTreeMap::from([("HugePages_Total", 0), ("MemTotal", 24_682_416)]));
    }
}
