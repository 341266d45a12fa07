use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::capabilities::WallChoice;
use crate::death::DeathCertificate;
use crate::id::SandboxId;
use crate::image::StartCommands;
use crate::lifecycle::Status;
use crate::node::NodeId;
use crate::owner::Owner;
use crate::root::RootState;
use crate::sandbox_word::SandboxName;
use crate::session::Timeouts;
use crate::snapshot::History;
use crate::spec::{SandboxKind, SandboxSpec};
use crate::traffic::Traffic;
use crate::unique::BuildId;
use crate::world::Deadline;

/// The catalog's record of a sandbox. Written only by the sandbox's driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    pub id: SandboxId,
    pub owner: Owner,
    /// Unique among the owner's sandboxes that are not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SandboxName>,
    /// The node that holds its files and runs its processes. No other node touches it.
    pub node: NodeId,
    /// Counts the changes of this record; a writer must know the last one.
    pub generation: u64,
    pub status: Status,
    /// Present while paused.
    pub paused: Option<Paused>,
    pub spec: SandboxSpec,
    /// The disk limit was asked for and must be hard.
    pub disk_limit_required: bool,
    pub kind: SandboxKind,
    /// The backend's name.
    pub backend: String,
    /// The wall that was asked for, by its create or by its last move.
    #[serde(default, skip_serializing_if = "WallChoice::is_free")]
    pub wall: WallChoice,
    /// It was moved to its backend, which holds nothing of it yet: all its files are in its layers,
    /// and its next start is a fresh one there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unplaced: bool,
    /// The backend that it was moved away from, while that may still hold remains of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Anything the owner wants to remember with it.
    pub metadata: BTreeMap<String, String>,
    pub created_unix_ms: u64,
    /// How long the last create or resume took.
    pub made_in_ms: u64,
    /// When its time to live ends. While somebody has it paused, the time stands still.
    pub deadline: Deadline,
    pub on_expiry: OnExpiry,
    /// How long it may be idle and paused.
    pub timeouts: Timeouts,
    /// Present once it has ended.
    pub death: Option<DeathCertificate>,
    /// Where it stands in its history.
    #[serde(default)]
    pub history: History,
    /// Its own addresses. Empty without a link to the world.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    #[serde(default)]
    pub traffic: Traffic,
    /// The part of the sandbox that is kept if it is paused when its time is over.
    #[serde(default)]
    pub pause_keeps: PauseKeeps,
    /// The commands that run in it from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartCommands>,
    /// The build of an image that is done in it. It is no sandbox of a client's then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildId>,
    /// Notes that an interface of the service keeps with it, by the interface's name. Nobody else
    /// reads them, and forks have them too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Why it cannot be reached, while that is so. Never written down.
    #[serde(skip)]
    pub unreachable: Option<String>,
}

impl SandboxRecord {
    /// The writable layers that it starts with.
    pub fn root_state(&self) -> RootState {
        if self.unplaced { RootState::Fresh } else { RootState::Kept }
    }

    /// True while processes of it may exist.
    pub fn is_live(&self) -> bool {
        !self.status.is_terminal()
    }

    /// True if it ended with its files kept, so that it can be resumed.
    pub fn files_kept(&self) -> bool {
        self.death.as_ref().is_some_and(|death| death.files_kept)
    }
}

/// The cause and the time of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub by: PausedBy,
    pub since_unix_ms: u64,
    /// When a paused sandbox is stopped, its files kept.
    pub deadline: Deadline,
}

/// A sandbox that paused for want of work goes on at the next request; one that was told to waits
/// to be told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausedBy {
    Request,
    Idleness,
}

/// The fate of a sandbox when its time is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// Its processes end, its files stay, and it can be resumed.
    #[default]
    Keep,
    Delete,
    /// Its processes are frozen, as if somebody had paused it. Where that cannot be, as `keep`.
    Pause,
}

/// The part of a sandbox that stays when it is paused because its time is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseKeeps {
    /// Its processes are frozen.
    #[default]
    Memory,
    /// Its processes end: the pause is a cold one.
    Files,
}

impl PauseKeeps {
    /// The fate of a sandbox that is to be paused in this way when its time is over.
    pub fn on_expiry(self) -> OnExpiry {
        match self {
            Self::Memory => OnExpiry::Pause,
            Self::Files => OnExpiry::Keep,
        }
    }
}
