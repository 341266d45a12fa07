//! Processes inside sandboxes: run to their end, followed, or left alone.

mod calls;
mod collect;
mod follow;
mod input;
mod launch;
mod port;
mod visit;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use warren_core::{Action, Request};
use warren_wire::guest::{
    ByteString, Exit, FailureCode, LOGIN_SHELL, ProcessInfo, ProcessSelector, Reader, Reply, Request as Call,
    Start, Started, Stdin, TerminalSize,
};

use self::calls::shortened;
use self::follow::Part;
use crate::entry::Entry;
use crate::guest::{self, ANSWER, Guest};
use crate::shown::as_typed;
use crate::{EngineError, Sandbox};

pub use collect::Collector;
pub use follow::{ProcessHandle, ProcessReader, ProcessWriter};
pub use input::ProcessInput;
pub use launch::{give_port, port_of};
pub use port::PortStream;
pub use visit::{LifeMark, Visit};

/// The process to run. It is the agent's own message, so nothing is lost on the way.
pub type ProcessSpec = Start;

/// A row of the process list.
pub type Process = ProcessInfo;

/// How much of an exec's output is kept, per stream. The process runs to its end whatever it
/// writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputCaps {
    pub stdout: usize,
    pub stderr: usize,
}

/// One stream of a finished exec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The beginning and, where too much was written, the end: see `dropped_at`.
    pub bytes: Vec<u8>,
    /// Bytes written in all.
    pub total: u64,
    /// Where in `bytes` something was left out.
    pub dropped_at: Option<usize>,
}

/// A finished exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecResult {
    pub started: Started,
    pub exit: Exit,
    pub stdout: Output,
    pub stderr: Output,
}

/// An event of a followed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// `position` is that of the first byte, in both streams counted together: the cursor to come
    /// back with is `position + bytes.len()`.
    Stdout {
        position: u64,
        bytes: Bytes,
    },
    Stderr {
        position: u64,
        bytes: Bytes,
    },
    /// Output was lost to this follower; what comes next starts at `position`.
    Missed {
        bytes: u64,
        position: u64,
    },
    /// Always the last.
    Exited(Exit),
}

/// A process with a port, as [`Sandbox::launch`] answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub process: Process,
    pub port: u16,
    pub status: LaunchStatus,
}

/// Where a launched process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchStatus {
    /// It runs, but its port does not answer yet.
    Starting,
    Running,
    Exited,
}

impl Sandbox {
    /// Runs a process to its end and collects what it wrote. `stdin` is written and closed. If the
    /// caller gives up, the process runs on.
    pub async fn exec(
        &self,
        spec: ProcessSpec,
        stdin: Bytes,
        caps: OutputCaps,
    ) -> Result<ExecResult, EngineError> {
        let (entry, guest) = self.at_work(&spec).await?;
        entry.failing(guest.exec(spec, stdin, caps).await)
    }

    /// Starts a process and follows it, as [`Start::follow`] asks; without that the process waits
    /// for its reader.
    pub async fn start(&self, spec: ProcessSpec) -> Result<ProcessHandle, EngineError> {
        let (entry, guest) = self.at_work(&spec).await?;
        let handle = entry.failing(guest.start(spec).await)?;
        Ok(ProcessHandle { entry: entry.number(), ..handle })
    }

    /// As [`Sandbox::start`], for a line that a login shell reads: bash, or sh where there is none.
    pub async fn start_line(&self, line: &str, spec: ProcessSpec) -> Result<ProcessHandle, EngineError> {
        let shell =
            |name: &str| ProcessSpec { argv: vec![name.into(), "-lc".into(), line.into()], ..spec.clone() };
        match self.start(shell("bash")).await {
            Err(EngineError::Refused(failure)) if failure.code == FailureCode::NotFound => {
                self.start(shell("sh")).await
            }
            started => started,
        }
    }

    /// Starts a process and leaves it alone.
    pub async fn spawn(&self, spec: ProcessSpec) -> Result<Process, EngineError> {
        let (entry, guest) = self.at_work(&spec).await?;
        entry.failing(guest.spawn(spec).await)
    }

    /// Starts a process that will listen on a port, which it finds in `PORT`. Does not wait for the
    /// port.
    pub async fn launch(&self, spec: ProcessSpec, port: u16) -> Result<Launched, EngineError> {
        let (entry, guest) = self.at_work(&spec).await?;
        entry.failing(guest.launch_on(spec, port).await)
    }

    /// Comes in to start a process, which the journal knows before it is there.
    async fn at_work(&self, spec: &ProcessSpec) -> Result<(Arc<Entry>, Guest), EngineError> {
        let entry = Arc::new(self.enter(Request::Execute).await?);
        let (command, process) = (as_typed(&spec.argv), None);
        let action = match spec.terminal {
            Some(_) if spec.argv.iter().map(ByteString::as_bytes).eq(LOGIN_SHELL.map(str::as_bytes)) => {
                Action::Terminal { command: "login shell".to_owned(), process }
            }
            Some(_) => Action::Terminal { command, process },
            None => Action::Exec { command, process },
        };
        entry.begin(action, None).await;
        let guest = entry.guest();
        Ok((entry, guest))
    }

    /// Comes in only to look on: pauses and rollbacks do not wait for it.
    pub(crate) async fn onlooker(&self, request: Request) -> Result<Guest, EngineError> {
        let entry = self.enter(request).await?;
        entry.step_aside();
        Ok(Arc::new(entry).guest())
    }
}

impl Guest {
    async fn exec(&self, spec: Start, stdin: Bytes, caps: OutputCaps) -> Result<ExecResult, EngineError> {
        let (mut stdout, mut stderr) = (Collector::new(caps.stdout), Collector::new(caps.stderr));
        let see = |event: ProcessEvent| match event {
            ProcessEvent::Stdout { bytes, .. } => stdout.push(&bytes),
            ProcessEvent::Stderr { bytes, .. } => stderr.push(&bytes),
            // Nobody knows which of the two it was.
            ProcessEvent::Missed { .. } => {
                stdout.skip();
                stderr.skip();
            }
            ProcessEvent::Exited(_) => {}
        };
        let (started, exit) = self.run(spec, stdin, see).await?;
        Ok(ExecResult { started, exit, stdout: stdout.finish(), stderr: stderr.finish() })
    }

    /// Runs a process to its end, and shows what it writes.
    pub(crate) async fn run(
        &self,
        mut spec: Start,
        stdin: Bytes,
        see: impl FnMut(ProcessEvent),
    ) -> Result<(Started, Exit), EngineError> {
        spec.stdin = if stdin.is_empty() { Stdin::Null } else { Stdin::Piped };
        let limit = spec.timeout_ms.map(Duration::from_millis);
        let handle = self.start(spec).await?;
        let started = handle.started;
        let (mut reader, mut writer) = handle.split();
        let feed = async {
            // A process that reads none of its input, or not all, is no failure.
            if writer.write(stdin).await.is_ok() {
                writer.close_stdin().await.ok();
            }
            std::future::pending().await
        };
        let exit = tokio::select! {
            exit = in_time(limit, show(&mut reader, see)) => exit?,
            exit = feed => exit,
        };
        Ok((started, exit))
    }

    pub(crate) async fn start(&self, mut spec: Start) -> Result<ProcessHandle, EngineError> {
        let pace = *spec.follow.get_or_insert(Reader::Holds);
        let (started, call) = self.start_process(spec).await?;
        Ok(ProcessHandle::new(call, started, pace, Part::Starter))
    }

    /// Starts a process, and tells the sandbox's history of it.
    async fn start_process(&self, spec: Start) -> Result<(Started, guest::Call), EngineError> {
        let command = shortened(&spec.argv);
        match self.begin(&Call::Start(spec), ANSWER).await? {
            (Reply::Started(started), call) => {
                self.observer.started(started.process, command);
                Ok((started, call))
            }
            _ => Err(self.unexpected("no word of a start")),
        }
    }
}

async fn show(reader: &mut ProcessReader, mut see: impl FnMut(ProcessEvent)) -> Result<Exit, EngineError> {
    loop {
        match reader.next().await? {
            Some(ProcessEvent::Exited(exit)) => return Ok(exit),
            Some(event) => see(event),
            None => return Err(reader.cut_short()),
        }
    }
}

/// The agent ends a process at its time limit. One that does not is not waited for much longer.
async fn in_time(
    limit: Option<Duration>,
    work: impl Future<Output = Result<Exit, EngineError>>,
) -> Result<Exit, EngineError> {
    let Some(limit) = limit else { return work.await };
    match tokio::time::timeout(limit.saturating_add(ANSWER), work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(EngineError::TimedOut { what: "the command".to_owned(), seconds: limit.as_secs() }),
    }
}

/// The processes of a sandbox that were started before.
#[derive(Debug, Clone)]
pub struct Processes {
    pub(crate) sandbox: Sandbox,
}

impl Sandbox {
    pub fn processes(&self) -> Processes {
        Processes { sandbox: self.clone() }
    }
}

impl Processes {
    /// For a process that was launched with a port.
    pub async fn launch_status(&self, process: ProcessSelector) -> Result<Launched, EngineError> {
        self.sandbox.guest(Request::Execute).await?.launch_status(&process).await
    }

    /// Follows a process that runs or ran, from a position on.
    pub async fn follow(
        &self,
        process: ProcessSelector,
        from: u64,
        reader: Reader,
    ) -> Result<ProcessHandle, EngineError> {
        self.sandbox.onlooker(Request::Execute).await?.follow(process, from, reader).await
    }

    pub async fn list(&self) -> Result<Vec<Process>, EngineError> {
        self.sandbox.guest(Request::Execute).await?.processes().await
    }

    pub async fn get(&self, process: ProcessSelector) -> Result<Process, EngineError> {
        self.sandbox.guest(Request::Execute).await?.process(&process).await
    }

    pub async fn signal(
        &self,
        process: ProcessSelector,
        signal: i32,
        group: bool,
    ) -> Result<(), EngineError> {
        self.sandbox.guest(Request::Execute).await?.signal(process, signal, group).await
    }

    /// Writes to a process's standard input, and closes it if asked. Waits when the process does
    /// not read.
    pub async fn input(
        &self,
        process: ProcessSelector,
        bytes: Bytes,
        close: bool,
    ) -> Result<(), EngineError> {
        self.sandbox.guest(Request::Execute).await?.input(process, bytes, close).await
    }

    /// As [`Processes::input`], for what arrives in pieces.
    pub async fn open_input(
        &self,
        process: ProcessSelector,
        close: bool,
    ) -> Result<ProcessInput, EngineError> {
        self.sandbox.guest(Request::Execute).await?.open_input(process, close).await
    }

    pub async fn resize(&self, process: ProcessSelector, size: TerminalSize) -> Result<(), EngineError> {
        self.sandbox.guest(Request::Execute).await?.resize(process, size).await
    }

    pub async fn wait(&self, process: ProcessSelector) -> Result<Exit, EngineError> {
        let guest = self.sandbox.onlooker(Request::Execute).await?;
        let exit = guest.wait(process).await?;
        guest.observer.flush().await?;
        Ok(exit)
    }
}

impl Entry {
    /// Tells the journal of a failure.
    fn failing<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        if let Err(error) = &outcome {
            self.fail(error);
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
