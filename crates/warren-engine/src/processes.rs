//! Processes inside sandboxes: run to their end, followed, or left alone.

mod calls;
mod collect;
mod exec;
mod follow;
mod input;
mod launch;
mod port;
mod visit;
mod wake;

use std::sync::Arc;

use bytes::Bytes;
use warren_core::{Action, Request};
use warren_wire::guest::{
    ByteString, Exit, LOGIN_SHELL, ProcessInfo, ProcessSelector, Reader, Start, Started, TerminalSize,
};

use crate::entry::Entry;
use crate::guest::Guest;
use crate::shown::as_typed;
use crate::{EngineError, Sandbox};

pub(crate) use collect::Collector;
pub use follow::{ProcessHandle, ProcessReader, ProcessWriter};
pub use input::ProcessInput;
pub use launch::{give_port, port_of};
pub use port::PortStream;
pub use visit::{LifeMark, Visit};

/// What is to be run. The agent's own message, so that nothing is lost on the way.
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

/// What a follower of a process sees, in order.
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

/// What [`Sandbox::launch`] says of a process with a port.
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
        entry.failing(guest.start(spec).await)
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
        let guest = Guest::new(Arc::clone(&entry));
        Ok((entry, guest))
    }

    /// Comes in to look on, which is no work that anybody has to wait for.
    pub(crate) async fn onlooker(&self, request: Request) -> Result<Guest, EngineError> {
        let entry = self.enter(request).await?;
        entry.step_aside();
        Ok(Guest::new(Arc::new(entry)))
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
        guest.gate().flush().await?;
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
