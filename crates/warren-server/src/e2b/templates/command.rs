//! Commands of a build, run in its sandbox.

use bytes::Bytes;
use warren_e2b::rest::templates::LogLevel;
use warren_engine::{EngineError, OutputCaps, ProcessEvent, ProcessSpec};
use warren_wire::guest::{ByteString, ExitCause, FailureCode, Reader};

use super::jobs::Job;
use super::start::{Place, Surroundings, in_shell};
use crate::error::chain;

/// A line that does not end is told in pieces of this size.
const PIECE: usize = 16 << 10;

/// What variables may take, listed.
const MOST_ENV: usize = 1 << 20;

/// Why a command came to nothing.
#[derive(Debug)]
pub(super) struct CommandFailure(pub(super) String);

/// Where the output of a command goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output<'a> {
    pub(super) job: &'a Job,
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
        let end = whole.or_else(|| (self.rest.len() >= PIECE).then_some(self.rest.len()));
        if let Some(end) = end {
            let lines: Vec<u8> = self.rest.drain(..end).collect();
            self.output.job.log(self.level, self.output.step, &String::from_utf8_lossy(&lines));
        }
    }
}

impl Drop for Lines<'_> {
    fn drop(&mut self) {
        self.output.job.log(self.level, self.output.step, &String::from_utf8_lossy(&self.rest));
    }
}

impl Place<'_> {
    /// Runs a command of the client's as a login shell would. Anything but success is a failure.
    pub(super) async fn run(
        &self,
        command: &str,
        around: &Surroundings,
        output: Output<'_>,
    ) -> Result<(), CommandFailure> {
        let spec = in_shell(command, around);
        self.until_end(spec, output).await.map_err(|why| {
            let why = why.told(around.user.as_deref());
            CommandFailure(format!("failed to run command '{command}': {why}"))
        })
    }

    /// Runs a script of ours as root.
    pub(super) async fn script(
        &self,
        name: &str,
        script: &str,
        args: &[&str],
        output: Output<'_>,
    ) -> Result<(), CommandFailure> {
        let root = Surroundings { user: Some("root".to_owned()), ..Surroundings::default() };
        let words = ["/bin/bash", "-c", script, name].into_iter().chain(args.iter().copied());
        let argv = words.map(ByteString::from).collect();
        let spec = ProcessSpec { argv, cwd: Some("/".into()), ..in_shell("", &root) };
        self.until_end(spec, output).await.map_err(|why| CommandFailure(why.told(None)))
    }

    async fn until_end(&self, spec: ProcessSpec, output: Output<'_>) -> Result<(), Ended> {
        let spec = ProcessSpec { follow: Some(Reader::Holds), ..spec };
        let mut process = self.sandbox.start(spec).await?;
        let lines = |level| Lines { output, level, rest: Vec::new() };
        let (mut stdout, mut stderr) = (lines(LogLevel::Info), lines(LogLevel::Warn));
        while let Some(event) = process.next().await? {
            match event {
                ProcessEvent::Stdout { bytes, .. } => stdout.push(&bytes),
                ProcessEvent::Stderr { bytes, .. } => stderr.push(&bytes),
                ProcessEvent::Missed { .. } => {}
                ProcessEvent::Exited(exit) if exit.code == 0 => return Ok(()),
                ProcessEvent::Exited(exit) => return Err(Ended::Badly(exit.code, exit.cause)),
            }
        }
        Err(Ended::Badly(-1, ExitCause::Exited))
    }

    /// The variables that a command finds.
    pub(super) async fn variables(
        &self,
        around: &Surroundings,
    ) -> Result<Vec<(String, String)>, EngineError> {
        let spec = ProcessSpec { argv: vec!["env".into()], ..in_shell("", around) };
        let caps = OutputCaps { stdout: MOST_ENV, stderr: 0 };
        let listed = self.sandbox.exec(spec, Bytes::new(), caps).await?;
        let text = String::from_utf8_lossy(&listed.stdout.bytes).into_owned();
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(text.lines().filter_map(pair).collect())
    }
}

/// How a command did not end well.
#[derive(Debug)]
enum Ended {
    Badly(i32, ExitCause),
    Refused(EngineError),
}

impl From<EngineError> for Ended {
    fn from(error: EngineError) -> Self {
        Self::Refused(error)
    }
}

impl Ended {
    /// In words that clients of this protocol look for.
    fn told(&self, user: Option<&str>) -> String {
        match (self, user) {
            (Self::Refused(EngineError::Refused(failure)), Some(user))
                if failure.code == FailureCode::Invalid =>
            {
                format!("command failed: unauthenticated: invalid username: '{user}'")
            }
            (Self::Refused(error), _) => format!("command failed: {}", chain(error)),
            (Self::Badly(_, ExitCause::Signalled { signal }), _) => {
                format!("it was ended by signal {signal}")
            }
            (Self::Badly(_, ExitCause::TimedOut), _) => "it took too long".to_owned(),
            (Self::Badly(code, ExitCause::Exited), _) => format!("exit status {code}"),
        }
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
