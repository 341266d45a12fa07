//! Tools: what an agent calls, in a fixed form. Tier 1 only touches files; tier 2 runs programs
//! under the sandbox's limits.

mod answer;
mod edit;
mod fields;
mod listing;
mod offer;
mod once;
mod program;
mod read;
mod search;
mod write;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use warren_core::{Action, OwnerBond, Request, SandboxRecord, SessionId, SnapshotId, SnapshotReason};
use warren_wire::guest::{ByteString, FileCall, FileOperation};

use self::answer::{Answer, ToolError};
use self::offer::{Order, Tool};
use crate::cell::CaptureOrder;
use crate::error::{Field, Wording, sentence};
use crate::guest::Guest;
use crate::ports::{blocking, finished};
use crate::shown::cut;
use crate::{Engine, EngineError, Sandbox};

/// The longest that a call can be given.
const MOST_TIMEOUT_MS: u64 = 86_400_000;
/// Text that is answered unless more is asked for.
const OUTPUT_BYTES: u64 = 30_000;
const MOST_OUTPUT_BYTES: u64 = 4 << 20;
/// No program starts with less.
const LEAST_MEMORY_BYTES: u64 = 1 << 20;

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

/// The resources of one call, within those of the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolResources {
    pub timeout_ms: Option<u64>,
    /// Of the answer's text; what is beyond is cut out of the middle, and a line in its place says
    /// so.
    pub most_output_bytes: Option<u64>,
    /// Most memory of each process, enforced by `RLIMIT_AS` inside the sandbox.
    pub memory_bytes: Option<u64>,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub content: Vec<ContentBlock>,
    pub exit_code: Option<i32>,
    /// The tool did not do what it was asked to, for a reason that the content tells.
    pub is_error: bool,
    pub snapshot: Option<SnapshotId>,
    /// Its number in the journal, if it could be written down.
    #[serde(default)]
    pub entry: Option<u64>,
    pub duration_ms: u64,
    pub tier: u8,
    /// It is the answer to an earlier call of this id.
    pub repeated: bool,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// The progress of a tool that runs programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolProgress {
    Stdout(String),
    Stderr(String),
}

impl Sandbox {
    /// Calls a tool. Progress that nobody takes in time is dropped; the answer has it all, up to
    /// the limits. The call goes on to its end if the caller does not wait for it.
    pub async fn call_tool(
        &self,
        call: ToolCall,
        progress: Option<mpsc::Sender<ToolProgress>>,
    ) -> Result<ToolResult, EngineError> {
        let tool = Tool::named(&call.tool)?;
        let order = tool.parse(&call.params)?;
        once::check_id(&call)?;
        let terms = Terms::of(&call.resources, order.timeout_ms(), self.engine.shared.settings.tool_ms)?;
        let record = self.record().await?;
        let sandbox = self.clone();
        finished(async move {
            let work = sandbox.do_call(Arc::new(record), &call, (tool, order), &terms, progress);
            sandbox.once(&call, terms.timeout_ms, work).await
        })
        .await
    }

    async fn do_call(
        &self,
        record: Arc<SandboxRecord>,
        call: &ToolCall,
        (tool, order): (Tool, Order),
        terms: &Terms,
        progress: Option<mpsc::Sender<ToolProgress>>,
    ) -> Result<ToolResult, EngineError> {
        let entry = Arc::new(self.enter(tool.leave()).await?);
        let action = Action::Tool {
            tool: tool.name().to_owned(),
            call: call.call.clone(),
            summary: cut(&call.params.to_string()),
        };
        match tool.leave() {
            Request::ReadFiles => entry.begin_look(action, call.session.clone()).await,
            _ => entry.begin(action, call.session.clone()).await,
        }
        let context = Context {
            guest: entry.guest(),
            progress,
            timeout_ms: terms.timeout_ms,
            most_output: terms.most_output,
            memory_bytes: call.resources.memory_bytes,
            whose: Some((self.engine.inner(), record)),
        };
        let began = Instant::now();
        let outcome = order.run(&context).await;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match &outcome {
            Ok(answer) => entry.close(answer.outcome()),
            Err(error) => entry.fail(error),
        }
        let number = entry.number();
        drop(context);
        drop(entry);
        let Answer { mut content, exit_code, is_error } = outcome?;
        let mut snapshot = None;
        if call.snapshot {
            let asked = CaptureOrder::asked(SnapshotReason::Tool);
            let order = CaptureOrder { session: call.session.clone(), ..asked };
            match self.engine.take(self.owner(), &self.id, order).await {
                Ok(taken) => snapshot = Some(taken.snapshot.id),
                Err(error) => {
                    // The tool has done its work, and calling it again would do it twice.
                    let text = format!("[the snapshot that was asked for failed: {}]", sentence(&error));
                    content.push(ContentBlock::Text { text, truncated: false });
                }
            }
        }
        Ok(ToolResult {
            content,
            exit_code,
            is_error,
            snapshot,
            entry: number,
            duration_ms,
            tier: tool.tier(),
            repeated: false,
        })
    }
}

impl Engine {
    /// Every tool there is.
    pub fn tools(&self) -> Vec<ToolInfo> {
        Tool::ALL.map(Tool::info).to_vec()
    }

    /// Where a sandbox's programs start.
    async fn workdir(&self, record: &Arc<SandboxRecord>) -> Option<std::path::PathBuf> {
        if record.spec.workdir.is_some() || record.spec.image.is_some() {
            return record.spec.workdir.clone();
        }
        let (templates, record) = (Arc::clone(&self.shared.parts.templates), Arc::clone(record));
        blocking(move || templates.request(&record.id, &record.spec, OwnerBond::Outlives)).await.ok()?.workdir
    }
}

/// The resources of one call, with the defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    timeout_ms: u64,
    most_output: usize,
}

impl Terms {
    /// `asked_ms` is what the parameters say: no more than the caller grants.
    fn of(resources: &ToolResources, asked_ms: Option<u64>, usual_ms: u64) -> Result<Self, EngineError> {
        let within = |field: Field, value: Option<u64>, least: u64, most: u64| match value {
            Some(value) if !(least..=most).contains(&value) => {
                Err(EngineError::invalid(field, Wording::Quoted(format!("is from {least} to {most}"))))
            }
            value => Ok(value),
        };
        let granted_ms = within(Field::ToolTime, resources.timeout_ms, 1, MOST_TIMEOUT_MS)?;
        let most = within(Field::ToolOutput, resources.most_output_bytes, 1, MOST_OUTPUT_BYTES)?;
        within(Field::ToolMemory, resources.memory_bytes, LEAST_MEMORY_BYTES, u64::MAX)?;
        let timeout_ms = match (asked_ms, granted_ms) {
            (Some(asked), Some(granted)) => asked.min(granted),
            (asked, granted) => asked.or(granted).unwrap_or(usual_ms),
        };
        let most_output = usize::try_from(most.unwrap_or(OUTPUT_BYTES)).unwrap_or(usize::MAX);
        Ok(Self { timeout_ms, most_output })
    }
}

/// The surroundings of a tool call.
struct Context {
    guest: Guest,
    progress: Option<mpsc::Sender<ToolProgress>>,
    timeout_ms: u64,
    most_output: usize,
    memory_bytes: Option<u64>,
    /// The engine and the sandbox's record; absent: relative paths start at the user's home.
    whose: Option<(Engine, Arc<SandboxRecord>)>,
}

impl Context {
    /// A path as the agent takes it: a relative one starts where programs do.
    async fn place(&self, path: &str) -> ByteString {
        match &self.whose {
            Some((engine, record)) if !path.starts_with('/') => match engine.workdir(record).await {
                Some(workdir) => ByteString::from(&workdir.join(Path::new(path))),
                None => path.into(),
            },
            _ => path.into(),
        }
    }

    fn call(&self, operation: FileOperation) -> FileCall {
        FileCall { user: None, operation, as_root: None }
    }

    fn progress(&self, progress: impl FnOnce() -> ToolProgress) {
        if let Some(sender) = &self.progress {
            // A reader that does not keep up, or has left, gets the answer only.
            sender.try_send(progress()).ok();
        }
    }

    /// The answer of work that may take only so long.
    async fn in_time(
        &self,
        work: impl Future<Output = Result<Answer, ToolError>>,
    ) -> Result<Answer, ToolError> {
        let limit = Duration::from_millis(self.timeout_ms);
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ToolError::told(format!("it took longer than {limit:?}, and was given up"))),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("guest", &self.guest).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
