//! The host's hierarchies, and the choice of one for each job.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use warren_core::Limits;

use super::{CgroupError, write};

/// A controller that a sandbox cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// The control groups cannot hold a sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayoutError {
    #[error("the control group controller `{0}` is on no mounted hierarchy: mount cgroup2 with it enabled")]
    Missing(&'static str),
    #[error("no hierarchy can freeze processes: mount cgroup2, or the v1 freezer")]
    NoFreezer,
}

/// One file of a group and what it is set to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    pub(super) root: &'a Path,
    pub(super) file: &'static str,
    pub(super) value: String,
    /// Not every host has the file.
    pub(super) optional: bool,
}

impl<'a> Setting<'a> {
    fn needed(root: &'a Path, file: &'static str, value: String) -> Self {
        Self { root, file, value, optional: false }
    }

    fn optional(root: &'a Path, file: &'static str, value: String) -> Self {
        Self { root, file, value, optional: true }
    }
}

/// Limit of socket buffers, not only TCP's, which v1 counts apart from memory and only once they
/// are limited. On v2 they are memory.
const SOCKET_BUFFERS: &str = "memory.kmem.tcp.limit_in_bytes";
/// A quarter of the memory, but enough for a few connections at their largest.
const LEAST_BUFFERS: u64 = 4 << 20;

/// Period of the processor quota in microseconds, as the kernel's default.
const PERIOD_US: u64 = 100_000;

/// Files and values by which a hierarchy freezes.
#[derive(Debug)]
pub(super) struct FreezeControl {
    pub(super) file: &'static str,
    pub(super) freeze: &'static str,
    pub(super) thaw: &'static str,
    pub(super) state_file: &'static str,
    pub(super) frozen_line: &'static str,
}

const V2_FREEZER: FreezeControl = FreezeControl {
    file: "cgroup.freeze",
    freeze: "1",
    thaw: "0",
    state_file: "cgroup.events",
    frozen_line: "frozen 1",
};

const V1_FREEZER: FreezeControl = FreezeControl {
    file: "freezer.state",
    freeze: "FROZEN",
    thaw: "THAWED",
    state_file: "freezer.state",
    frozen_line: "FROZEN",
};

/// The hierarchies in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    v2: Option<PathBuf>,
    /// Controllers that are not on v2, with their v1 mount points.
    v1: BTreeMap<Controller, PathBuf>,
    v1_freezer: Option<PathBuf>,
    v1_accounting: Option<PathBuf>,
    /// The hierarchy that counts bytes read from and written to devices, if any does.
    io: Option<IoCounter>,
}

/// A hierarchy that counts bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IoCounter {
    V1(PathBuf),
    V2(PathBuf),
}

const V1_IO_COUNTERS: &str = "blkio.throttle.io_service_bytes";

impl IoCounter {
    /// False on recent kernels with v1, which count only for throttled devices. Then even the root
    /// group has no line.
    fn counts(&self) -> bool {
        match self {
            Self::V1(root) => {
                let text = fs::read_to_string(root.join(V1_IO_COUNTERS)).unwrap_or_default();
                text.lines().any(|line| !line.starts_with("Total"))
            }
            Self::V2(_) => true,
        }
    }
}

impl Layout {
    /// Reads the host's mounts.
    pub(crate) fn detect() -> Result<Self, LayoutError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut layout = Self::from_mounts(&mounts, |root| {
            fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
        })?;
        layout.io.take_if(|io| !io.counts());
        Ok(layout)
    }

    /// The hierarchies in which a container engine makes its groups: where v1 and v2 are side by
    /// side, those of v1.
    pub(crate) fn of_engines() -> Result<Self, LayoutError> {
        let layout = Self::detect()?;
        if !layout.is_hybrid() {
            return Ok(layout);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let v1: Vec<&str> = mounts.lines().filter(|line| !line.contains(" - cgroup2 ")).collect();
        let v1 = Self::from_mounts(&v1.join("\n"), |_| String::new())?;
        Ok(Self { io: layout.io, ..v1 })
    }

    /// The decision itself, on given mounts and given v2 controllers.
    fn from_mounts(mountinfo: &str, v2_controllers: impl Fn(&Path) -> String) -> Result<Self, LayoutError> {
        let mounts: Vec<CgroupMount> = mountinfo.lines().filter_map(CgroupMount::parse).collect();
        let v2 = mounts.iter().find(|mount| mount.controllers.is_none()).map(|mount| mount.at.clone());
        let on_v2 = v2.as_deref().map(v2_controllers).unwrap_or_default();
        let v1_mount = |name: &str| {
            let holds = |mount: &&CgroupMount| {
                mount.controllers.iter().flatten().any(|controller| controller == name)
            };
            mounts.iter().find(holds).map(|mount| mount.at.clone())
        };
        let mut v1 = BTreeMap::new();
        for controller in Controller::ALL {
            let name = controller.name();
            if !on_v2.split_whitespace().any(|known| known == name) {
                v1.insert(controller, v1_mount(name).ok_or(LayoutError::Missing(name))?);
            }
        }
        let v1_freezer =
            if v2.is_none() { Some(v1_mount("freezer").ok_or(LayoutError::NoFreezer)?) } else { None };
        let v1_accounting = if v2.is_none() { v1_mount("cpuacct") } else { None };
        let io = match &v2 {
            Some(root) if on_v2.split_whitespace().any(|known| known == "io") => {
                Some(IoCounter::V2(root.clone()))
            }
            _ => v1_mount("blkio").map(IoCounter::V1),
        };
        Ok(Self { v2, v1, v1_freezer, v1_accounting, io })
    }

    /// Roots of mounted v1 hierarchies that are not in use.
    pub(super) fn unused(&self) -> Vec<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts = mounts.lines().filter_map(CgroupMount::parse).map(|mount| mount.at);
        mounts.filter(|at| self.roots().all(|root| root != at)).collect()
    }

    /// True if there are v1 controllers beside v2.
    pub(crate) fn is_hybrid(&self) -> bool {
        self.v2.is_some() && !self.v1.is_empty()
    }

    /// A description for `doctor`.
    pub(crate) fn describe(&self) -> &'static str {
        match (&self.v2, self.v1.is_empty()) {
            (Some(_), true) => "v2",
            (Some(_), false) => "hybrid: limits on v1, freezing and counting on v2",
            (None, _) => "v1",
        }
    }

    /// Root of every hierarchy in use, each once.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.v2_root().into_iter().chain(self.v1_roots())
    }

    pub(super) fn v2_root(&self) -> Option<&Path> {
        self.v2.as_deref()
    }

    pub(super) fn v1_roots(&self) -> impl Iterator<Item = &Path> {
        let mut roots: Vec<&Path> = self.v1.values().map(PathBuf::as_path).collect();
        roots.extend(self.v1_freezer.as_deref());
        roots.extend(self.v1_accounting.as_deref());
        if let Some(IoCounter::V1(root)) = &self.io {
            roots.push(root);
        }
        roots.sort_unstable();
        roots.dedup();
        roots.into_iter()
    }

    pub(super) fn v1_accounting(&self) -> Option<&Path> {
        self.v1_accounting.as_deref()
    }

    /// The file that counts bytes read from and written to devices, for each of them and each kind.
    pub(super) fn io(&self) -> Option<(&Path, &'static str)> {
        self.io.as_ref().map(|io| match io {
            IoCounter::V1(root) => (root.as_path(), V1_IO_COUNTERS),
            IoCounter::V2(root) => (root.as_path(), "io.stat"),
        })
    }

    /// The hierarchy that limits memory; true if it is v1.
    pub(super) fn memory(&self) -> (Option<&Path>, bool) {
        self.holder(Controller::Memory)
    }

    /// Where memory used, memory statistics and processor time used can be read.
    pub(super) fn gauges(&self) -> [Option<(&Path, &'static str)>; 3] {
        let (memory, v1) = self.memory();
        let used = if v1 { "memory.usage_in_bytes" } else { "memory.current" };
        let cpu = match (self.v2_root(), self.v1_accounting()) {
            (Some(root), _) => Some((root, "cpu.stat")),
            (None, accounting) => accounting.map(|root| (root, "cpuacct.usage")),
        };
        [memory.map(|root| (root, used)), memory.map(|root| (root, "memory.stat")), cpu]
    }

    /// True if socket buffers are limited.
    pub(crate) fn counts_buffers(&self) -> bool {
        match self.memory() {
            (Some(root), true) => root.join(SOCKET_BUFFERS).exists(),
            (root, _) => root.is_some(),
        }
    }

    pub(super) fn pids(&self) -> Option<&Path> {
        self.holder(Controller::Pids).0
    }

    pub(super) fn freezer(&self) -> (&Path, FreezeControl) {
        match (&self.v2, &self.v1_freezer) {
            (Some(root), _) => (root, V2_FREEZER),
            (None, Some(root)) => (root, V1_FREEZER),
            (None, None) => unreachable!("`from_mounts` refuses a layout without a freezer"),
        }
    }

    /// Lets the groups along the path hand v2 controllers to their children.
    pub(super) fn delegate(&self, path: &[&str]) -> Result<(), CgroupError> {
        let Some(root) = self.v2_root() else { return Ok(()) };
        let wanted: Vec<String> = Controller::ALL
            .iter()
            .filter(|controller| !self.v1.contains_key(controller))
            .map(|controller| format!("+{}", controller.name()))
            .collect();
        let hand = |wanted: &str| {
            path.iter().try_for_each(|part| write(&root.join(part).join("cgroup.subtree_control"), wanted))
        };
        if let Some(IoCounter::V2(_)) = self.io {
            // It only counts, so sandboxes work on a host that refuses it.
            drop(hand("+io"));
        }
        if wanted.is_empty() { Ok(()) } else { hand(&wanted.join(" ")) }
    }

    /// Every file to be written for these limits.
    pub(super) fn settings(&self, limits: &Limits) -> Vec<Setting<'_>> {
        let mut settings = self.totals(limits.memory.0, u64::from(limits.pids));
        let quota = u64::from(limits.cpus.milli()) * PERIOD_US / 1000;
        match self.holder(Controller::Cpu) {
            (Some(root), true) => {
                settings.push(Setting::needed(root, "cpu.cfs_quota_us", quota.to_string()));
            }
            (Some(root), false) => {
                settings.push(Setting::needed(root, "cpu.max", format!("{quota} {PERIOD_US}")))
            }
            (None, _) => {}
        }
        settings
    }

    /// The files that limit memory and processes. A host without swap accounting has no file for
    /// the swap limit.
    pub(super) fn totals(&self, memory: u64, pids: u64) -> Vec<Setting<'_>> {
        let mut settings = Vec::new();
        match self.holder(Controller::Memory) {
            (Some(root), true) => {
                settings.push(Setting::needed(root, "memory.limit_in_bytes", memory.to_string()));
                settings.push(Setting::optional(root, "memory.memsw.limit_in_bytes", memory.to_string()));
                let buffers = (memory / 4).max(LEAST_BUFFERS).to_string();
                settings.push(Setting::optional(root, SOCKET_BUFFERS, buffers));
            }
            (Some(root), false) => {
                settings.push(Setting::needed(root, "memory.max", memory.to_string()));
                settings.push(Setting::optional(root, "memory.swap.max", "0".to_owned()));
            }
            (None, _) => {}
        }
        if let Some(root) = self.pids() {
            settings.push(Setting::needed(root, "pids.max", pids.to_string()));
        }
        settings
    }

    /// The file with a group's share of busy processors; 100 is the default.
    pub(super) fn weight(&self, weight: u32) -> Vec<Setting<'_>> {
        match self.holder(Controller::Cpu) {
            (Some(root), true) => {
                vec![Setting::needed(root, "cpu.shares", (u64::from(weight) * 1024 / 100).to_string())]
            }
            (Some(root), false) => vec![Setting::needed(root, "cpu.weight", weight.to_string())],
            (None, _) => Vec::new(),
        }
    }

    fn holder(&self, controller: Controller) -> (Option<&Path>, bool) {
        match self.v1.get(&controller) {
            Some(root) => (Some(root), true),
            None => (self.v2_root(), false),
        }
    }
}

/// One mounted hierarchy. `controllers` is absent for v2.
struct CgroupMount {
    at: PathBuf,
    controllers: Option<Vec<String>>,
}

impl CgroupMount {
    fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let at = PathBuf::from(left.split(' ').nth(4)?);
        let mut right = right.split(' ');
        let controllers = match right.next()? {
            "cgroup2" => None,
            "cgroup" => Some(right.nth(1)?.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Self { at, controllers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer";
    const BARE_V2: &str = "35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    fn files(layout: &Layout) -> Vec<&'static str> {
        layout.settings(&Limits::default()).into_iter().map(|setting| setting.file).collect()
    }

    #[test]
    fn a_v2_host_uses_one_tree() {
        let layout = Layout::from_mounts(V2, |_| "cpuset cpu io memory pids".to_owned()).unwrap();
        assert_eq!(layout.roots().collect::<Vec<_>>(), [Path::new("/sys/fs/cgroup")]);
        assert_eq!(files(&layout), ["memory.max", "memory.swap.max", "pids.max", "cpu.max"]);
        assert_eq!(layout.freezer().1.file, "cgroup.freeze");
        assert_eq!(layout.describe(), "v2");
        let root = Path::new("/sys/fs/cgroup");
        let files = ["memory.current", "memory.stat", "cpu.stat"];
        assert_eq!(layout.gauges(), files.map(|file| Some((root, file))));
        assert_eq!(layout.io(), Some((root, "io.stat")));
    }

    #[test]
    fn a_v1_host_uses_each_controllers_tree_once() {
        let layout = Layout::from_mounts(V1, |_| String::new()).unwrap();
        assert_eq!(layout.roots().count(), 4);
        assert_eq!(layout.freezer().1.file, "freezer.state");
        assert_eq!(layout.v1_accounting(), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(layout.describe(), "v1");
        let settings =
            layout.settings(&Limits { memory: warren_core::ByteSize::mib(64), ..Limits::default() });
        let buffers = settings.iter().find(|setting| setting.file == SOCKET_BUFFERS).unwrap();
        assert_eq!((buffers.value.as_str(), buffers.optional), ("16777216", true));
        assert_eq!(layout.gauges()[2].map(|(_, file)| file), Some("cpuacct.usage"));
    }

    #[test]
    fn a_hybrid_host_limits_on_v1_and_freezes_on_v2() {
        let layout = Layout::from_mounts(&format!("{V1}\n{BARE_V2}"), |_| String::new()).unwrap();
        assert_eq!(layout.v2_root(), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(layout.v1_roots().count(), 3);
        assert_eq!(layout.freezer().0, Path::new("/sys/fs/cgroup/unified"));
        assert!(layout.describe().starts_with("hybrid"));
        let files = layout.gauges().map(|gauge| gauge.map(|(_, file)| file));
        assert_eq!(files, [Some("memory.usage_in_bytes"), Some("memory.stat"), Some("cpu.stat")]);
        assert_eq!(layout.io(), None);
    }

    #[test]
    fn bytes_are_counted_on_v1_where_v2_does_not() {
        let mounts =
            format!("{V1}\n{BARE_V2}\n36 30 0:32 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio");
        let layout = Layout::from_mounts(&mounts, |_| String::new()).unwrap();
        assert_eq!(layout.io(), Some((Path::new("/sys/fs/cgroup/blkio"), V1_IO_COUNTERS)));
        assert!(layout.v1_roots().any(|root| root == Path::new("/sys/fs/cgroup/blkio")));
    }

    #[test]
    fn a_missing_controller_is_named() {
        let error = Layout::from_mounts(BARE_V2, |_| "cpu pids".to_owned()).unwrap_err();
        assert!(matches!(error, LayoutError::Missing("memory")));
    }
}
