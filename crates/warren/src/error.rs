use std::error::Error;
use std::io;
use std::process::ExitCode;

use warren_core::IsolationErrorKind;
use warren_server::assembly::AssemblyError;
use warren_wire::client::ClientError;
use warren_wire::guest::FailureCode;

use crate::ui;

/// What the command line says when something did not work: the chain of causes, and what to do next.
#[derive(Debug)]
pub(crate) struct CliError {
    code: u8,
    source: Box<dyn Error + Send + Sync>,
    hints: Vec<String>,
}

/// Warren itself could not do it, as opposed to the command that was run.
pub(crate) const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// What a shell says of a program that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// What a shell says of a program that SIGPIPE ended.
const BROKEN_PIPE: u8 = 141;

impl CliError {
    pub(crate) fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { code: FAILED, source: source.into(), hints: Vec::new() }
    }

    pub(crate) fn hint(mut self, text: impl Into<String>) -> Self {
        self.hints.push(text.into());
        self
    }

    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Somebody asked this process to end.
    pub(crate) fn interrupted() -> Self {
        Self::new("interrupted").code(INTERRUPTED)
    }

    /// Output could not be written. If nobody reads it any more, there is nobody to tell either.
    pub(crate) fn output(error: io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::BrokenPipe { BROKEN_PIPE } else { FAILED };
        Self { code, ..Self::new(error) }
    }

    /// What went wrong with all its causes, in one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.source.to_string();
        let mut next = self.source.source();
        while let Some(cause) = next {
            text.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        text
    }

    /// Prints the error and answers the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if self.code == BROKEN_PIPE {
            return ExitCode::from(self.code);
        }
        ui::complain(&self.chain());
        for hint in &self.hints {
            ui::say(&format!("  {hint}"));
        }
        ExitCode::from(self.code)
    }
}

impl CliError {
    /// What a server says, by its code.
    pub(crate) fn from_problem(code: &str, detail: impl Into<String>) -> Self {
        let exit = match code {
            "path_not_found" => NOT_FOUND,
            "permission_denied" | "wrong_kind" => NOT_EXECUTABLE,
            _ => FAILED,
        };
        let error = Self { code: exit, ..Self::new(detail.into()) };
        match hint_for(code) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// What to type next, by the server's word for what is wrong.
fn hint_for(code: &str) -> Option<&'static str> {
    match code {
        "unauthorized" => {
            Some("give the right key with --key or WARREN_API_KEY; `warren keys ls` lists keys")
        }
        "forbidden" => {
            Some("the key's scope does not allow this: `warren keys create --scope use` makes another")
        }
        "sandbox_not_found" => {
            Some("`warren ls` lists the sandboxes there are, `warren ls --all` those that ended too")
        }
        "session_not_found" => Some("`warren sessions` lists the sessions there are"),
        "process_not_found" => Some("`warren ps ID` lists the sandbox's processes"),
        "snapshot_not_found" => Some("`warren snapshots` lists the snapshots there are"),
        "history_not_kept" => {
            Some("`warren log ID` shows what was not kept, and why; --force takes it back as well")
        }
        "network_request_not_found" => Some("`warren net requests ID` lists what waits"),
        "network_unavailable" => Some("`warren doctor` on the server's machine says what is missing"),
        "tools_in_flight" => Some("`warren ps ID` lists what runs; --force ends it"),
        "max_sandboxes" => Some("`warren ls` lists sandboxes, `warren rm` removes them"),
        "read_only" => {
            Some("`warren health` says why; `warren health --accept-losses` goes on without what is missing")
        }
        _ => None,
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused(problem) => {
                let text = match &problem.field {
                    Some(field) if !problem.detail.contains(field) => format!("{field}: {}", problem.detail),
                    _ => problem.detail.clone(),
                };
                Self::from_problem(&problem.code, text)
            }
            ClientError::Cut { code, detail } => Self::from_problem(code, detail.as_str()),
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

impl From<warren_core::IsolationError> for CliError {
    fn from(error: warren_core::IsolationError) -> Self {
        let hint = match error.kind {
            IsolationErrorKind::Layer | IsolationErrorKind::Host => {
                Some("`warren doctor` checks what sandboxes need")
            }
            IsolationErrorKind::NotFound => Some("`warren ls` lists the sandboxes there are"),
            IsolationErrorKind::Exhausted => Some("`warren ls` lists sandboxes, `warren rm` removes them"),
            IsolationErrorKind::AlreadyExists
            | IsolationErrorKind::Unsupported
            | IsolationErrorKind::Invalid
            | IsolationErrorKind::Busy
            | IsolationErrorKind::Ended => None,
        };
        Self { hints: hint.into_iter().map(str::to_owned).collect(), ..Self::new(error) }
    }
}

impl From<warren_wire::guest::CallError> for CliError {
    fn from(error: warren_wire::guest::CallError) -> Self {
        let code = match &error {
            warren_wire::guest::CallError::Failed(failure) => match failure.code {
                FailureCode::NotFound => NOT_FOUND,
                FailureCode::PermissionDenied | FailureCode::WrongKind => NOT_EXECUTABLE,
                FailureCode::Invalid
                | FailureCode::Unsupported
                | FailureCode::AlreadyExists
                | FailureCode::Ended
                | FailureCode::Exhausted
                | FailureCode::Io => FAILED,
            },
            _ => FAILED,
        };
        Self { code, ..Self::new(error) }
    }
}
