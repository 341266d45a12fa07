//! The tools: a row of the table for each, and the work of each in a module of its kind.

mod call;
mod files;
mod program;
mod sandbox;
mod schema;
mod travel;
mod watch;

use rmcp::model::ToolAnnotations;
use warren_face::Desk;
use warren_face::error::ApiError;

use crate::answer::Answer;

pub(crate) use self::call::Call;

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
    Undo,
    Sandbox,
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
    pub(crate) const ALL: [Self; 10] = [
        Self::Bash,
        Self::Python,
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Ls,
        Self::Glob,
        Self::Grep,
        Self::Undo,
        Self::Sandbox,
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
            Self::Undo => "undo",
            Self::Sandbox => "sandbox",
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
            Self::Undo => "Undo changes",
            Self::Sandbox => "Make and end sandboxes",
        }
    }

    fn effect(self) -> Effect {
        match self {
            Self::Read | Self::Ls | Self::Glob | Self::Grep => Effect::Looks,
            Self::Bash | Self::Python | Self::Edit | Self::Undo => Effect::Changes,
            Self::Write => Effect::Settles,
            Self::Sandbox => Effect::Destroys,
        }
    }

    fn reach(self) -> Reach {
        match self {
            Self::Bash | Self::Python => Reach::World,
            _ => Reach::Sandbox,
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let effect = self.effect();
        ToolAnnotations::with_title(self.title())
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

pub(crate) async fn run(tool: Tool, call: Call<'_>) -> Result<Answer, ApiError> {
    match tool {
        Tool::Bash => program::bash(call).await,
        Tool::Python => program::python(call).await,
        Tool::Read | Tool::Write | Tool::Edit | Tool::Ls | Tool::Glob | Tool::Grep => {
            files::call(tool, call).await
        }
        Tool::Undo => travel::undo(call).await,
        Tool::Sandbox => sandbox::act(call).await,
    }
}
