//! The two things that are written down about a sandbox: its record, in the instance's own
//! configuration, and its life, in our directory. The record is the truth about what exists; the
//! life only says which process is the first one, so that dialing, watching and counting need no
//! daemon.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use warren_core::{CreateRequest, OwnerBond, Root, RootImage, RootTree, SandboxSpec};

use crate::linux::{place_file, start_time, this_boot};

/// The key of the record in an instance's configuration.
pub(super) const RECORD: &str = "user.warren.record";
const FORMAT: u32 = 1;
const LIFE: &str = "life.json";
/// A larger file is no life.
const MOST_BYTES: u64 = 64 << 10;

/// First written when the instance is made. Once its agent has answered it says so, and the
/// sandbox's files belong to its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    pub(super) spec: SandboxSpec,
    pub(super) owner: OwnerBond,
    pub(super) stage: Stage,
    /// The image that it stands on, with its digest.
    image: RootImage,
    trees: Vec<RootTree>,
    pub(super) created_unix_ms: u64,
}

/// How far the making of a sandbox has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Nobody has it yet. Without the process that makes it, it is an orphan.
    Making,
    /// It has been handed out.
    Made,
}

impl Record {
    pub(super) fn new(request: &CreateRequest, image: &RootImage) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            format: FORMAT,
            spec: request.spec.clone(),
            owner: request.owner,
            stage: Stage::Making,
            image: image.clone(),
            trees: request.root.trees().to_vec(),
            created_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn root(&self) -> Root {
        Root::Image { image: self.image.clone(), trees: self.trees.clone() }
    }

    /// The same sandbox at another stage.
    pub(super) fn at(&self, stage: Stage) -> Self {
        Self { stage, ..self.clone() }
    }

    /// The same sandbox with another spec, for somebody else.
    pub(super) fn of(&self, spec: &SandboxSpec, owner: OwnerBond) -> Self {
        Self { spec: spec.clone(), owner, ..self.clone() }
    }

    /// `None` if this version cannot read it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|record| record.format == FORMAT)
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The first process of a sandbox since its last start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Life {
    pub(super) pid: u32,
    pid_started: u64,
    boot: String,
    /// Its control group, below each hierarchy's root.
    pub(super) group: PathBuf,
    /// It has a network, whose connections count.
    #[serde(default)]
    pub(super) networked: bool,
}

impl Life {
    /// The life of a process of an instance; `None` if it has ended.
    pub(super) fn of(pid: u32, name: &str, networked: bool) -> Option<Self> {
        let pid_started = start_time(pid)?;
        let group = group_of(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?, name)?;
        Some(Self { pid, pid_started, boot: this_boot().to_owned(), group, networked })
    }

    pub(super) fn store(&self, directory: &Path) -> io::Result<()> {
        place_file(self, directory, LIFE, |_| Ok(()))
    }

    pub(super) fn load(directory: &Path) -> Option<Self> {
        let mut text = Vec::new();
        fs::File::open(directory.join(LIFE)).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn forget(directory: &Path) -> io::Result<()> {
        match fs::remove_file(directory.join(LIFE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.boot != this_boot() || start_time(self.pid) != Some(self.pid_started)
    }
}

/// The group of an instance, of the lines in `/proc/PID/cgroup`: the path up to the part that
/// carries its name, without the leading slash.
fn group_of(lines: &str, name: &str) -> Option<PathBuf> {
    let paths = lines.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut groups = paths.filter_map(|path| {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let named = parts.iter().position(|part| part.contains(name))?;
        Some(parts[..=named].iter().collect())
    });
    groups.next()
}

#[cfg(test)]
mod tests {
    use warren_core::{FoundImage, RootImageName, SandboxId, TemplateName};

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_no_other_is() {
        let image = RootImage::from("small".parse::<RootImageName>().unwrap());
        let found = FoundImage { image: image.clone(), trees: Vec::new() };
        let (id, spec) = (SandboxId::from_random([1; 16]), SandboxSpec::new(TemplateName::host()));
        let request = CreateRequest::on_image(id, &spec, OwnerBond::Outlives, found);
        let record = Record::new(&request, &image);
        assert_eq!((record.stage, record.root()), (Stage::Making, request.root));
        assert_eq!(Record::parse(&record.to_text()), Some(record.clone()));
        let later = Record { format: 2, ..record.clone() };
        assert_eq!((Record::parse(&later.to_text()), Record::parse("{}")), (None, None));
        assert_eq!(record.at(Stage::Made).stage, Stage::Made);
    }

    #[test]
    fn the_group_of_an_instance_is_found_on_every_kind_of_host() {
        let v1 = "5:devices:/lxc.payload.warren-a\n0::/lxc.payload.warren-a\n";
        assert_eq!(group_of(v1, "warren-a"), Some(PathBuf::from("lxc.payload.warren-a")));
        let v2 = "0::/system.slice/lxc.payload.warren-a/init.scope\n";
        assert_eq!(group_of(v2, "warren-a"), Some(PathBuf::from("system.slice/lxc.payload.warren-a")));
        assert_eq!(group_of("0::/user.slice\n", "warren-a"), None);
    }

    #[test]
    fn a_life_ends_with_its_process() {
        let place = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let started = start_time(pid).unwrap();
        let life = Life {
            pid,
            pid_started: started,
            boot: this_boot().to_owned(),
            group: PathBuf::from("x"),
            networked: false,
        };
        assert!(!life.is_over() && Life { pid_started: started + 1, ..life.clone() }.is_over());
        assert!(Life { boot: "another".to_owned(), ..life.clone() }.is_over());
        assert_eq!(Life::load(place.path()), None);
        life.store(place.path()).unwrap();
        assert_eq!(Life::load(place.path()), Some(life));
        Life::forget(place.path()).unwrap();
        Life::forget(place.path()).unwrap();
        assert_eq!(Life::load(place.path()), None);
    }
}
