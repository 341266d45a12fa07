//! Tells where this program came from, and compares it with a release. It reads from the network
//! only what a caller names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::global::Global;
use crate::ui;

/// The most that is read of a release's list of files.
const MOST: u64 = 1 << 20;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Tell which version this is, how it came here and how to replace it; compare it with a release.
///
/// Nothing is read from the network unless --check names a URL. Exit code 0 when this version is
/// the newest of those that are known, 1 when the release is newer.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// Compare with a release: its SHA256SUMS, as a file or a URL; without one, only tell of this
    /// machine
    #[arg(long, value_name = "FILE|URL", num_args = 0..=1)]
    check: Option<Option<String>>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    program: PathBuf,
    installed_by: Origin,
    /// The version of the release that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<Version>,
    newer: bool,
    upgrade_with: String,
}

/// How a program came to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Origin {
    DebianPackage,
    /// A tree of files below a prefix: the archive of a release, or `make install`.
    Tree,
    /// A build directory of cargo.
    Build,
    /// The program alone.
    File,
}

impl Upgrade {
    pub(crate) fn run(self, _: &Global) -> Result<ExitCode, CliError> {
        let program = std::env::current_exe().and_then(fs::canonicalize).map_err(CliError::new)?;
        let release = self.check.flatten().map(|named| read(&named)).transpose()?;
        let report = Report::of(program, Path::new("/var/lib/dpkg/info"), release);
        ui::show(self.json, &report, Report::print);
        Ok(ExitCode::from(u8::from(report.newer)))
    }
}

impl Report {
    fn of(program: PathBuf, packages: &Path, release: Option<Version>) -> Self {
        let installed_by = Origin::of(&program, packages);
        let newer = release.as_ref() > Version::read(VERSION).as_ref();
        let version = release.as_ref().filter(|_| newer).map_or("VERSION", |found| found.text.as_str());
        let upgrade_with = installed_by.upgrade_with(&program, version);
        Self { version: VERSION, program, installed_by, release, newer, upgrade_with }
    }

    fn print(&self) {
        ui::print(&format!("version    {}", self.version));
        ui::print(&format!("program    {}", self.program.display()));
        ui::print(&format!("installed  {}", self.installed_by.told()));
        if let Some(release) = &self.release {
            let verdict = if self.newer { "newer than this" } else { "this is up to date" };
            ui::print_plain(&format!("release    {}, {verdict}", release.text));
        }
        ui::print_plain(&format!("upgrade    {}", self.upgrade_with));
        ui::print("           then `systemctl restart warren` if it is a service; sandboxes go on meanwhile");
    }
}

impl Origin {
    fn of(program: &Path, packages: &Path) -> Self {
        let owns = |list: &str| {
            let files = fs::read_to_string(packages.join(list)).unwrap_or_default();
            files.lines().any(|line| Path::new(line) == program)
        };
        let prefix = program.parent().and_then(Path::parent);
        let beside = |name: &str| prefix.is_some_and(|prefix| prefix.join(name).exists());
        match () {
            () if owns("warren.list") || owns("warren:amd64.list") => Self::DebianPackage,
            () if beside("CACHEDIR.TAG") => Self::Build,
            () if beside("share/man/man1/warren.1") => Self::Tree,
            () => Self::File,
        }
    }

    fn told(self) -> &'static str {
        match self {
            Self::DebianPackage => "as a Debian package",
            Self::Tree => "from an archive, or by `make install`",
            Self::Build => "not at all: it is where cargo built it",
            Self::File => "by hand: the program alone",
        }
    }

    fn upgrade_with(self, program: &Path, version: &str) -> String {
        let prefix =
            program.parent().and_then(Path::parent).unwrap_or_else(|| Path::new("/usr/local")).display();
        match self {
            Self::DebianPackage => format!("sudo dpkg -i warren_{version}_amd64.deb"),
            Self::Tree => {
                format!("sudo tar -xzf warren-{version}-linux-x86_64.tar.gz -C {prefix} --strip-components=1")
            }
            Self::Build => "git pull && make build".to_owned(),
            Self::File => format!("sudo install -m 755 warren {}", program.display()),
        }
    }
}

/// The newest version that a list of a release's files names.
fn read(named: &str) -> Result<Version, CliError> {
    let text = if named.starts_with("http://") || named.starts_with("https://") {
        fetch(named)?
    } else {
        fs::read_to_string(named).map_err(|error| CliError::at(Path::new(named), error))?
    };
    newest(&text).ok_or_else(|| {
        CliError::new(format!("{named} names no release of Warren for this kind of machine"))
            .hint("--check takes the SHA256SUMS of a release")
    })
}

fn fetch(url: &str) -> Result<String, CliError> {
    let failed = |error: ureq::Error| {
        CliError::new(format!("read {url}: {error}")).hint("fetch it yourself, and give --check the file")
    };
    let mut answer = ureq::get(url).call().map_err(failed)?;
    answer.body_mut().with_config().limit(MOST).read_to_string().map_err(failed)
}

fn newest(text: &str) -> Option<Version> {
    let named = |word: &str| {
        let name = word.rsplit('/').next().unwrap_or(word).trim_start_matches('*');
        let archive = name.strip_prefix("warren-").and_then(|rest| rest.strip_suffix("-linux-x86_64.tar.gz"));
        let package = || name.strip_prefix("warren_").and_then(|rest| rest.strip_suffix("_amd64.deb"));
        Version::read(archive.or_else(package)?)
    };
    text.split_whitespace().filter_map(named).max()
}

/// A version as Semantic Versioning orders it: one with a word after a hyphen is before the one
/// without.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 3],
    finished: bool,
    text: String,
}

impl Version {
    fn read(text: &str) -> Option<Self> {
        let (core, rest) =
            text.split_once(['-', '~']).map_or((text, None), |(core, rest)| (core, Some(rest)));
        let mut parts = core.split('.').map(|part| part.parse().ok());
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then(|| Self { numbers, finished: rest.is_none(), text: text.to_owned() })
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::read(text).unwrap()
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let order = ["0.1.0-rc.1", "0.1.0", "0.1.1", "0.9.0", "0.10.0", "1.0.0"].map(version);
        assert!(order.is_sorted());
        for wrong in ["1", "1.2", "1.2.3.4", "a.b.c", "", "1.2.x"] {
            assert_eq!(Version::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_newest_of_a_list_is_found_and_other_names_are_passed_over() {
        let list = "aa  warren-0.9.0-linux-x86_64.tar.gz\nbb *dist/warren_0.10.0_amd64.deb\ncc  warren-9.0.0-linux-arm64.tar.gz\n";
        assert_eq!(newest(list), Some(version("0.10.0")));
        assert_eq!(newest("nothing of ours"), None);
    }

    #[test]
    fn a_program_says_how_it_came_to_its_place() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let program = root.join("bin/warren");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("share/man/man1")).unwrap();
        fs::write(&program, "").unwrap();
        let packages = root.join("info");
        let origin = || Origin::of(&program, &packages);
        assert_eq!(origin(), Origin::File);
        fs::write(root.join("share/man/man1/warren.1"), "").unwrap();
        assert_eq!(origin(), Origin::Tree);
        fs::write(root.join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(origin(), Origin::Build);
        fs::create_dir(&packages).unwrap();
        fs::write(packages.join("warren.list"), format!("/.\n{}\n", program.display())).unwrap();
        assert_eq!(origin(), Origin::DebianPackage);
    }

    #[test]
    fn only_a_release_with_a_higher_version_is_newer() {
        let report = |release: Option<&str>| {
            Report::of("/usr/bin/warren".into(), Path::new("/nowhere"), release.map(version))
        };
        assert!(!report(None).newer);
        assert!(!report(Some(VERSION)).newer);
        assert!(!report(Some("0.0.1")).newer);
        let newer = report(Some("99.0.0"));
        assert!(newer.newer);
        assert_eq!(newer.upgrade_with, "sudo install -m 755 warren /usr/bin/warren");
    }
}
