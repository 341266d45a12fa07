use std::error::Error;
use std::io;
use std::path::Path;

use warren_core::{ErrorCode, IsolationErrorKind, error_chain};
use warren_engine::EngineError;
use warren_server::assembly::AssemblyError;
use warren_wire::client::ClientError;
use warren_wire::guest::CallError;

use crate::exit::{BROKEN_PIPE, FAILED, INTERRUPTED, NOT_EXECUTABLE, NOT_FOUND};

/// An error as people see it: the chain of causes, its code if it has one, and what to do next.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: u8,
    source: Box<dyn Error + Send + Sync>,
    /// The code, and the field to blame.
    label: Vec<String>,
    pub(crate) hints: Vec<String>,
}

impl CliError {
    pub(crate) fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit: FAILED, source: source.into(), label: Vec::new(), hints: Vec::new() }
    }

    /// An error of the vocabulary, which says how to exit and what to do next.
    pub(crate) fn coded(code: ErrorCode, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let label = vec![code.as_str().to_owned()];
        Self { exit: exit_of(code), label, ..Self::new(source) }.hint(code.hint())
    }

    /// An error of a server, which may be newer and have codes that are unknown here.
    pub(crate) fn from_problem(code: &str, detail: impl Into<String>) -> Self {
        match ErrorCode::named(code) {
            Some(code) => Self::coded(code, detail.into()),
            None => Self { label: vec![code.to_owned()], ..Self::new(detail.into()) },
        }
    }

    pub(crate) fn hint(mut self, text: impl Into<String>) -> Self {
        self.hints.push(text.into());
        self
    }

    pub(crate) fn exit(mut self, exit: u8) -> Self {
        self.exit = exit;
        self
    }

    /// The failure of a command. One whose name has spaces was meant for a shell.
    pub(crate) fn of_command(self, command: &[String]) -> Self {
        match command {
            [line] if self.exit == NOT_FOUND && line.contains(char::is_whitespace) => {
                self.hint("a line for the shell is three words: sh -c 'LINE'")
            }
            _ => self,
        }
    }

    /// A failure to do something with a file.
    pub(crate) fn at(path: &Path, error: io::Error) -> Self {
        Self::new(format!("{}: {error}", path.display()))
    }

    /// Somebody asked this process to end.
    pub(crate) fn interrupted() -> Self {
        Self::new("interrupted").exit(INTERRUPTED)
    }

    /// A failure to write output.
    pub(crate) fn output(error: io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { BROKEN_PIPE } else { FAILED };
        Self::new(error).exit(exit)
    }

    /// The error with all its causes and its code, in one line.
    pub(crate) fn chain(&self) -> String {
        let text = error_chain(self.source.as_ref());
        if self.label.is_empty() { text } else { format!("{text} ({})", self.label.join(", ")) }
    }
}

/// The option that helps against a refusal of the server.
fn flag_for(code: &str, field: Option<&str>) -> Option<&'static str> {
    let flag = match (ErrorCode::named(code)?, field) {
        (_, Some("mounts")) | (ErrorCode::VolumeNotAllowed, _) => {
            "on the server: `warren serve --allow-mount DIR` lets sandboxes have DIR and all below it"
        }
        (_, Some("ttl_s")) => "here: --ttl 2h, for instance",
        (ErrorCode::PermissionDenied, _) => "here: --user root",
        (ErrorCode::SandboxExhausted, _) => {
            "here: `warren create` takes --memory, --disk, --inodes and --pids"
        }
        (ErrorCode::MergeConflict, _) => "here: --theirs takes the fork's side, --ours the sandbox's",
        (ErrorCode::AlreadyExists, _) => "here: --replace, for templates",
        (ErrorCode::TimedOut, _) => "here: --timeout 10m, for instance",
        _ => return None,
    };
    Some(flag)
}

/// The exit code for an error's code; a shell's own where a command could not be run.
fn exit_of(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::PathNotFound => NOT_FOUND,
        ErrorCode::PermissionDenied | ErrorCode::WrongKind => NOT_EXECUTABLE,
        _ => FAILED,
    }
}

/// Tells whether the server refused for this reason.
pub(crate) fn is(error: &ClientError, code: ErrorCode) -> bool {
    error.code() == Some(code.as_str())
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused(problem) => {
                let mut told = Self::from_problem(&problem.code, problem.detail.as_str());
                told.label.extend(problem.field.clone());
                match flag_for(&problem.code, problem.field.as_deref()) {
                    Some(flag) => told.hint(flag),
                    None => told,
                }
            }
            ClientError::Cut { code, detail } => Self::from_problem(code, detail.as_str()),
            _ if error.is_untrusted() => Self::new(error)
                .hint("--ca FILE or WARREN_CA names the authority that vouches for the server"),
            ClientError::Connect { .. } | ClientError::Stream { .. } => {
                Self::new(error).hint("is the server running? `warren serve` starts one, --url names another")
            }
            _ => Self::new(error),
        }
    }
}

impl From<AssemblyError> for CliError {
    fn from(error: AssemblyError) -> Self {
        let hints = error.advice().into_iter().collect();
        Self { hints, ..Self::new(error) }
    }
}

/// Without a server there is no log, so a failure of the machine is explained here.
impl From<warren_core::IsolationError> for CliError {
    fn from(error: warren_core::IsolationError) -> Self {
        let code = match error.kind {
            IsolationErrorKind::Host => error.kind.code_of_start(),
            kind => kind.code(),
        };
        Self::coded(code, error)
    }
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(failure) => {
                let error = EngineError::Refused(failure);
                Self::coded(error.code(), error)
            }
            error => Self::new(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use warren_testkit::assert_error_column;

    use super::*;

    #[test]
    fn the_table_of_errors_has_the_exit_codes() {
        assert_error_column("exit", |code| exit_of(code).to_string());
    }

    #[test]
    fn an_error_is_told_with_its_code_and_what_to_do() {
        let told = CliError::from_problem("sandbox_not_found", "there is no sandbox `x`");
        assert_eq!(told.chain(), "there is no sandbox `x` (sandbox_not_found)");
        assert_eq!(told.hints, [ErrorCode::SandboxNotFound.hint()]);
        let refused = |code: ErrorCode, field| flag_for(code.as_str(), field).unwrap_or_default();
        assert!(refused(ErrorCode::InvalidValue, Some("mounts")).contains("--allow-mount"));
        assert_eq!(refused(ErrorCode::InvalidValue, None), "");
        let newer = CliError::from_problem("of_a_newer_server", "no");
        assert_eq!((newer.chain().as_str(), newer.hints.len()), ("no (of_a_newer_server)", 0));
    }
}
