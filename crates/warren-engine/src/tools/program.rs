//! `bash` and `python`: programs under the sandbox's limits.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use warren_wire::guest::{ByteString, Exit, ExitCause, FailureCode, Start};

use super::answer::{Answer, Decoder, ToolError, cut};
use super::fields::Fields;
use super::{ContentBlock, Context, ToolProgress};
use crate::EngineError;
use crate::processes::{Collector, ProcessEvent};

/// The longest time limit that a call can ask for.
pub(super) const MOST_TIMEOUT_MS: u64 = 3_600_000;
/// The kernel takes no longer argument, and some of it is ours.
const MOST_COMMAND_BYTES: usize = 120_000;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    source: Source,
    cwd: Option<String>,
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Bash(String),
    Python(String),
}

pub(super) fn bash_schema() -> Value {
    schema("command", "A command line, given to a login shell.")
}

pub(super) fn python_schema() -> Value {
    schema("code", "A program for Python 3.")
}

fn schema(name: &str, what: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            name: { "type": "string", "minLength": 1, "description": what },
            "timeout_ms": {
                "type": "integer", "minimum": 1, "maximum": MOST_TIMEOUT_MS,
                "description": "After this long it is killed with all it started. If absent, as the server is configured: 120000 by itself."
            },
            "cwd": {
                "type": "string", "minLength": 1,
                "description": "The directory to run in; the sandbox's working directory if absent."
            }
        },
        "required": [name],
        "additionalProperties": false
    })
}

impl Program {
    pub(super) fn bash(mut fields: Fields) -> Result<Self, EngineError> {
        let source = Source::Bash(fields.words("command")?);
        Self::rest(source, fields)
    }

    pub(super) fn python(mut fields: Fields) -> Result<Self, EngineError> {
        let source = Source::Python(fields.words("code")?);
        Self::rest(source, fields)
    }

    fn rest(source: Source, mut fields: Fields) -> Result<Self, EngineError> {
        let timeout_ms = fields.number("timeout_ms", 1, MOST_TIMEOUT_MS)?;
        let cwd = fields.optional_words("cwd")?;
        fields.finish()?;
        Ok(Self { source, cwd, timeout_ms })
    }

    pub(super) async fn run(self, context: &Context) -> Result<Answer, ToolError> {
        let Self { source, cwd, .. } = self;
        let cwd = match cwd {
            Some(cwd) => Some(context.place(&cwd).await),
            None => None,
        };
        let start = |argv: Vec<ByteString>| Start {
            argv,
            cwd: cwd.clone(),
            timeout_ms: Some(context.timeout_ms),
            ..Start::default()
        };
        match source {
            Source::Bash(command) if command.len() > MOST_COMMAND_BYTES => Err(ToolError::told(format!(
                "the command has {} bytes, and the system takes {MOST_COMMAND_BYTES}: write it to a file and run that",
                command.len()
            ))),
            Source::Bash(command) => {
                let command = context.limited(&command);
                let shell = |name: &str| start(vec![name.into(), "-lc".into(), command.clone().into()]);
                match run(context, shell("bash"), Bytes::new()).await {
                    Err(EngineError::Refused(failure)) if failure.code == FailureCode::NotFound => {
                        Ok(run(context, shell("sh"), Bytes::new()).await?)
                    }
                    outcome => Ok(outcome?),
                }
            }
            Source::Python(code) => {
                let python = ["python3", "-u", "-"].map(ByteString::from);
                let argv = match context.memory_kib() {
                    None => python.to_vec(),
                    Some(kib) => {
                        let limit = format!("ulimit -v {kib} && exec \"$@\"");
                        ["sh".into(), "-c".into(), limit.into(), "sh".into()]
                            .into_iter()
                            .chain(python)
                            .collect()
                    }
                };
                Ok(run(context, start(argv), code.into()).await?)
            }
        }
    }
}

impl Context {
    /// A command whose processes may not have more memory than the call may.
    fn limited(&self, command: &str) -> String {
        match self.memory_kib() {
            None => command.to_owned(),
            // On the same line, so that a shell that complains names the right one.
            Some(kib) => format!("ulimit -v {kib} || exit 125; {command}"),
        }
    }

    fn memory_kib(&self) -> Option<u64> {
        self.memory_bytes.map(|bytes| bytes.div_ceil(1024))
    }
}

async fn run(context: &Context, start: Start, stdin: Bytes) -> Result<Answer, EngineError> {
    let mut transcript = Transcript::new(context);
    let (_, exit) = context.guest.run(start, stdin, |event| transcript.see(event)).await?;
    Ok(transcript.finish(&exit))
}

/// A program's output, both streams in the order in which it arrives.
struct Transcript<'a> {
    context: &'a Context,
    stdout: Decoder,
    stderr: Decoder,
    kept: Collector,
}

impl<'a> Transcript<'a> {
    fn new(context: &'a Context) -> Self {
        let kept = Collector::new(context.most_output);
        Self { context, stdout: Decoder::default(), stderr: Decoder::default(), kept }
    }

    fn see(&mut self, event: ProcessEvent) {
        match event {
            ProcessEvent::Stdout { bytes, .. } => {
                let text = self.stdout.push(&bytes);
                self.tell(text, ToolProgress::Stdout);
            }
            ProcessEvent::Stderr { bytes, .. } => {
                let text = self.stderr.push(&bytes);
                self.tell(text, ToolProgress::Stderr);
            }
            ProcessEvent::Missed { .. } => self.kept.skip(),
            ProcessEvent::Exited(_) => {}
        }
    }

    fn tell(&mut self, text: String, progress: fn(String) -> ToolProgress) {
        if !text.is_empty() {
            self.kept.push(text.as_bytes());
            self.context.progress(|| progress(text));
        }
    }

    fn finish(mut self, exit: &Exit) -> Answer {
        for rest in [self.stdout.finish(), self.stderr.finish()] {
            self.kept.push(rest.as_bytes());
        }
        let mut block = cut(&self.kept.finish());
        if let (ContentBlock::Text { text, .. }, Some(end)) = (&mut block, how_it_ended(exit, self.context)) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&end);
        }
        Answer {
            content: vec![block],
            exit_code: Some(exit.code),
            is_error: exit.code != 0 || exit.cause != ExitCause::Exited,
        }
    }
}

/// A line about an end that was not a success.
fn how_it_ended(exit: &Exit, context: &Context) -> Option<String> {
    match exit.cause {
        ExitCause::Exited if exit.code == 0 => None,
        ExitCause::Exited => Some(format!("[exit code {}]", exit.code)),
        ExitCause::Signalled { signal } => Some(format!("[killed by signal {signal}]")),
        ExitCause::TimedOut => {
            let limit = Duration::from_millis(context.timeout_ms);
            Some(format!("[killed: it took longer than {limit:?}]"))
        }
    }
}
