//! Which tools there are, and what each takes.

use serde_json::Value;
use warren_core::Request;

use super::answer::{Answer, ToolError};
use super::edit::{self, Edit};
use super::fields::Fields;
use super::listing::{self, Glob, Ls};
use super::program::{self, Program};
use super::read::{self, Read};
use super::search::{self, Grep};
use super::write::{self, Write};
use super::{Context, ToolInfo};
use crate::EngineError;
use crate::error::Field;

/// A tool by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Bash,
    Python,
    Read,
    Write,
    Edit,
    Ls,
    Glob,
    Grep,
}

/// A call whose parameters were understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    Program(Program),
    Read(Read),
    Write(Write),
    Edit(Edit),
    Ls(Ls),
    Glob(Glob),
    Grep(Grep),
}

impl Tool {
    pub(super) const ALL: [Self; 8] =
        [Self::Bash, Self::Python, Self::Read, Self::Write, Self::Edit, Self::Ls, Self::Glob, Self::Grep];

    pub(super) fn named(name: &str) -> Result<Self, EngineError> {
        Self::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            EngineError::invalid(Field::Tool, format!("there is no tool `{name}`; there are: {known}"))
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Python => "python",
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Ls => "ls",
            Self::Glob => "glob",
            Self::Grep => "grep",
        }
    }

    /// 1: it only touches files. 2: it runs programs.
    pub(super) fn tier(self) -> u8 {
        match self {
            Self::Bash | Self::Python => 2,
            Self::Read | Self::Write | Self::Edit | Self::Ls | Self::Glob | Self::Grep => 1,
        }
    }

    /// The lifecycle request that it makes of the sandbox.
    pub(super) fn leave(self) -> Request {
        match self {
            Self::Bash | Self::Python => Request::Execute,
            Self::Write | Self::Edit => Request::WriteFiles,
            Self::Read | Self::Ls | Self::Glob | Self::Grep => Request::ReadFiles,
        }
    }

    pub(super) fn info(self) -> ToolInfo {
        ToolInfo {
            name: self.name(),
            description: self.description(),
            tier: self.tier(),
            parameters: self.parameters(),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Bash => {
                "Run a command line in a login shell and answer what it writes, both streams in order, and its exit code. \
                 Each call has a shell of its own; what it leaves running in the background goes on."
            }
            Self::Python => "Run a Python 3 program and answer what it writes and its exit code.",
            Self::Read => {
                "Read a text file, or part of it by lines; or look at an image (PNG, JPEG, GIF, WebP)."
            }
            Self::Write => {
                "Write a file: make it with the directories it needs, or replace all of its content."
            }
            Self::Edit => {
                "Replace a text in a file by another, exactly as given. Refused if the text is not there or not unique."
            }
            Self::Ls => "List a directory: directories end with a slash, files have their size.",
            Self::Glob => "Find files whose path has a given shape.",
            Self::Grep => "Find lines that match a regular expression, in all text files below a directory.",
        }
    }

    fn parameters(self) -> Value {
        match self {
            Self::Bash => program::bash_schema(),
            Self::Python => program::python_schema(),
            Self::Read => read::schema(),
            Self::Write => write::schema(),
            Self::Edit => edit::schema(),
            Self::Ls => listing::ls_schema(),
            Self::Glob => listing::glob_schema(),
            Self::Grep => search::schema(),
        }
    }

    /// Understands parameters exactly as the schema allows them.
    pub(super) fn parse(self, params: &Value) -> Result<Order, EngineError> {
        let fields = Fields::new(self.name(), params)?;
        Ok(match self {
            Self::Bash => Order::Program(Program::bash(fields)?),
            Self::Python => Order::Program(Program::python(fields)?),
            Self::Read => Order::Read(Read::parse(fields)?),
            Self::Write => Order::Write(Write::parse(fields)?),
            Self::Edit => Order::Edit(Edit::parse(fields)?),
            Self::Ls => Order::Ls(Ls::parse(fields)?),
            Self::Glob => Order::Glob(Glob::parse(fields)?),
            Self::Grep => Order::Grep(Grep::parse(fields)?),
        })
    }
}

impl Order {
    /// The time limit that the parameters ask for.
    pub(super) fn timeout_ms(&self) -> Option<u64> {
        match self {
            Self::Program(program) => program.timeout_ms,
            _ => None,
        }
    }

    /// Does it. What the tool itself could not do is an answer, too.
    pub(super) async fn run(self, context: &Context) -> Result<Answer, EngineError> {
        let outcome = match self {
            // The agent ends it in time.
            Self::Program(program) => program.run(context).await,
            Self::Read(read) => context.in_time(read.run(context)).await,
            Self::Write(write) => context.in_time(write.run(context)).await,
            Self::Edit(edit) => context.in_time(edit.run(context)).await,
            Self::Ls(ls) => context.in_time(ls.run(context)).await,
            Self::Glob(glob) => context.in_time(glob.run(context)).await,
            Self::Grep(grep) => context.in_time(grep.run(context)).await,
        };
        match outcome {
            Ok(answer) => Ok(answer),
            Err(ToolError::Told(why)) => Ok(Answer::failure(why)),
            Err(ToolError::Engine(error)) => Err(error),
        }
    }
}
