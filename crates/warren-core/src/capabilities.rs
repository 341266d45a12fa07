use serde::{Deserialize, Serialize};

/// What a backend on this machine can do. What it cannot do is said here, so that a request is refused before
/// anything is built; no method of a backend answers "unsupported".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    pub freeze: bool,
    /// Whether it starts sandboxes in a network namespace that it is given.
    pub network: bool,
    pub host_mounts: bool,
    pub disk_quota: DiskQuota,
    /// Whether what a sandbox wrote can be captured.
    pub snapshots: bool,
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
}

/// One thing a backend needs of the machine, as `doctor` reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub status: CheckStatus,
    /// What was found.
    pub found: String,
    /// What to do about it; empty when all is well.
    pub advice: String,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Ok,
    /// Works, with less than the machine could offer.
    Warning,
    /// Sandboxes cannot be made.
    Failed,
}
