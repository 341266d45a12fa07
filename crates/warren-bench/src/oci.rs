use std::path::Path;

use serde_json::{Value, json};
use warren_core::{Limits, RootTree};

/// The configuration for an OCI runtime: the default of `runc spec` with Warren's root and limits.
/// Like that default it has no user namespace and no system call filter.
pub(crate) fn config(rootfs: &Path, binds: &[RootTree], limits: &Limits, argv: &[&str]) -> Value {
    let capabilities = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"];
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": argv,
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/",
            "capabilities": {
                "bounding": capabilities,
                "effective": capabilities,
                "permitted": capabilities,
            },
            "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024 }],
            "noNewPrivileges": true,
        },
        "root": { "path": rootfs, "readonly": true },
        "hostname": "sandbox",
        "mounts": mounts(binds),
        "linux": {
            "namespaces": namespaces,
            "resources": resources(limits),
            "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}

fn mounts(binds: &[RootTree]) -> Vec<Value> {
    let of = |at: &str, kind: &str, options: &[&str]| json!({ "destination": at, "type": kind, "source": kind, "options": options });
    let mut mounts = vec![
        of("/proc", "proc", &["nosuid", "nodev", "noexec"]),
        of("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        of("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
        of("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
        of("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777"]),
    ];
    mounts.extend(binds.iter().filter_map(|tree| {
        let source = tree.lowers.last()?;
        Some(json!({ "destination": tree.at, "type": "bind", "source": source, "options": ["bind", "ro"] }))
    }));
    mounts
}

fn resources(limits: &Limits) -> Value {
    let period = 100_000;
    json!({
        "devices": [{ "allow": false, "access": "rwm" }],
        "memory": { "limit": limits.memory.0 },
        "pids": { "limit": limits.pids },
        "cpu": { "quota": u64::from(limits.cpus.milli()) * period / 1000, "period": period },
    })
}

#[cfg(test)]
mod tests {
    use warren_core::MountAccess;

    use super::*;

    #[test]
    fn the_bundle_holds_our_root_and_our_limits() {
        let usr = RootTree { at: "/usr".into(), lowers: vec!["/usr".into()], access: MountAccess::ReadOnly };
        let config = config(Path::new("/b/rootfs"), &[usr], &Limits::default(), &["/bin/true"]);
        let read: Value = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(read["root"], json!({ "path": "/b/rootfs", "readonly": true }));
        assert_eq!(read["process"]["args"], json!(["/bin/true"]));
        assert_eq!(read["linux"]["resources"]["memory"]["limit"], json!(4_u64 << 30));
        assert_eq!(read["linux"]["resources"]["pids"]["limit"], json!(1024));
        assert_eq!(read["linux"]["resources"]["cpu"], json!({ "quota": 200_000, "period": 100_000 }));
        let usr = read["mounts"].as_array().unwrap().last().unwrap();
        assert_eq!(
            *usr,
            json!({ "destination": "/usr", "type": "bind", "source": "/usr", "options": ["bind", "ro"] })
        );
    }
}
