//! The tools: a row of the table for each, and the work of each in a module of its kind.

mod ask;
mod attempt;
mod call;
mod cell;
mod diff;
mod files;
mod history;
mod port;
mod process;
mod program;
mod sandbox;
mod schema;
mod travel;
mod watch;

use rmcp::model::{CallToolResponse, CreateTaskResult, InputRequiredResult, ToolAnnotations};
use warren_face::Desk;
use warren_face::error::ApiError;

use crate::answer::Answer;

pub(crate) use self::call::Call;
pub(crate) use self::process::whole_output;

/// A tool by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Bash,
    Python,
    Read,
    Write,
    Edit,
    Ls,
    Glob,
    Grep,
    Process,
    History,
    Diff,
    Undo,
    Checkpoint,
    Try,
    Sandbox,
    Port,
}

/// The effect of a tool, as clients ask before they let a model use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Looks,
    /// Undo takes it back.
    Changes,
    /// As [`Effect::Changes`]; twice is the same as once.
    Settles,
    /// Some of what it does cannot be taken back.
    Destroys,
}

/// The reach of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Sandbox,
    /// Also what the sandbox's network lets it reach.
    World,
}

impl Tool {
    pub(crate) const ALL: [Self; 16] = [
        Self::Bash,
        Self::Python,
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Ls,
        Self::Glob,
        Self::Grep,
        Self::Process,
        Self::History,
        Self::Diff,
        Self::Undo,
        Self::Checkpoint,
        Self::Try,
        Self::Sandbox,
        Self::Port,
    ];

    /// For clients that take few tools.
    pub(crate) const CORE: [Self; 8] =
        [Self::Bash, Self::Read, Self::Write, Self::Edit, Self::Ls, Self::Glob, Self::Grep, Self::Undo];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python",
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Ls => "ls",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::Process => "process",
            Self::History => "history",
            Self::Diff => "diff",
            Self::Undo => "undo",
            Self::Checkpoint => "checkpoint",
            Self::Try => "try",
            Self::Sandbox => "sandbox",
            Self::Port => "port",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Bash => "Run a command",
            Self::Python => "Run Python",
            Self::Read => "Read a file",
            Self::Write => "Write a file",
            Self::Edit => "Edit a file",
            Self::Ls => "List a directory",
            Self::Glob => "Find files",
            Self::Grep => "Search in files",
            Self::Process => "Background processes",
            Self::History => "What was done",
            Self::Diff => "What changed",
            Self::Undo => "Undo changes",
            Self::Checkpoint => "Name this state",
            Self::Try => "Try, keep if it works",
            Self::Sandbox => "Make and end sandboxes",
            Self::Port => "Link to a port",
        }
    }

    /// True if it runs programs of the caller's.
    pub(crate) fn runs_programs(self) -> bool {
        matches!(self, Self::Bash | Self::Python | Self::Process | Self::Try)
    }

    fn effect(self) -> Effect {
        match self {
            Self::Read | Self::Ls | Self::Glob | Self::Grep | Self::History | Self::Diff => Effect::Looks,
            Self::Bash
            | Self::Python
            | Self::Edit
            | Self::Process
            | Self::Undo
            | Self::Checkpoint
            | Self::Try
            | Self::Port => Effect::Changes,
            Self::Write => Effect::Settles,
            Self::Sandbox => Effect::Destroys,
        }
    }

    fn reach(self) -> Reach {
        match self {
            Self::Bash | Self::Python | Self::Try | Self::Port => Reach::World,
            _ => Reach::Sandbox,
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let effect = self.effect();
        ToolAnnotations::new()
            .read_only(effect == Effect::Looks)
            .destructive(effect == Effect::Destroys)
            .idempotent(matches!(effect, Effect::Looks | Effect::Settles))
            .open_world(self.reach() == Reach::World)
    }
}

/// A tool as it is listed.
pub(crate) fn listed(tool: Tool, pinned: bool, desk: &Desk) -> rmcp::model::Tool {
    let schema = schema::of(tool, pinned, desk);
    rmcp::model::Tool::new(tool.name(), schema::description(tool), schema)
        .with_title(tool.title())
        .with_annotations(tool.annotations())
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) enum Reply {
    Done(Answer),
    /// It goes on, and the client asks for it by itself.
    Task(CreateTaskResult),
    /// Somebody has to decide something first.
    Question(InputRequiredResult),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Done(answer)
    }
}

impl From<Reply> for CallToolResponse {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Done(answer) => answer.into_result().into(),
            Reply::Task(task) => task.into(),
            Reply::Question(question) => question.into(),
        }
    }
}

pub(crate) async fn run(tool: Tool, call: Call<'_>) -> Result<Reply, ApiError> {
    let answer = match tool {
        Tool::Bash => return program::bash(call).await,
        Tool::Python => return program::python(call).await,
        Tool::Read | Tool::Write | Tool::Edit | Tool::Ls | Tool::Glob | Tool::Grep => {
            files::call(tool, call).await
        }
        Tool::Process => process::act(call).await,
        Tool::History => history::show(call).await,
        Tool::Diff => diff::show(call).await,
        Tool::Undo => travel::undo(call).await,
        Tool::Checkpoint => travel::checkpoint(call).await,
        Tool::Try => attempt::attempt(call).await,
        Tool::Port => port::link(call).await,
        Tool::Sandbox => sandbox::act(call).await,
    };
    Ok(answer?.into())
}
