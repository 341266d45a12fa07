use serde::{Deserialize, Serialize};

/// Limits on a session's runs. Those that are left out take the server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunLimitsRequest {
    /// Number of runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 100_000))]
    pub runs: Option<u32>,
    /// Longest duration of one run, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub run_s: Option<u64>,
    /// Tokens of all runs together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 9_007_199_254_740_991_i64))]
    pub tokens: Option<u64>,
    /// How long the session may last, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_622_400))]
    pub duration_s: Option<u64>,
}

/// Limits on a session's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunLimits {
    pub runs: u32,
    /// Longest duration of one run, in seconds.
    pub run_s: u64,
    /// Tokens of all runs together.
    pub tokens: u64,
    /// How long the session may last, in seconds.
    pub duration_s: u64,
}

/// The exact sums over a session's runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunTotals {
    pub runs: u32,
    pub tokens: u64,
    pub duration_ms: u64,
}

/// A run, as its client reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"task": "build the site", "result": "ok", "duration_ms": 1500, "tokens": 1200})))]
pub struct NewRun {
    /// The task.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 65_536))]
    pub task: String,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 1_048_576))]
    pub result: Option<String>,
    /// How long it took, in milliseconds.
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 9_007_199_254_740_991_i64))]
    pub duration_ms: u64,
    /// Tokens it used.
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 9_007_199_254_740_991_i64))]
    pub tokens: u64,
    /// Addresses or names of pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub screenshots: Vec<String>,
    /// The provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 200))]
    pub provider: Option<String>,
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Run {
    #[cfg_attr(feature = "schema", schema(pattern = "^run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub run_id: String,
    pub session_id: String,
    /// 1 for the session's first.
    pub number: u32,
    pub status: RunStatus,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    pub task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    pub duration_ms: u64,
    pub tokens: u64,
    pub screenshots: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// How a run stands against its session's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum RunStatus {
    Completed,
    OverTime,
    OverTokens,
}

/// A session's runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunList {
    /// The first one first.
    pub items: Vec<Run>,
}

/// The answer to the question if a session may have another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CanRun {
    pub allowed: bool,
    /// Why not. Absent when it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RunDenied>,
    pub runs_left: u32,
    pub tokens_left: u64,
    /// Absent: the session has no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}

/// Why a session may not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum RunDenied {
    Inactive,
    NotReady,
    Expired,
    OutOfRuns,
    OutOfTokens,
}
