use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::wait::eventually;

/// A host of another kind: this machine with a mount table of its own, in which mounts are shared
/// as systemd shares them.
#[derive(Debug)]
pub struct SharedHost {
    keeper: Child,
}

impl SharedHost {
    /// Shares mounts at `from` and below it, and nothing else.
    #[track_caller]
    pub fn below(from: &Path) -> Self {
        let script = "mount --make-rshared \"$0\" && exec sleep infinity";
        let mut keeper = Command::new("unshare");
        keeper.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(from);
        let keeper = keeper.stdin(Stdio::null()).spawn().expect("a mount table can be made");
        let host = Self { keeper };
        eventually(std::time::Duration::from_secs(60), "mounts are shared", || {
            let name = fs::read_to_string(format!("/proc/{}/comm", host.keeper.id()));
            name.is_ok_and(|name| name.trim() == "sleep")
        });
        host
    }

    /// Everything is shared.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it touches the machine, which a default should not")]
    pub fn new() -> Self {
        Self::below(Path::new("/"))
    }

    /// The same command on this host.
    pub fn inside(&self, command: &Command) -> Command {
        let mut outer = Command::new("nsenter");
        outer.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        outer.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id()));
        outer.arg("--").arg(command.get_program()).args(command.get_args());
        outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        outer
    }

    /// A shell's line on this host; answers what it prints.
    #[track_caller]
    pub fn shell(&self, line: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let output = self.inside(&command).output().expect("a shell can be run");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The mounts of this host.
    pub fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", self.keeper.id()));
        table.expect("the host has a mount table").lines().map(str::to_owned).collect()
    }

    /// The mounts that were added since then. One whose place another test removes is gone here
    /// too, and does not count.
    pub fn mounts_since(&self, before: &[String]) -> Vec<String> {
        self.mounts().into_iter().filter(|mount| !before.contains(mount)).collect()
    }

    /// True if a process has this very mount table.
    pub fn is_shared_by(&self, pid: u32) -> bool {
        let table = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).expect("it is running");
        table(pid) == table(self.keeper.id())
    }
}

impl Drop for SharedHost {
    fn drop(&mut self) {
        drop(self.keeper.kill());
        drop(self.keeper.wait());
    }
}
