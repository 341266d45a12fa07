use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Every tool there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolList {
    pub items: Vec<Tool>,
}

/// A tool that can be called in any sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Tool {
    #[cfg_attr(feature = "schema", schema(example = "bash"))]
    pub name: String,
    /// A description of the tool, for the model that is to call it.
    pub description: String,
    /// 1: it only touches files. 2: it runs programs.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 2))]
    pub tier: u8,
    /// A JSON schema of its parameters.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Value>))]
    pub parameters: Value,
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(example = json!({"call_id": "call-1", "params": {"command": "make test"}, "timeout_ms": 60000})))]
pub struct ToolCall {
    /// Your own word for the call. Sent again, it answers what the first one answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^[!-~]{1,255}$"))]
    pub call_id: Option<String>,
    /// Parameters, as the tool's own schema says.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, Value>))]
    pub params: BTreeMap<String, Value>,
    /// After so many milliseconds it is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 86_400_000))]
    pub timeout_ms: Option<u64>,
    /// How much of each stream of output is told: its beginning and its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 4_194_304))]
    pub max_output_bytes: Option<u64>,
    /// Most memory of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1_048_576, maximum = 4_398_046_511_104_i64))]
    pub memory_bytes: Option<u64>,
    /// Capture the state after it.
    pub snapshot: bool,
    /// The session in which it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^sess-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub session_id: Option<String>,
    /// Answer with a stream of events, as `Accept: text/event-stream` does.
    pub stream: bool,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolResult {
    pub content: Vec<ToolContent>,
    /// Of a tool that runs a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The tool did not do what it was asked to, for a reason that the content tells.
    pub is_error: bool,
    /// The state after it, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    pub duration_ms: u64,
    /// 1: it only touched files. 2: it ran programs.
    pub tier: u8,
    /// It is the answer to an earlier call of this id.
    pub repeated: bool,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ToolContent {
    Text {
        text: String,
        /// Something was left out; the text says where.
        truncated: bool,
    },
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// The image in base64.
        data: String,
    },
}

/// Output of a tool while it runs: the events `stdout` and `stderr` of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ToolOutput {
    pub text: String,
}
