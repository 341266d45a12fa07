use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::SandboxId;
use crate::owner::Owner;
use crate::run::{RunLimits, RunTotals};
use crate::sandbox::SandboxKind;
use crate::unique::SessionId;
use crate::world::Deadline;

/// A client's lease on a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub id: SessionId,
    pub owner: Owner,
    pub sandbox: SandboxId,
    /// Who uses it, in the words of the client.
    pub client: String,
    pub kind: SandboxKind,
    pub state: SessionState,
    pub timeouts: Timeouts,
    pub labels: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub provision: Provision,
    pub limits: RunLimits,
    /// The class of customer whose limits these are.
    pub tier: Option<String>,
    pub totals: RunTotals,
    pub created_unix_ms: u64,
    pub last_activity_unix_ms: u64,
    /// When the session itself ends, for those with a limited duration.
    pub deadline: Option<Deadline>,
    /// When a detached session is over.
    pub detached_until: Option<Deadline>,
    /// Until then the client's model works, and the sandbox does not count as idle.
    pub thinking_until: Option<Deadline>,
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// A client uses the sandbox.
    Active,
    /// The client went away and may come back.
    Detached,
    /// The sandbox is frozen until somebody resumes the session.
    Suspended,
    /// A time limit ended it. It can be resumed if the sandbox's files were kept.
    Expired,
    /// Given back by its client.
    Released,
    /// Ended for good, with its sandbox.
    Terminated,
}

impl SessionState {
    /// Whether the session still holds its sandbox.
    pub fn is_open(self) -> bool {
        match self {
            Self::Active | Self::Detached | Self::Suspended => true,
            Self::Expired | Self::Released | Self::Terminated => false,
        }
    }
}

/// How long a sandbox may be in each state before the next milder one follows, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// An idle sandbox is frozen after this long.
    pub active_s: u64,
    /// A session without its client expires after this long.
    pub detached_s: u64,
    /// A frozen sandbox is stopped after this long; its files stay.
    pub suspended_s: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { active_s: 300, detached_s: 3600, suspended_s: 86_400 }
    }
}

/// How far the making of what the session needs has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Provision {
    Pending,
    Ready {
        /// Where the sandbox's service answers.
        url: Option<String>,
        /// The caller's own name for the work that made it.
        job: Option<String>,
    },
    Failed {
        reason: String,
    },
}
