use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::root::RootKind;
use crate::spec::SandboxSpec;
use crate::text::shorten;

/// The abilities of a backend on this machine. A request for anything else is refused before
/// anything is built, and the refusal names the capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    pub snapshots: SnapshotSupport,
    /// A snapshot can hold running processes, too.
    pub memory_snapshots: bool,
    /// The kinds of root that it starts sandboxes on.
    pub roots: Vec<RootKind>,
    pub network: NetworkSupport,
    pub host_mounts: bool,
    pub disk_quota: DiskQuota,
    pub freeze: bool,
    /// It gives out sockets in a sandbox's own network.
    pub socket: bool,
    /// Sandboxes can go on running without the process that made them.
    pub outlives_server: bool,
    pub isolation: IsolationKind,
}

/// How a state of a sandbox's files is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotSupport {
    /// Its writable layers become a layer of their own, by renames; they can be copied as well. See
    /// [`crate::Layered`].
    Sealed,
    /// Its writable layers can be copied, and nothing else. See [`crate::Layered`].
    Copied,
    /// The agent walks over its root and sends what differs from the template.
    Scanned,
    None,
}

/// The networks that sandboxes can have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkSupport {
    /// It starts sandboxes in a network namespace that it is given.
    Namespace,
    /// It has modes of its own, by these names. Our policies do not hold in them.
    Own { modes: Vec<String> },
    /// No sandbox has a network.
    None,
}

/// How the disk limit of a sandbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskQuota {
    /// The file system itself counts each sandbox's bytes and inodes.
    Project,
    /// A sandbox that asks for a disk limit gets a file system image of that size.
    Image,
    /// No hard limit: usage is watched and offenders are stopped.
    Watched,
    /// Nothing holds a sandbox to its disk limit.
    None,
}

/// The wall between a sandbox and everything else: the tier of a backend. In order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationKind {
    /// The machine's own kernel, with namespaces.
    Namespaces,
    /// A kernel in user space.
    UserKernel,
    Vm,
    /// Another machine, however it does it.
    Remote,
}

/// One thing that a request needs of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Root(RootKind),
    /// A network that holds our policy.
    Network,
    NoNetwork,
    HostMounts,
    /// A disk limit that holds at every moment.
    DiskLimit,
    Freeze,
    Snapshots,
    MemorySnapshots,
    OutlivesServer,
    /// A wall of just this tier.
    Tier(IsolationKind),
    /// A wall of this tier, or of a stronger one.
    AtLeast(IsolationKind),
}

/// Why a backend cannot serve a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The field of [`Capabilities`] that denies it.
    pub capability: &'static str,
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (capability `{}`)", self.why, self.capability)
    }
}

impl Need {
    /// All that a sandbox of this spec needs, on a root of this kind.
    pub fn of(spec: &SandboxSpec, root: RootKind, disk_limit_required: bool) -> Vec<Self> {
        let network = if spec.network.is_none() { Self::NoNetwork } else { Self::Network };
        let mut needs = vec![Self::Root(root), network];
        needs.extend((!spec.mounts.is_empty()).then_some(Self::HostMounts));
        needs.extend(disk_limit_required.then_some(Self::DiskLimit));
        needs
    }
}

impl Capabilities {
    /// The first of the needs that cannot be met; `None` when all can.
    pub fn refuse(&self, needs: &[Need]) -> Option<Refusal> {
        needs.iter().find_map(|need| self.refuse_one(*need))
    }

    fn refuse_one(&self, need: Need) -> Option<Refusal> {
        let (can, capability, why) = match need {
            Need::Tier(tier) => return self.refuse_tier(self.isolation == tier, "asked for", tier),
            Need::AtLeast(tier) => {
                return self.refuse_tier(self.isolation >= tier, "the least that is allowed", tier);
            }
            Need::Root(kind) => (self.roots.contains(&kind), "roots", kind.refused()),
            Need::Network => (self.network == NetworkSupport::Namespace, "network", self.network.refused()),
            Need::NoNetwork => {
                (self.network.can_be_none(), "network", "it cannot leave a sandbox without a network")
            }
            Need::HostMounts => (self.host_mounts, "host_mounts", "it cannot mount directories of the host"),
            Need::DiskLimit => {
                let hard = matches!(self.disk_quota, DiskQuota::Project | DiskQuota::Image);
                (hard, "disk_quota", "it cannot hold a sandbox to a disk limit on this machine")
            }
            Need::Freeze => (self.freeze, "freeze", "it cannot pause a sandbox"),
            Need::Snapshots => {
                let can = self.snapshots != SnapshotSupport::None;
                (can, "snapshots", "it cannot capture what a sandbox wrote")
            }
            Need::MemorySnapshots => {
                (self.memory_snapshots, "memory_snapshots", "it cannot capture running processes")
            }
            Need::OutlivesServer => {
                (self.outlives_server, "outlives_server", "its sandboxes end with the server")
            }
        };
        (!can).then(|| Refusal { capability, why: why.to_owned() })
    }
}

impl Capabilities {
    fn refuse_tier(&self, can: bool, what: &str, tier: IsolationKind) -> Option<Refusal> {
        let why = || format!("its tier is `{}`, and `{tier}` is {what}", self.isolation);
        (!can).then(|| Refusal { capability: "isolation", why: why() })
    }
}

impl IsolationKind {
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::UserKernel, Self::Vm, Self::Remote];

    /// The tier as it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::UserKernel => "user_kernel",
            Self::Vm => "vm",
            Self::Remote => "remote",
        }
    }
}

impl fmt::Display for IsolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The text is no tier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tier: write `namespaces`, `user_kernel`, `vm` or `remote`")]
pub struct TierError(String);

impl FromStr for IsolationKind {
    type Err = TierError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|tier| tier.word() == text).ok_or_else(|| TierError(shorten(text)))
    }
}

/// The wall that somebody asked for. Nothing: the first backend of the configuration that can.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WallChoice {
    /// The backend that must serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The tier that its backend must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<IsolationKind>,
}

impl WallChoice {
    /// The backend of this name.
    pub fn backend(name: impl Into<String>) -> Self {
        Self { backend: Some(name.into()), tier: None }
    }

    /// Any backend of this tier.
    pub fn tier(tier: IsolationKind) -> Self {
        Self { backend: None, tier: Some(tier) }
    }

    pub fn is_free(&self) -> bool {
        self.backend.is_none() && self.tier.is_none()
    }

    /// The part of the request that a refusal is about.
    pub fn field(&self) -> Option<Field> {
        let backend = self.backend.as_ref().map(|_| Field::Backend);
        backend.or_else(|| self.tier.map(|_| Field::WallTier))
    }
}

impl NetworkSupport {
    fn refused(&self) -> &'static str {
        match self {
            Self::Own { .. } => "it has networks of its own, in which our policies do not hold",
            Self::Namespace | Self::None => "it cannot give a sandbox a network",
        }
    }

    fn can_be_none(&self) -> bool {
        match self {
            Self::Namespace | Self::None => true,
            Self::Own { modes } => modes.iter().any(|mode| mode == "none"),
        }
    }
}

impl RootKind {
    pub(crate) fn refused(self) -> &'static str {
        match self {
            Self::Layers => "it cannot start a sandbox on layers",
            Self::Image => "it has no images of its own",
        }
    }
}

#[cfg(test)]
#[path = "capabilities_tests.rs"]
mod tests;
