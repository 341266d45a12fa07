//! Commands of a build, run in its sandbox.

use std::io::{self, Read};

use bytes::Bytes;
use warren_core::{BuildFailure, UnknownUser};
use warren_wire::guest::{ByteString, ExitCause, FileCall, FileOperation, Reader, WriteMode};

use super::start::{Environment, Place, in_shell};
use crate::ports::blocking;
use crate::state::{BuildLog, LogLevel};
use crate::{EngineError, OutputCaps, ProcessEvent, ProcessSpec};

/// A line that does not end is told in pieces of this size.
const LONGEST_LINE: usize = 16 << 10;

/// The most that variables may take, listed.
const MOST_ENV: usize = 1 << 20;

/// Bytes of an archive that are read at a time.
const PIECE: usize = 256 << 10;

/// Where the output of a command goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output<'a> {
    pub(super) log: &'a BuildLog,
    pub(super) step: &'a str,
}

/// The lines of one stream.
#[derive(Debug)]
struct Lines<'a> {
    output: Output<'a>,
    level: LogLevel,
    rest: Vec<u8>,
}

impl Lines<'_> {
    fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map(|place| place + 1);
        let end = whole.or_else(|| (self.rest.len() >= LONGEST_LINE).then_some(self.rest.len()));
        if let Some(end) = end {
            let lines: Vec<u8> = self.rest.drain(..end).collect();
            self.output.log.add(self.level, self.output.step, &String::from_utf8_lossy(&lines));
        }
    }
}

impl Drop for Lines<'_> {
    fn drop(&mut self) {
        self.output.log.add(self.level, self.output.step, &String::from_utf8_lossy(&self.rest));
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandFailure {
    #[error("exit status {0}")]
    Status(i32),
    #[error("it was ended by signal {0}")]
    Signal(i32),
    #[error("it took too long")]
    TimedOut,
    #[error("there is no user '{user}'")]
    UnknownUser { user: String },
    #[error("command failed: {}", .0.told())]
    Engine(#[from] EngineError),
}

impl CommandFailure {
    fn of_exit(code: i32, cause: &ExitCause) -> Self {
        match cause {
            ExitCause::Exited => Self::Status(code),
            ExitCause::Signalled { signal } => Self::Signal(*signal),
            ExitCause::TimedOut => Self::TimedOut,
        }
    }

    /// A refusal of a command that was to run as that user.
    fn of_start(error: EngineError, user: Option<&str>) -> Self {
        match (&error, user) {
            (EngineError::Refused(failure), Some(user)) if failure.is_unknown_user() => {
                Self::UnknownUser { user: user.to_owned() }
            }
            _ => Self::Engine(error),
        }
    }

    /// As the end of a build whose step ran that command.
    fn in_step(self, step: &str, command: &str) -> BuildFailure {
        let message = format!("failed to run command '{command}': {self}");
        let unknown_user = match self {
            Self::UnknownUser { user } => Some(UnknownUser { command: command.to_owned(), user }),
            _ => None,
        };
        BuildFailure { message, step: step.to_owned(), unknown_user }
    }
}

/// Why files did not reach the sandbox.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("the files are not here any more: send them again")]
    Gone,
    #[error("the files could not be read")]
    Read(#[source] io::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl SendError {
    pub(super) fn of_read(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::Gone } else { Self::Read(error) }
    }
}

impl Place<'_> {
    /// Runs a command of the client's as a login shell would. Anything but success is a failure.
    pub(super) async fn run(
        &self,
        command: &str,
        with: &Environment,
        output: Output<'_>,
    ) -> Result<(), BuildFailure> {
        let ran = self.until_end(in_shell(command, with), with.user.as_deref(), output).await;
        ran.map_err(|failure| failure.in_step(output.step, command))
    }

    /// Runs a script of ours as root.
    pub(super) async fn script(
        &self,
        name: &str,
        script: &str,
        args: &[&str],
        output: Output<'_>,
    ) -> Result<(), CommandFailure> {
        let root = Environment { user: Some("root".to_owned()), ..Environment::default() };
        let words = ["/bin/bash", "-c", script, name].into_iter().chain(args.iter().copied());
        let argv = words.map(ByteString::from).collect();
        let spec = ProcessSpec { argv, cwd: Some("/".into()), ..in_shell("", &root) };
        self.until_end(spec, None, output).await
    }

    async fn until_end(
        &self,
        spec: ProcessSpec,
        user: Option<&str>,
        output: Output<'_>,
    ) -> Result<(), CommandFailure> {
        let spec = ProcessSpec { follow: Some(Reader::Holds), ..spec };
        let started = self.sandbox.start(spec).await;
        let mut process = started.map_err(|error| CommandFailure::of_start(error, user))?;
        let lines = |level| Lines { output, level, rest: Vec::new() };
        let (mut stdout, mut stderr) = (lines(LogLevel::Info), lines(LogLevel::Warn));
        while let Some(event) = process.next().await? {
            match event {
                ProcessEvent::Stdout { bytes, .. } => stdout.push(&bytes),
                ProcessEvent::Stderr { bytes, .. } => stderr.push(&bytes),
                ProcessEvent::Missed { .. } => {}
                ProcessEvent::Exited(exit) if exit.code == 0 => return Ok(()),
                ProcessEvent::Exited(exit) => return Err(CommandFailure::of_exit(exit.code, &exit.cause)),
            }
        }
        Err(CommandFailure::Status(-1))
    }

    /// The variables that a command finds.
    pub(super) async fn variables(&self, with: &Environment) -> Result<Vec<(String, String)>, EngineError> {
        let spec = ProcessSpec { argv: vec!["env".into()], ..in_shell("", with) };
        let caps = OutputCaps { stdout: MOST_ENV, stderr: 0 };
        let listed = self.sandbox.exec(spec, Bytes::new(), caps).await?;
        let text = String::from_utf8_lossy(&listed.stdout.bytes).into_owned();
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(text.lines().filter_map(pair).collect())
    }

    /// Writes an archive into the sandbox.
    pub(super) async fn send(&self, mut archive: Box<dyn Read + Send>, to: &str) -> Result<(), SendError> {
        let operation = FileOperation::Write {
            path: to.into(),
            mode: WriteMode::Truncate,
            permissions: Some(0o600),
            parents: true,
        };
        let call = FileCall { user: Some("root".into()), operation, as_root: Some(true) };
        let mut writer = self.sandbox.files().write(call).await?;
        loop {
            let (same, bytes) = blocking(move || {
                let bytes = piece(&mut archive);
                (archive, bytes)
            })
            .await;
            let bytes = bytes.map_err(SendError::Read)?;
            if bytes.is_empty() {
                break;
            }
            writer.write(bytes).await?;
            archive = same;
        }
        writer.finish().await?;
        Ok(())
    }
}

fn piece(archive: &mut dyn Read) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(PIECE);
    archive.take(PIECE as u64).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
