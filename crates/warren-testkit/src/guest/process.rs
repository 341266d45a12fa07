use std::time::{Duration, Instant};

use warren_wire::guest::{
    ByteString, Exit, ExitCause, Failure, FailureCode, FrameKind, ProcessId, ProcessInfo, ProcessSelector,
    Start, Started, Stdin,
};

use super::State;
use super::programs::Script;

const SIGKILL: i32 = 9;
/// Signals that end a program by default: HUP, INT, QUIT, KILL, TERM.
const FATAL: [i32; 5] = [1, 2, 3, SIGKILL, 15];

/// A program that runs, or ran.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: u64,
    pub(super) pid: u32,
    pub(super) start: Start,
    /// Its output, in order.
    output: Vec<(FrameKind, Vec<u8>)>,
    written: u64,
    pub(super) stdin_open: bool,
    /// True if it copies its standard input to its output.
    pub(super) echoes: bool,
    /// The port on which it listens.
    pub(super) port: Option<u16>,
    pub(super) exit: Option<Exit>,
    began: Instant,
    /// When it ends by itself.
    ends: Option<Instant>,
    /// When it is killed.
    limit: Option<Instant>,
}

impl Process {
    pub(super) fn new(id: u64, start: Start, script: Script) -> Self {
        let began = Instant::now();
        let after = |ms: u64| began.checked_add(Duration::from_millis(ms));
        let mut process = Self {
            id,
            pid: u32::try_from(id).unwrap_or(u32::MAX).saturating_add(1),
            output: Vec::new(),
            written: 0,
            stdin_open: start.stdin == Stdin::Piped || start.terminal.is_some(),
            echoes: script.echoes,
            port: script.port,
            exit: None,
            began,
            ends: script.ends_after_ms.and_then(after),
            limit: start.timeout_ms.and_then(after),
            start,
        };
        for (kind, bytes) in script.output {
            process.write(kind, bytes);
        }
        if let Some(code) = script.exit_code {
            process.end(code, ExitCause::Exited);
        } else if process.echoes && !process.stdin_open {
            process.end(0, ExitCause::Exited);
        }
        process
    }

    pub(super) fn write(&mut self, kind: FrameKind, bytes: Vec<u8>) {
        let kind = if self.start.terminal.is_some() { FrameKind::Stdout } else { kind };
        self.written += bytes.len() as u64;
        if !bytes.is_empty() {
            self.output.push((kind, bytes));
        }
    }

    /// Takes standard input.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.exit.is_none() && self.stdin_open && self.echoes {
            self.write(FrameKind::Stdout, bytes.to_vec());
        }
    }

    pub(super) fn close_stdin(&mut self) {
        self.stdin_open = false;
        if self.echoes {
            self.end(0, ExitCause::Exited);
        }
    }

    pub(super) fn signal(&mut self, signal: i32) {
        if FATAL.contains(&signal) {
            self.end(128 + signal, ExitCause::Signalled { signal });
        }
    }

    pub(super) fn end(&mut self, code: i32, cause: ExitCause) {
        if self.exit.is_none() {
            let duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.exit = Some(Exit { code, cause, duration_ms, output_bytes: self.written });
            self.stdin_open = false;
        }
    }

    pub(super) fn let_time_pass(&mut self, now: Instant) {
        if self.limit.is_some_and(|limit| limit <= now) {
            self.end(128 + SIGKILL, ExitCause::TimedOut);
        }
        if self.ends.is_some_and(|ends| ends <= now) {
            self.end(0, ExitCause::Exited);
        }
    }

    /// The next time at which it may end.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ends.into_iter().chain(self.limit).min().filter(|_| self.exit.is_none())
    }

    /// The output from a position on.
    pub(super) fn output_from(&self, from: u64) -> Vec<(FrameKind, Vec<u8>)> {
        let mut position = 0;
        let mut rest = Vec::new();
        for (kind, bytes) in &self.output {
            let skip = usize::try_from(from.saturating_sub(position)).unwrap_or(usize::MAX);
            if let Some(part) = bytes.get(skip..).filter(|part| !part.is_empty()) {
                rest.push((*kind, part.to_vec()));
            }
            position += bytes.len() as u64;
        }
        rest
    }

    pub(super) fn started(&self, position: u64) -> Started {
        Started { process: ProcessId(self.id), pid: self.pid, position: position.min(self.written) }
    }

    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            process: ProcessId(self.id),
            pid: self.pid,
            argv: self.start.argv.clone(),
            tag: self.start.tag.clone(),
            terminal: self.start.terminal.is_some(),
            exit: self.exit,
            age_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            kept_from: 0,
            kept_to: self.written,
            cwd: self.start.cwd.clone().unwrap_or_else(|| ByteString::from("/root")),
            env: self.start.env.clone(),
        }
    }
}

impl State {
    pub(super) fn find(&mut self, selector: &ProcessSelector) -> Result<&mut Process, Failure> {
        let chosen = |process: &&mut Process| match selector {
            ProcessSelector::Id(id) => process.id == id.0,
            ProcessSelector::Pid(pid) => process.pid == *pid,
            ProcessSelector::Tag(tag) => process.start.tag.as_ref() == Some(tag),
        };
        self.processes
            .values_mut()
            .rev()
            .find(chosen)
            .ok_or_else(|| Failure::new(FailureCode::NotFound, format!("there is no process {selector:?}")))
    }

    pub(super) fn find_running(&mut self, selector: &ProcessSelector) -> Result<&mut Process, Failure> {
        let process = self.find(selector)?;
        if process.exit.is_none() {
            return Ok(process);
        }
        Err(Failure::new(FailureCode::Ended, format!("process {} has ended", process.id)))
    }
}
