use bytes::Bytes;
use tokio::net::UnixStream;
use warren_core::{Owner, SandboxId};
use warren_wire::guest::{Exit, ProcessInfo, ProcessSelector, Reader, Start, Started, TerminalSize};

use crate::{Engine, EngineError};

/// What is to be run. The agent's own message, so that nothing is lost on the way.
pub type ProcessSpec = Start;

/// A row of the process list.
pub type Process = ProcessInfo;

/// How much of an exec's output is kept, per stream. The process runs to its end whatever it writes.
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
    /// `position` is that of the first byte, in both streams counted together: the cursor to come back with is
    /// `position + bytes.len()`.
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

/// A process that is being followed. Dropping it lets the process run on.
#[derive(Debug)]
pub struct ProcessHandle {
    pub started: Started,
}

/// What [`Engine::launch`] says of a process with a port.
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

impl ProcessHandle {
    /// The next event; `None` after [`ProcessEvent::Exited`]. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, EngineError> {
        unimplemented!()
    }

    /// Writes to the process's standard input. Waits when the process does not read.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Closes the process's standard input.
    pub async fn close_stdin(&mut self) -> Result<(), EngineError> {
        unimplemented!()
    }

    pub async fn resize(&mut self, size: TerminalSize) -> Result<(), EngineError> {
        unimplemented!()
    }

    pub async fn signal(&mut self, signal: i32) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Two halves, for those who read and write at the same time.
    pub fn split(self) -> (ProcessReader, ProcessWriter) {
        unimplemented!()
    }
}

/// See [`ProcessHandle`].
#[derive(Debug)]
pub struct ProcessReader {}

/// See [`ProcessHandle`].
#[derive(Debug)]
pub struct ProcessWriter {}

impl Engine {
    /// Runs a process to its end and collects what it wrote. `stdin` is written and closed.
    pub async fn exec(
        &self,
        owner: &Owner,
        id: &SandboxId,
        spec: ProcessSpec,
        stdin: &[u8],
        caps: OutputCaps,
    ) -> Result<ExecResult, EngineError> {
        unimplemented!()
    }

    /// Starts a process and follows it.
    pub async fn start(
        &self,
        owner: &Owner,
        id: &SandboxId,
        spec: ProcessSpec,
    ) -> Result<ProcessHandle, EngineError> {
        unimplemented!()
    }

    /// Starts a process and leaves it alone.
    pub async fn spawn(
        &self,
        owner: &Owner,
        id: &SandboxId,
        spec: ProcessSpec,
    ) -> Result<Process, EngineError> {
        unimplemented!()
    }

    /// Starts a process that will listen on a port, which it finds in `PORT`.
    pub async fn launch(
        &self,
        owner: &Owner,
        id: &SandboxId,
        spec: ProcessSpec,
        port: u16,
    ) -> Result<Launched, EngineError> {
        unimplemented!()
    }

    pub async fn launch_status(
        &self,
        owner: &Owner,
        id: &SandboxId,
        process: ProcessSelector,
    ) -> Result<Launched, EngineError> {
        unimplemented!()
    }

    /// Follows a process that runs or ran, from a position on.
    pub async fn follow(
        &self,
        owner: &Owner,
        id: &SandboxId,
        process: ProcessSelector,
        from: u64,
        reader: Reader,
    ) -> Result<ProcessHandle, EngineError> {
        unimplemented!()
    }

    pub async fn processes(&self, owner: &Owner, id: &SandboxId) -> Result<Vec<Process>, EngineError> {
        unimplemented!()
    }

    pub async fn process(
        &self,
        owner: &Owner,
        id: &SandboxId,
        process: ProcessSelector,
    ) -> Result<Process, EngineError> {
        unimplemented!()
    }

    pub async fn signal(
        &self,
        owner: &Owner,
        id: &SandboxId,
        process: ProcessSelector,
        signal: i32,
        group: bool,
    ) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Writes to a process's standard input, and closes it if asked.
    pub async fn input(
        &self,
        owner: &Owner,
        id: &SandboxId,
        process: ProcessSelector,
        bytes: &[u8],
        close: bool,
    ) -> Result<(), EngineError> {
        unimplemented!()
    }

    pub async fn resize(
        &self,
        owner: &Owner,
        id: &SandboxId,
        process: ProcessSelector,
        size: TerminalSize,
    ) -> Result<(), EngineError> {
        unimplemented!()
    }

    pub async fn wait(
        &self,
        owner: &Owner,
        id: &SandboxId,
        process: ProcessSelector,
    ) -> Result<Exit, EngineError> {
        unimplemented!()
    }

    /// A connection to a TCP port on the sandbox's loopback, as a plain byte stream.
    pub async fn connect(&self, owner: &Owner, id: &SandboxId, port: u16) -> Result<UnixStream, EngineError> {
        unimplemented!()
    }
}
