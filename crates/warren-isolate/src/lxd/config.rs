//! The configuration of a sandbox's instance: limits, devices, and the lines for liblxc that take
//! away what an ordinary container has and a sandbox has not.

use std::path::Path;

use serde_json::{Map, Value, json};
use warren_core::{CreateRequest, Limits};

use super::desk::{AGENT_AT, PLAN, PROGRAM_AT, SOCKET};
use super::instance::{INSTANCE, SANDBOX, name};
use super::record::{RECORD, Record};
use crate::linux::{DEFAULT_HOSTNAME, PROGRAM};
use crate::oci::{MASKED, kept_capabilities};

/// The directories among [`MASKED`], and others in which only the host's root may change anything.
const MASKED_DIRECTORIES: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/driver",
    "/proc/fs",
    "/proc/irq",
    "/proc/pressure",
    "/proc/scsi",
    "/proc/tty",
    "/proc/sys/fs/binfmt_misc",
];

/// Devices that LXD gives to every container.
const COVERED_DEVICES: [&str; 2] = ["dev/fuse", "dev/net/tun"];

/// All that an instance is made of.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) request: &'a CreateRequest,
    pub(super) record: &'a Record,
    /// The data directory's own name.
    pub(super) instance: &'a str,
    /// The directory with the agent's program.
    pub(super) program: &'a Path,
    /// The directory that the agent shares with us.
    pub(super) shared: &'a Path,
    pub(super) pool: &'a str,
    /// The pool holds a root to its size.
    pub(super) sized: bool,
    /// A network namespace, by a path that is there while the instance is started.
    pub(super) network: &'a str,
    /// The daemon is Incus, which has other words for some things.
    pub(super) is_incus: bool,
}

impl Shape<'_> {
    /// The body that makes the instance from an image.
    pub(super) fn instance(&self, fingerprint: &str) -> Value {
        json!({
            "name": name(&self.request.id),
            "type": "container",
            "source": {"type": "image", "fingerprint": fingerprint},
            // Nothing of the profiles that others use: no link, no device.
            "profiles": [],
            "config": self.config(),
            "devices": self.devices(),
        })
    }

    /// The whole configuration: parts of it may differ from one start to the next.
    pub(super) fn config(&self) -> Value {
        let mut config = Map::new();
        let mut set = |name: &str, value: String| config.insert(name.to_owned(), Value::String(value));
        set(INSTANCE, self.instance.to_owned());
        set(SANDBOX, self.request.id.to_string());
        set(RECORD, self.record.to_text());
        set("boot.autostart", "false".to_owned());
        set("security.idmap.isolated", "true".to_owned());
        set("security.nesting", "false".to_owned());
        set("security.privileged", "false".to_owned());
        // By this socket a sandbox would read the record.
        set(if self.is_incus { "security.guestapi" } else { "security.devlxd" }, "false".to_owned());
        for (name, value) in limits(&self.request.spec.limits) {
            set(name, value);
        }
        set("raw.lxc", self.lines().join("\n"));
        Value::Object(config)
    }

    fn devices(&self) -> Value {
        let mut root = json!({"type": "disk", "path": "/", "pool": self.pool});
        if self.sized {
            root["size"] = json!(format!("{}B", self.request.spec.limits.disk.0));
        }
        json!({
            "root": root,
            "program": {"type": "disk", "source": self.program, "path": PROGRAM_AT, "readonly": "true"},
            "agent": {"type": "disk", "source": self.shared, "path": AGENT_AT},
        })
    }

    /// Lines of liblxc's own configuration, which LXD puts after its own.
    fn lines(&self) -> Vec<String> {
        let kept = kept_capabilities().into_iter();
        let kept: Vec<String> =
            kept.map(|name| name.trim_start_matches("CAP_").to_ascii_lowercase()).collect();
        let hostname = self.request.spec.hostname.as_deref().unwrap_or(DEFAULT_HOSTNAME);
        let mut lines = vec![
            format!("lxc.init.cmd={PROGRAM_AT}/{PROGRAM} serve {AGENT_AT}/{SOCKET} --plan {AGENT_AT}/{PLAN}"),
            format!("lxc.uts.name={hostname}"),
            format!("lxc.namespace.share.net={}", self.network),
            // An empty value takes back what LXD said.
            "lxc.cap.drop=".to_owned(),
            format!("lxc.cap.keep={}", kept.join(" ")),
            "lxc.no_new_privs=1".to_owned(),
            "lxc.mount.auto=".to_owned(),
            "lxc.mount.auto=proc:mixed".to_owned(),
            entry("tmpfs", "sys", "tmpfs", "ro,nosuid,nodev,noexec,size=0,mode=555"),
            entry("tmpfs", "dev/shm", "tmpfs", &shm(&self.request.spec.limits)),
        ];
        lines.extend(COVERED_DEVICES.iter().map(|device| cover(device)));
        for directory in MASKED_DIRECTORIES {
            let options = "ro,nosuid,nodev,noexec,size=0,mode=555,optional";
            lines.push(entry("tmpfs", directory.trim_start_matches('/'), "tmpfs", options));
        }
        let files = MASKED.iter().filter(|path| !MASKED_DIRECTORIES.contains(path));
        lines.extend(files.map(|file| cover(file.trim_start_matches('/'))));
        lines
    }
}

/// Room for shared memory, as on native.
fn shm(limits: &Limits) -> String {
    format!("nosuid,nodev,mode=1777,create=dir,size={}", (limits.memory.0 / 2).max(1 << 20))
}

fn entry(source: &str, target: &str, kind: &str, options: &str) -> String {
    format!("lxc.mount.entry={source} {target} {kind} {options} 0 0")
}

/// Puts `/dev/null` over a file, if it is there.
fn cover(target: &str) -> String {
    entry("/dev/null", target, "none", "bind,optional")
}

fn limits(limits: &Limits) -> [(&'static str, String); 4] {
    const PERIOD_MS: u64 = 100;
    let share_ms = (u64::from(limits.cpus.milli()) * PERIOD_MS).div_ceil(1000).max(1);
    [
        ("limits.memory", format!("{}B", limits.memory.0)),
        ("limits.memory.swap", "false".to_owned()),
        ("limits.processes", limits.pids.to_string()),
        ("limits.cpu.allowance", format!("{share_ms}ms/{PERIOD_MS}ms")),
    ]
}

#[cfg(test)]
mod tests {
    use warren_core::{
        FoundImage, OwnerBond, RootImage, RootImageName, SandboxId, SandboxSpec, TemplateName,
    };

    use super::*;

    fn image() -> RootImage {
        "small".parse::<RootImageName>().unwrap().into()
    }

    fn request() -> CreateRequest {
        let spec =
            SandboxSpec { hostname: Some("here".to_owned()), ..SandboxSpec::new(TemplateName::host()) };
        let found = FoundImage { image: image(), trees: Vec::new() };
        CreateRequest::on_image(SandboxId::from_random([1; 16]), &spec, OwnerBond::Outlives, found)
    }

    fn instance(is_incus: bool) -> Value {
        let request = request();
        let shape = Shape {
            record: &Record::new(&request, &image()),
            request: &request,
            instance: "one",
            program: Path::new("/data/program"),
            shared: Path::new("/data/agent"),
            pool: "default",
            sized: true,
            network: "/proc/1/fd/3",
            is_incus,
        };
        shape.instance("abc")
    }

    #[test]
    fn an_instance_is_unprivileged_alone_and_has_no_link() {
        let made = instance(false);
        let config = &made["config"];
        assert_eq!(made["profiles"], json!([]));
        for (name, value) in [
            ("security.privileged", "false"),
            ("security.nesting", "false"),
            ("security.idmap.isolated", "true"),
            ("security.devlxd", "false"),
            ("boot.autostart", "false"),
            ("limits.memory", "4294967296B"),
            ("limits.cpu.allowance", "200ms/100ms"),
            (INSTANCE, "one"),
        ] {
            assert_eq!(config[name], json!(value), "{name}");
        }
        let devices = made["devices"].as_object().unwrap();
        assert_eq!(devices.keys().collect::<Vec<_>>(), ["agent", "program", "root"]);
        assert!(devices.values().all(|device| device["type"] == "disk"));
        assert_eq!(
            (&devices["root"]["size"], &devices["program"]["readonly"]),
            (&json!("10737418240B"), &json!("true"))
        );
    }

    #[test]
    fn lines_for_liblxc_take_everything_away() {
        let made = instance(false);
        let lines: Vec<&str> = made["config"]["raw.lxc"].as_str().unwrap().lines().collect();
        for line in [
            "lxc.uts.name=here",
            "lxc.namespace.share.net=/proc/1/fd/3",
            "lxc.cap.keep=chown dac_override fowner fsetid kill setgid setuid",
            "lxc.no_new_privs=1",
            "lxc.mount.auto=proc:mixed",
            "lxc.mount.entry=/dev/null dev/fuse none bind,optional 0 0",
            "lxc.mount.entry=/dev/null proc/kcore none bind,optional 0 0",
        ] {
            assert!(lines.contains(&line), "{line}: {lines:#?}");
        }
        for path in MASKED {
            let target = format!(" {} ", path.trim_start_matches('/'));
            assert!(lines.iter().any(|line| line.contains(&target)), "{path}");
        }
    }

    #[test]
    fn incus_has_its_own_word_for_its_socket() {
        let config = &instance(true)["config"];
        assert_eq!(config["security.guestapi"], json!("false"));
        assert!(config.get("security.devlxd").is_none());
    }
}
