//! The configuration of one sandbox for a runtime: the parts of the OCI specification that are used
//! here.

use serde_json::{Value, json};
use warren_core::CreateRequest;
use warren_wire::guest::Staged;

use super::runtime::Runtime;
use crate::linux::{DEFAULT_HOSTNAME, KEPT_CAPABILITIES, Parts, seccomp_document};

/// Files and directories of `/proc` that tell of the host or act on it. The runtime covers them.
pub(crate) const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/driver",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/partitions",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/swaps",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/tty",
];

/// Parts of `/proc` that only the host may change.
pub(crate) const READ_ONLY: &[&str] = &["/proc/sys", "/proc/sysrq-trigger"];

/// Ids of a sandbox's range that are mapped, as on native.
const MAPPED_IDS: u32 = 65_535;

/// Names of [`KEPT_CAPABILITIES`].
pub(crate) fn kept_capabilities() -> Vec<&'static str> {
    let kept = |(number, _): &&(u32, &str)| KEPT_CAPABILITIES & (1 << number) != 0;
    CAPABILITIES.iter().filter(kept).map(|(_, name)| *name).collect()
}

/// The same by number.
const CAPABILITIES: [(u32, &str); 7] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    (3, "CAP_FOWNER"),
    (4, "CAP_FSETID"),
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
];

/// All that the configuration is made of.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) runtime: Runtime,
    pub(super) request: &'a CreateRequest,
    pub(super) parts: &'a Parts,
    /// Where the stage mounts everything.
    pub(super) place: &'a str,
    /// The agent's command line.
    pub(super) arguments: Vec<String>,
    /// The group, where the runtime puts the sandbox into one itself.
    pub(super) group: Option<String>,
    /// Where the agent finds what it shares with the host, staged as the last bind.
    pub(super) shared: Option<&'static str>,
    /// The runtime is in the sandbox's user namespace already.
    pub(super) enters: bool,
}

impl Shape<'_> {
    pub(super) fn config(&self) -> Value {
        let spec = &self.request.spec;
        let kept = kept_capabilities();
        json!({
            "ociVersion": "1.0.2",
            "hostname": spec.hostname.as_deref().unwrap_or(DEFAULT_HOSTNAME),
            "root": {"path": format!("{}/{}", self.place, Staged::ROOT), "readonly": false},
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": self.arguments,
                "env": [],
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": {"bounding": kept, "effective": kept, "permitted": kept},
            },
            "mounts": self.mounts(),
            "linux": self.linux(),
        })
    }

    fn linux(&self) -> Value {
        let mut linux = json!({
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "rootfsPropagation": "private",
        });
        let mut names = vec!["pid", "ipc", "uts", "mount"];
        if !self.enters {
            let map = json!([{"containerID": 0, "hostID": self.parts.id_base, "size": MAPPED_IDS}]);
            linux["uidMappings"] = map.clone();
            linux["gidMappings"] = map;
            names.push("user");
        }
        if self.runtime != Runtime::Runsc {
            names.push("cgroup");
            linux["seccomp"] = seccomp_document(self.request.spec.profile);
        }
        // The network is that of the runtime's own process, which the stage has entered.
        linux["namespaces"] = names.into_iter().map(|name| json!({"type": name})).collect();
        if let Some(group) = &self.group {
            linux["cgroupsPath"] = json!(group);
        }
        linux
    }

    /// In this order: what is below something else comes after it.
    fn mounts(&self) -> Vec<Value> {
        let root = &self.parts.root;
        let at = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let staged = |name: &str, at: String| bind(format!("{}/{name}", self.place), at);
        let mut mounts = Vec::new();
        let trees = root.trees.iter().enumerate().skip(1);
        mounts.extend(trees.map(|(number, tree)| staged(&Staged::tree(number), at(&tree.at))));
        let shown = root.shown.iter().enumerate();
        mounts.extend(shown.map(|(number, (path, _))| staged(&Staged::shown(number), at(path))));
        mounts.push(json!({
            "destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "nodev", "noexec"],
        }));
        if self.runtime == Runtime::Runsc {
            // It has devices, `/sys` and a machine of its own.
            mounts.push(json!({"destination": "/dev/shm", "type": "tmpfs", "source": "shm"}));
            mounts.push(json!({"destination": "/run", "type": "tmpfs", "source": "run"}));
            // Of the root, or it would be one in memory that no snapshot has.
            mounts.push(staged(&format!("{}/tmp", Staged::ROOT), "/tmp".to_owned()));
        } else {
            // crun does not take along what is mounted below.
            let below: &[&str] =
                if self.runtime == Runtime::Crun { &["dev/pts", "dev/shm", "run/warren/sudo"] } else { &[] };
            for name in [Staged::DEV, Staged::RUN].iter().chain(below) {
                mounts.push(staged(name, format!("/{name}")));
            }
            mounts.push(staged(&format!("{}/sys", Staged::MACHINE), "/sys".to_owned()));
            mounts.push(staged(&format!("{}/cpuinfo", Staged::MACHINE), "/proc/cpuinfo".to_owned()));
            mounts.extend(
                Staged::COVERED
                    .map(|name| staged(&format!("{}/{name}", Staged::COVERS), format!("/proc/{name}"))),
            );
        }
        let binds = root.binds.iter().enumerate();
        mounts.extend(binds.map(|(number, mount)| staged(&Staged::bind(number), at(&mount.at))));
        let shared = self.shared.map(|at| staged(&Staged::bind(root.binds.len()), at.to_owned()));
        mounts.extend(shared);
        mounts
    }
}

/// A mount as it is, with what is mounted below it, which the kernel does not let go alone. Its
/// flags are those of the source.
fn bind(source: String, at: String) -> Value {
    json!({"destination": at, "type": "bind", "source": source, "options": ["rbind"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kept_capability_has_a_name_and_they_are_few() {
        let named = CAPABILITIES.iter().fold(0, |set, (number, _)| set | 1 << number);
        assert_eq!(named, KEPT_CAPABILITIES);
        assert!(KEPT_CAPABILITIES.count_ones() <= 8);
    }
}
