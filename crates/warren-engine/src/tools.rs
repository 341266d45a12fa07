//! Tools: what an agent calls, in a fixed form. Tier 1 only touches files; tier 2 runs programs under the sandbox's limits.

use serde_json::Value;
use tokio::sync::mpsc;
use warren_core::{Owner, SandboxId, SessionId, SnapshotId};

use crate::{Engine, EngineError};

/// A tool that is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    pub name: &'static str,
    pub description: &'static str,
    /// 1 or 2.
    pub tier: u8,
    /// A JSON schema of the parameters.
    pub parameters: Value,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub tool: String,
    /// A repeated call of this id gets the first one's answer.
    pub call: Option<String>,
    pub params: Value,
    pub resources: ToolResources,
    /// Capture the state after it.
    pub snapshot: bool,
    pub session: Option<SessionId>,
}

/// What one call may use, within what the sandbox may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolResources {
    pub timeout_ms: Option<u64>,
    /// Of each stream; what is beyond is cut out of the middle, and a marker says so.
    pub most_output_bytes: Option<u64>,
    /// Most memory of each process, enforced by `RLIMIT_AS` inside the sandbox.
    pub memory_bytes: Option<u64>,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub content: Vec<ContentBlock>,
    pub exit_code: Option<i32>,
    /// The tool did not do what it was asked to, for a reason that the content tells.
    pub is_error: bool,
    pub snapshot: Option<SnapshotId>,
    pub duration_ms: u64,
    pub tier: u8,
    /// It is the answer to an earlier call of this id.
    pub repeated: bool,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentBlock {
    Text {
        text: String,
        truncated: bool,
    },
    /// Of a `read` of what is an image.
    Image {
        media_type: String,
        base64: String,
    },
}

/// What a tool that runs programs tells while it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolProgress {
    Stdout(String),
    Stderr(String),
}

fn missing() -> EngineError {
    EngineError::NothingFits(vec![("tools".to_owned(), "are not there yet".to_owned())])
}

impl Engine {
    /// Every tool there is.
    pub fn tools(&self) -> Vec<ToolInfo> {
        Vec::new()
    }

    /// Calls a tool. Progress that nobody takes in time is dropped; the answer has it all, up to the limits.
    pub async fn call_tool(
        &self,
        _owner: &Owner,
        _id: &SandboxId,
        _call: ToolCall,
        _progress: Option<mpsc::Sender<ToolProgress>>,
    ) -> Result<ToolResult, EngineError> {
        Err(missing())
    }
}
