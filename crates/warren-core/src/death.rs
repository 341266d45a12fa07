use serde::{Deserialize, Serialize};

use crate::isolation::Usage;

/// Why a sandbox ended, and what could be seen of it at that moment. Written once, kept after the
/// sandbox and the server are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeathCertificate {
    pub cause: DeathCause,
    /// One sentence for people: what happened, with the figures that decided it.
    pub detail: String,
    pub at_unix_ms: u64,
    /// The tail of what the sandbox's processes wrote last, as far as somebody read it.
    pub last_output: String,
    /// Processes at the end, the newest last: `pid argv…`. Empty when they could not be asked any
    /// more.
    pub processes: Vec<String>,
    /// Resources it used, with peaks. Absent when they could not be read any more.
    pub usage: Option<Usage>,
    /// The last point in its history that can be gone back to.
    pub snapshot: Option<String>,
    /// Its files are still there, and it can be resumed.
    pub files_kept: bool,
}

/// The cause of a sandbox's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeathCause {
    /// Its first process ended by itself.
    Exit,
    /// The kernel killed it for want of memory.
    Oom,
    /// A time limit of its session was reached: detached or suspended for too long.
    Timeout,
    /// It did nothing for too long.
    Idle,
    /// Its time to live ended.
    Ttl,
    /// Somebody asked for it.
    Killed { by: String },
    /// It wrote more than its disk limit, or the disk was full.
    DiskFull,
    /// The backend could not make it, or lost it.
    BackendError,
    /// The machine was switched off, or whatever ran the sandbox ended without a word.
    HostRestart,
}

impl DeathCause {
    /// The word for it in tables, metrics and messages.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Oom => "oom",
            Self::Timeout => "timeout",
            Self::Idle => "idle",
            Self::Ttl => "ttl",
            Self::Killed { .. } => "killed",
            Self::DiskFull => "disk_full",
            Self::BackendError => "backend_error",
            Self::HostRestart => "host_restart",
        }
    }
}
