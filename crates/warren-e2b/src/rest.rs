//! Bodies of the control plane, as its clients write and read them.
//!
//! Requests are read leniently: unknown fields are ignored, and `null` is the same as an absent
//! field. Answers have every field that some client needs.

mod filter;
mod network;
mod observe;
pub mod templates;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use filter::{MetadataFilterError, metadata_filter};
pub use network::{EgressProxy, EgressTls, NetworkConfig, NetworkUpdate, Rule, Transform};
pub use observe::{
    LogEntry, LogLevel, LogLine, SandboxLogLines, SandboxLogs, SandboxMetric, SandboxesMetrics, Team,
};

/// A request for a new sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NewSandbox {
    #[serde(rename = "templateID")]
    pub template_id: Option<String>,
    /// Seconds. How long it is when it is absent depends on the endpoint.
    pub timeout: Option<i64>,
    pub auto_pause: Option<bool>,
    /// A pause because its time is over keeps its memory. Absent: it does.
    pub auto_pause_memory: Option<bool>,
    pub auto_resume: Option<AutoResume>,
    #[serde(rename = "allow_internet_access")]
    pub allow_internet_access: Option<bool>,
    pub network: Option<NetworkConfig>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Of the first generation of the endpoint alone.
    pub secure: Option<bool>,
    pub volume_mounts: Option<Vec<VolumeMount>>,
    pub iam: Option<Value>,
    /// The client itself starts what this names.
    pub mcp: Option<Value>,
}

/// The setting by which traffic wakes a paused sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AutoResume {
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    pub name: String,
    pub path: String,
}

/// To connect to a sandbox, and have it go on if it is paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Connect {
    /// Seconds.
    pub timeout: Option<i64>,
    /// `false`: its memory is given up, if it has any.
    pub memory: Option<bool>,
}

/// To have a paused sandbox go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resume {
    /// Seconds.
    pub timeout: Option<i64>,
    pub auto_pause: Option<bool>,
    pub memory: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetTimeout {
    /// Seconds from now.
    pub timeout: Option<i64>,
}

/// The keepalive of early clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refresh {
    /// Seconds from now.
    pub duration: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pause {
    /// Absent: its memory is kept.
    pub memory: Option<bool>,
    pub require_healthy_guest: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fork {
    /// Seconds.
    pub timeout: Option<i64>,
    pub count: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TakeSnapshot {
    pub name: Option<String>,
    pub memory: Option<bool>,
}

/// A sandbox, as who made or found it needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    #[serde(rename = "templateID")]
    pub template_id: String,
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    #[serde(rename = "clientID")]
    pub client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    pub envd_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    pub traffic_access_token: Option<String>,
    pub domain: Option<String>,
}

/// One of a list of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSandbox {
    #[serde(rename = "templateID")]
    pub template_id: String,
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    #[serde(rename = "clientID")]
    pub client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    pub started_at: String,
    pub end_at: String,
    pub cpu_count: u64,
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u64,
    pub metadata: BTreeMap<String, String>,
    pub state: State,
    pub envd_version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Running,
    Paused,
}

/// All that is told of one sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    #[serde(flatten)]
    pub listed: ListedSandbox,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    pub domain: Option<String>,
    /// As its client said; `null` if it did not.
    pub allow_internet_access: Option<bool>,
    /// As its client wrote it, but for what is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Value>,
    pub lifecycle: Lifecycle,
    /// The part that a pause kept, while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_mode: Option<PauseMode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    pub auto_resume: bool,
    pub on_timeout: OnTimeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    Kill,
    Pause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseMode {
    Full,
    Filesystem,
}

/// One of several sandboxes that were to be made: it was, or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// A state of files that sandboxes can start from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    pub names: Vec<String>,
}

/// An error. The code repeats the status of the answer: some clients look at one, some at the
/// other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: u16,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_clients_send_is_read_leniently() {
        let body = json!({
            "templateID": "base", "timeout": 60, "metadata": {}, "envVars": {"A": "1"}, "mcp": null, "network": null,
            "allow_internet_access": false, "autoPauseMemory": false, "autoResume": {"enabled": true}, "later": [1],
        });
        let new: NewSandbox = serde_json::from_value(body).unwrap();
        assert_eq!((new.template_id.as_deref(), new.timeout), (Some("base"), Some(60)));
        assert_eq!((new.allow_internet_access, new.auto_pause_memory), (Some(false), Some(false)));
        assert_eq!(new.env_vars.unwrap()["A"], "1");
        assert!(new.auto_resume.unwrap().enabled && new.network.is_none() && new.mcp.is_none());
    }

    #[test]
    fn a_sandbox_is_written_as_clients_read_it() {
        let sandbox = Sandbox {
            template_id: "base".into(),
            sandbox_id: "sbx1".into(),
            client_id: "warren".into(),
            alias: None,
            envd_version: "0.6.13".into(),
            envd_access_token: Some("t".into()),
            traffic_access_token: None,
            domain: Some("localhost:7777".into()),
        };
        let written = json!({
            "templateID": "base", "sandboxID": "sbx1", "clientID": "warren", "envdVersion": "0.6.13",
            "envdAccessToken": "t", "trafficAccessToken": null, "domain": "localhost:7777",
        });
        assert_eq!(serde_json::to_value(sandbox).unwrap(), written);
    }
}
