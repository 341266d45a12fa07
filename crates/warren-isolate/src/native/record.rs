//! What is written down about a sandbox, so that another process finds it again.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use warren_core::{CreateRequest, OwnerBond, SandboxId, SandboxSpec};

use super::quota::QuotaKind;

const FILE: &str = "record.json";
const FORMAT: u32 = 1;
/// A record is small; a larger file is not one.
const MOST_BYTES: u64 = 4 << 20;

/// Written once, when the sandbox's agent has answered. A sandbox without a record is half made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    pub(super) id: SandboxId,
    pub(super) spec: SandboxSpec,
    pub(super) owner: OwnerBond,
    pub(super) pid: u32,
    /// The process's start time in clock ticks since boot: with the pid it names one process for good.
    pub(super) pid_started: u64,
    pub(super) id_base: u32,
    pub(super) quota: QuotaKind,
    pub(super) created_unix_ms: u64,
}

impl Record {
    /// `pid` is the sandbox's first process, alive at this moment.
    pub(super) fn new(request: &CreateRequest, pid: u32, id_base: u32, quota: QuotaKind) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            format: FORMAT,
            id: request.id.clone(),
            spec: request.spec.clone(),
            owner: request.owner,
            pid,
            pid_started: start_time(pid).unwrap_or(0),
            id_base,
            quota,
            created_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Written while the directory's lock is held: a torn record is one of a sandbox that was never handed out.
    pub(super) fn store(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(FILE), serde_json::to_vec(self)?)
    }

    /// `None` when there is none, or none that this version can trust.
    pub(super) fn load(directory: &Path) -> Option<Self> {
        let mut text = Vec::new();
        fs::File::open(directory.join(FILE)).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice::<Self>(&text).ok().filter(|record| record.format == FORMAT)
    }

    /// Whether the recorded process is the one that has the pid now.
    pub(super) fn is_alive(&self) -> bool {
        start_time(self.pid).is_some_and(|started| started == self.pid_started)
    }
}

/// Field 22 of `/proc/PID/stat`; absent for a process that is gone or a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is in parentheses and may itself contain spaces and parentheses.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}
