//! The record of a sandbox. It, and not the engine's labels, tells the spec: labels cannot be
//! changed.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use warren_core::{CreateRequest, OwnerBond, RootTree, SandboxSpec};

use super::upper::Imprint;
use crate::linux::{place_file, start_time, this_boot};

const FILE: &str = "record";
const FORMAT: u32 = 1;
const MOST_BYTES: u64 = 4 << 20;

/// How far a sandbox has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// It has not been handed out: a crash leaves nothing of it.
    Making,
    /// It was handed out, and is being started again from its files.
    Resuming,
    Started,
    Halted,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) format: u32,
    pub(super) spec: SandboxSpec,
    pub(super) owner: OwnerBond,
    pub(super) trees: Vec<RootTree>,
    pub(super) created_unix_ms: u64,
    pub(super) stage: Stage,
    /// The first process, as the machine counts, and when it began.
    pub(super) pid: u32,
    pub(super) pid_started: u64,
    pub(super) boot: String,
    /// The group of its processes below each hierarchy's root.
    pub(super) group: PathBuf,
    /// Where the engine keeps what it writes, if it says so.
    pub(super) files: Option<PathBuf>,
    /// It is started in the network of the door.
    #[serde(default)]
    pub(super) door: bool,
    /// Its layers are still to be copied there.
    #[serde(default)]
    pub(super) bare: bool,
    /// Its files as they were when it was first started on these layers.
    #[serde(default)]
    pub(super) imprint: Option<Imprint>,
}

impl Record {
    pub(super) fn new(request: &CreateRequest) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            format: FORMAT,
            spec: request.spec.clone(),
            owner: request.owner,
            trees: request.root.trees().to_vec(),
            created_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            stage: Stage::Making,
            pid: 0,
            pid_started: 0,
            boot: String::new(),
            group: PathBuf::new(),
            files: None,
            door: false,
            bare: true,
            imprint: None,
        }
    }

    /// The same with this first process. `None` if that has ended.
    pub(super) fn started(self, pid: u32, group: PathBuf) -> Option<Self> {
        let pid_started = start_time(pid)?;
        Some(Self { stage: Stage::Started, pid, pid_started, boot: this_boot().to_owned(), group, ..self })
    }

    /// As [`Record::started`], where its first process is none of this machine's.
    pub(super) fn started_elsewhere(self) -> Self {
        Self { stage: Stage::Started, pid: 0, pid_started: 0, boot: String::new(), ..self }
    }

    pub(super) fn at(&self, stage: Stage) -> Self {
        Self { stage, ..self.clone() }
    }

    pub(super) fn store(&self, directory: &Path) -> io::Result<()> {
        place_file(self, directory, FILE, fs::File::sync_data)
    }

    /// `None` if there is no record, or none that this version can read.
    pub(super) fn load(directory: &Path) -> Option<Self> {
        let mut text = Vec::new();
        fs::File::open(directory.join(FILE)).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice::<Self>(&text).ok().filter(|record| record.format == FORMAT)
    }

    /// True if there is a record, readable or not.
    pub(super) fn exists(directory: &Path) -> bool {
        directory.join(FILE).symlink_metadata().is_ok()
    }

    /// True once it was handed out.
    pub(super) fn is_whole(&self) -> bool {
        self.stage != Stage::Making
    }

    /// True if the recorded process is the one that has the pid now. Never, where it is none of
    /// this machine's.
    pub(super) fn is_alive(&self) -> bool {
        self.stage == Stage::Started
            && self.boot == this_boot()
            && start_time(self.pid).is_some_and(|started| started == self.pid_started)
    }

    /// Puts on disk what the sandbox has written.
    pub(super) fn flush(&self) -> io::Result<()> {
        match &self.files {
            Some(files) => Ok(rustix::fs::syncfs(fs::File::open(files)?)?),
            None => {
                rustix::fs::sync();
                Ok(())
            }
        }
    }
}
