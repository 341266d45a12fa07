use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Figures since the server started, and of this moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stats {
    pub created: u64,
    pub create_failed: u64,
    pub destroyed: u64,
    pub destroyed_by_timeout: u64,
    pub active_sandboxes: u64,
    pub paused_sandboxes: u64,
    /// Ended, with files that can be resumed.
    pub stopped_sandboxes: u64,
    pub active_sessions: u64,
    pub detached_sessions: u64,
    pub pool_size: u64,
    /// From 0 to 1.
    pub pool_hit_rate: f64,
    pub mean_creation_ms: f64,
    pub execs: u64,
}

/// The server's health: ready to work or not. Without a key only `status` is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    pub status: HealthStatus,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub details: Option<HealthDetails>,
}

/// The parts of the server's health that need a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HealthDetails {
    /// The problems, in sentences. Empty when all is well.
    pub problems: Vec<String>,
    /// Each backend, and whether it can make sandboxes.
    pub backends: BTreeMap<String, bool>,
    /// Absent when it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSpace>,
    /// Live ones, all owners together.
    pub sandboxes: u64,
    pub max_sandboxes: u64,
    /// Open ones, all owners together.
    pub sessions: u64,
    /// Commands, calls of tools and calls on files that somebody waits for, all owners together.
    #[serde(default)]
    pub active_tools: u64,
    pub uptime_s: u64,
    /// Errors of the server's own making since it started.
    pub errors: u64,
    /// Why sandboxes can have no network here. Absent when they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_network: Option<String>,
    /// The server only answers questions until an administrator accepts what is lost.
    pub read_only: bool,
    pub version: String,
}

/// In order of gravity. With `critical`, new work is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum HealthStatus {
    Ok,
    Warning,
    Critical,
}

/// Room on the disk that holds the server's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DiskSpace {
    pub free_bytes: u64,
    pub total_bytes: u64,
    pub free_inodes: u64,
}
