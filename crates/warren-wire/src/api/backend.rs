use serde::{Deserialize, Serialize};

use super::{EndedProcess, Sandbox};

/// The wall between a sandbox and everything else, in order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Tier {
    /// The machine's own kernel, with namespaces.
    Namespaces,
    /// A kernel in user space.
    UserKernel,
    Vm,
    /// Another machine.
    Remote,
}

/// Something that isolates sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Backend {
    pub name: String,
    /// The server is configured to use it.
    pub on: bool,
    /// It can make sandboxes now.
    pub healthy: bool,
    /// Why not, in sentences. Empty when it can.
    pub problems: Vec<String>,
    /// The wall that it builds. Absent where it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Its abilities on this machine. Absent where it is not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<BackendCapabilities>,
}

/// The abilities of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BackendCapabilities {
    /// How a state of a sandbox's files is captured: `sealed`, `copied`, `scanned` or `none`.
    pub snapshots: String,
    /// A snapshot can hold running processes, too.
    pub memory_snapshots: bool,
    /// The roots that its sandboxes can have: `layers`, `image`.
    pub roots: Vec<String>,
    /// The network that a sandbox can have: `namespace`, in which network policies hold, `own` or
    /// `none`.
    pub network: String,
    /// Directories of the host can be mounted.
    pub host_mounts: bool,
    /// How a disk limit holds: `project`, `image`, `watched` or `none`.
    pub disk_quota: String,
    /// Sandboxes can be paused.
    pub freeze: bool,
    /// Sandboxes go on while the server is restarted.
    pub outlives_server: bool,
}

/// Every backend that the server's program has, those that are on first, in the order in which they
/// are tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BackendList {
    pub items: Vec<Backend>,
}

/// The wall that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WallChoice {
    /// The backend that must serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The tier that its backend must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
}

/// Gives a sandbox another wall: a backend, or any of a tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"tier": "user_kernel"})))]
pub struct MoveSandbox {
    /// The backend to move to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 63, example = "native"))]
    pub backend: Option<String>,
    /// The tier that the backend must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// End commands that somebody waits for, too. Left out: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// A sandbox behind the wall that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MovedSandbox {
    pub sandbox: Sandbox,
    /// The backend that it had.
    pub from: String,
    /// The backend that it has now. The same if it had that already.
    pub to: String,
    /// The processes that ran in it, and ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedProcess>,
    /// How long it took, in milliseconds.
    pub took_ms: f64,
}
