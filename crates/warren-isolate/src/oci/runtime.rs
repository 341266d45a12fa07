//! The runtimes: which they are, where they are, how old, and the words that start a sandbox.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An OCI runtime that is driven directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Crun,
    Runc,
    /// gVisor's.
    Runsc,
}

/// Why a runtime cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error(
        "the runtime `{name}` is not installed: install it (Debian: apt install {name}), or take `{name}` out of backends.enabled"
    )]
    Missing { name: &'static str },
    #[error("ask `{}` for its version: is it an executable of this machine?", program.display())]
    Execute { program: PathBuf, source: std::io::Error },
    #[error("`{} --version` failed: {said}", program.display())]
    Failed { program: PathBuf, said: String },
    #[error("`{}` is version {found}, and {least} is the least that works: install a newer {name}", program.display())]
    Old { name: &'static str, program: PathBuf, found: String, least: &'static str },
}

/// Directories that are looked through, in this order. The environment has no say in it.
const PLACES: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// gVisor's latest version that was tried.
pub(super) const TRIED_RUNSC: &str = "20221219.0";

/// The environment of a runtime's process.
pub(super) const ENVIRONMENT: [&str; 1] =
    ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"];

/// A runtime that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) program: PathBuf,
    pub(super) version: String,
    /// An option that only some versions know, and the others do without.
    pub(super) extra: &'static str,
}

/// Paths and words of one start.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) state: &'a str,
    pub(super) bundle: &'a str,
    pub(super) pid_file: &'a str,
    pub(super) id: &'a str,
    /// Descriptors from 3 on that the agent gets.
    pub(super) descriptors: usize,
    /// Processes that go on, in the directory where they were put.
    pub(super) memory: Option<&'a str>,
    /// It has a network besides its own loopback.
    pub(super) network: bool,
}

impl Runtime {
    pub const ALL: [Self; 3] = [Self::Crun, Self::Runc, Self::Runsc];

    /// The name of the program and of the backend.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Runsc => "runsc",
        }
    }

    /// The runtime of a backend's name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.name() == name)
    }

    /// The oldest version that has everything used here. gVisor counts by date.
    pub(super) fn least(self) -> &'static str {
        match self {
            Self::Crun => "1.0",
            Self::Runc => "1.1.0",
            Self::Runsc => "20221219.0",
        }
    }

    /// True if the version is later than any that was tried.
    pub(super) fn is_untried(self, version: &str) -> bool {
        self == Self::Runsc && numbers(version) > numbers(TRIED_RUNSC)
    }

    /// Finds the program and asks for its version.
    pub(super) fn find(self) -> Result<Installed, RuntimeError> {
        self.find_in(PLACES.iter().map(Path::new))
    }

    fn find_in<'a>(self, places: impl Iterator<Item = &'a Path>) -> Result<Installed, RuntimeError> {
        let name = self.name();
        let mut programs = places.map(|place| place.join(name));
        let program = programs.find(|program| program.is_file()).ok_or(RuntimeError::Missing { name })?;
        let asked = Command::new(&program).arg("--version").env_clear().stdin(Stdio::null()).output();
        let output = match asked {
            Ok(output) => output,
            Err(source) => return Err(RuntimeError::Execute { program, source }),
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = version(&said).filter(|_| output.status.success());
        let Some(found) = version else {
            let said = format!("{said}{}", String::from_utf8_lossy(&output.stderr)).trim().to_owned();
            return Err(RuntimeError::Failed { program, said });
        };
        let least = self.least();
        if numbers(&found) < numbers(least) {
            return Err(RuntimeError::Old { name, program, found, least });
        }
        let extra = if self == Self::Runsc { overlay_option(&program) } else { "" };
        Ok(Installed { program, version: found, extra })
    }

    /// The words after the program's name.
    pub(super) fn words(self, run: &Run<'_>) -> Vec<String> {
        let mut words: Vec<&str> = match self {
            // Our own groups hold the sandbox; the process that starts it is in them already.
            Self::Crun => vec!["--cgroup-manager=disabled"],
            Self::Runc => Vec::new(),
            Self::Runsc => vec![
                // Works everywhere, also inside a virtual machine.
                "--platform=ptrace",
                // Sockets are those of the namespace that the stage has entered, and our rules hold
                // for them. Without a network its kernel keeps loopback to itself.
                if run.network { "--network=host" } else { "--network=none" },
                "--ignore-cgroups",
                // The agent's own socket, in a directory that holds nothing else.
                "--host-uds=all",
                // What is written is in our layer at once, for whoever copies it.
                "--file-access=shared",
            ],
        };
        let verb = if run.memory.is_some() { "restore" } else { "run" };
        words.extend(["--root", run.state, verb, "--detach", "--pid-file", run.pid_file]);
        words.extend(run.memory.into_iter().flat_map(|image| ["--image-path", image]));
        let descriptors = run.descriptors.to_string();
        if run.descriptors > 0 {
            words.extend(["--preserve-fds", &descriptors]);
        }
        words.extend(["--bundle", run.bundle, run.id]);
        words.into_iter().map(str::to_owned).collect()
    }
}

/// Has gVisor write to the root itself. Newer versions put a layer of their own on it otherwise,
/// and then refuse a root that is shared with us; older ones do not know the option. The program
/// itself tells which it is.
fn overlay_option(runsc: &Path) -> &'static str {
    let asked = Command::new(runsc).arg("flags").env_clear().stdin(Stdio::null()).output();
    let known = asked.is_ok_and(|said| {
        [said.stdout, said.stderr].iter().any(|said| {
            let said = String::from_utf8_lossy(said);
            said.lines().any(|line| line.trim().trim_start_matches('-').split(' ').next() == Some("overlay2"))
        })
    });
    if known { "--overlay2=none" } else { "" }
}

/// The first word of `--version` that begins with a digit, after `version` or `release-`.
fn version(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains("version"))?;
    let word = line.split_whitespace().skip_while(|word| *word != "version").nth(1)?;
    let word = word.trim_start_matches("release-").trim_start_matches("0.0~");
    word.starts_with(|first: char| first.is_ascii_digit()).then(|| word.to_owned())
}

/// `1.1.5+ds1` as numbers that compare.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|part: char| !part.is_ascii_digit()).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn versions_are_read_as_the_runtimes_tell_them() {
        let cases = [
            ("crun version 1.8.1\ncommit: f8a096be\n", Some("1.8.1")),
            ("runc version 1.1.5+ds1\ncommit: 1.1.5\n", Some("1.1.5+ds1")),
            ("runsc version 0.0~20221219.0\nspec: 1.0.2\n", Some("20221219.0")),
            ("runsc version release-20260811.0\nspec: 1.1.0-rc.1\n", Some("20260811.0")),
            ("usage: something else\n", None),
            ("what version\n", None),
        ];
        for (said, expected) in cases {
            assert_eq!(version(said).as_deref(), expected, "{said}");
        }
        assert!(numbers("1.10.0") > numbers("1.9.9") && numbers("1.1.0+x") >= numbers("1.1.0"));
        assert!(Runtime::Runsc.is_untried("20260811.0") && !Runtime::Runsc.is_untried(TRIED_RUNSC));
        assert!(numbers("1.0.3") < numbers("1.1.0") && numbers("20260811.0") > numbers("20221219.0"));
    }

    fn script(place: &Path, name: &str, text: &str) {
        let path = place.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_runtime_that_cannot_be_used_is_named_with_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let find = |runtime: Runtime| runtime.find_in([place.path()].into_iter());
        let missing = find(Runtime::Crun).unwrap_err();
        assert!(matches!(missing, RuntimeError::Missing { name: "crun" }));
        assert!(missing.to_string().contains("apt install crun"), "{missing}");
        script(place.path(), "runc", "echo runc version 1.0.3");
        let old = find(Runtime::Runc).unwrap_err().to_string();
        assert!(old.contains("1.0.3") && old.contains("1.1.0"), "{old}");
        script(place.path(), "crun", "echo broken >&2; exit 3");
        let broken = find(Runtime::Crun).unwrap_err();
        assert!(matches!(&broken, RuntimeError::Failed { said, .. } if said == "broken"), "{broken}");
        script(place.path(), "runsc", "echo runsc version release-20260811.0");
        assert_eq!(find(Runtime::Runsc).unwrap().version, "20260811.0");
    }

    #[test]
    fn gvisor_is_told_not_to_cover_its_root_if_it_knows_how() {
        let place = tempfile::tempdir().unwrap();
        let version = "echo runsc version release-20260811.0";
        for (flags, extra) in [
            ("echo '  -overlay2 value'; echo 'wrap mounts'", "--overlay2=none"),
            ("echo '  -overlay2 value' >&2", "--overlay2=none"),
            ("echo '  -overlay'; echo 'use --overlay2=all:memory'", ""),
            ("exit 3", ""),
        ] {
            let text = format!("if [ \"$1\" = flags ]; then {flags}; else {version}; fi");
            script(place.path(), "runsc", &text);
            let found = Runtime::Runsc.find_in([place.path()].into_iter()).unwrap();
            assert_eq!(found.extra, extra, "{flags}");
        }
    }
}
