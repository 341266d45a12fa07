use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use warren_wire::guest::{
    Attach, CHUNK, CallError, Control, Exit, Failure, FailureCode, FrameKind, ProcessId, ProcessSelector,
    Reader, Reply, Request, SignalCall, Started, TerminalSize, parse_reply,
};

use super::ProcessEvent;
use super::calls::about;
use crate::EngineError;
use crate::guest::{ANSWER, Call, Guest, Receiver, Sender};

/// Broken connections in a row, with nothing read in between, after which a follower gives up.
const ATTEMPTS: u32 = 4;

/// The rest before the second attempt; doubled before each one after.
const REST: Duration = Duration::from_millis(50);

/// A process that is being followed. Dropping it lets the process run on. A connection to the agent
/// that breaks while the sandbox lives is made anew, from the last byte that was seen.
#[derive(Debug)]
pub struct ProcessHandle {
    pub started: Started,
    /// The number of its start in the journal; absent for a process that was started before.
    pub entry: Option<u64>,
    pub reader: ProcessReader,
    pub writer: ProcessWriter,
}

/// The reading half of a [`ProcessHandle`].
#[derive(Debug)]
pub struct ProcessReader {
    guest: Guest,
    process: ProcessId,
    pace: Reader,
    part: Part,
    line: Line,
    /// Position of the next byte.
    cursor: u64,
    /// To be told before anything else is read.
    missed: Option<ProcessEvent>,
    /// The end, which is told once what the process wrote is safe.
    exit: Option<Exit>,
    ended: Arc<AtomicBool>,
}

/// The writing half of a [`ProcessHandle`]. Dropping it leaves the process's standard input open.
#[derive(Debug)]
pub struct ProcessWriter {
    guest: Guest,
    process: ProcessId,
    sender: Sender,
    channel: Channel,
    ended: Arc<AtomicBool>,
}

/// The part of a follower: only the one that started the process tells the sandbox's history of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Starter,
    Onlooker,
}

#[derive(Debug)]
enum Line {
    Open {
        receiver: Receiver,
        failures: u32,
    },
    Broken {
        failures: u32,
        retry_at: Instant,
    },
    /// Nothing more will come.
    Over,
}

/// The kind of call that a writer's connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// The one the process is followed on.
    Following,
    /// One for input alone, since the other broke.
    InputOnly,
}

impl ProcessHandle {
    pub(super) fn new(call: Call, started: Started, pace: Reader, part: Part) -> Self {
        let Call { guest, sender, receiver } = call;
        let ended = Arc::new(AtomicBool::new(false));
        let reader = ProcessReader {
            guest: guest.clone(),
            process: started.process,
            pace,
            part,
            line: Line::Open { receiver, failures: 0 },
            cursor: started.position,
            missed: None,
            exit: None,
            ended: Arc::clone(&ended),
        };
        let channel = Channel::Following;
        let writer = ProcessWriter { guest, process: started.process, sender, channel, ended };
        Self { started, entry: None, reader, writer }
    }

    /// See [`ProcessReader::next`].
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, EngineError> {
        self.reader.next().await
    }

    /// Two halves, for reading and writing at the same time.
    pub fn split(self) -> (ProcessReader, ProcessWriter) {
        (self.reader, self.writer)
    }
}

impl ProcessReader {
    /// The next event; `None` after [`ProcessEvent::Exited`] or an error. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, EngineError> {
        loop {
            if let Some(event) = self.missed.take() {
                return Ok(Some(event));
            }
            if let Some(exit) = self.exit {
                self.guest.observer.flush().await?;
                self.exit = None;
                return Ok(Some(ProcessEvent::Exited(exit)));
            }
            let outcome = match &mut self.line {
                Line::Over => return Ok(None),
                Line::Broken { .. } => self.attach_again().await,
                Line::Open { receiver, .. } => match receiver.next().await {
                    Ok(Some((kind, payload))) => self.understand(kind, payload).map(Some),
                    Ok(None) => self.note_break(CallError::Closed).await.map(|()| None),
                    Err(error) => self.note_break(error).await.map(|()| None),
                },
            };
            match outcome {
                Ok(Some(ProcessEvent::Exited(exit))) => self.exit = Some(exit),
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(error) => {
                    self.line = Line::Over;
                    return Err(error);
                }
            }
        }
    }

    /// The position to come back with.
    pub fn position(&self) -> u64 {
        self.cursor
    }

    /// The error of a stream that ended without the process's end.
    pub(super) fn cut_short(&self) -> EngineError {
        self.guest.failed(CallError::Closed)
    }

    fn understand(&mut self, kind: FrameKind, bytes: Bytes) -> Result<ProcessEvent, EngineError> {
        if let Line::Open { failures, .. } = &mut self.line {
            *failures = 0;
        }
        match kind {
            FrameKind::Stdout => {
                let position = self.pass(&bytes);
                Ok(ProcessEvent::Stdout { position, bytes })
            }
            FrameKind::Stderr => {
                let position = self.pass(&bytes);
                Ok(ProcessEvent::Stderr { position, bytes })
            }
            FrameKind::Message => self.hear(&bytes),
            FrameKind::Data | FrameKind::End => {
                Err(self.guest.unexpected("data where a process's output was due"))
            }
        }
    }

    fn hear(&mut self, payload: &[u8]) -> Result<ProcessEvent, EngineError> {
        match parse_reply(payload) {
            Ok(Reply::Missed { bytes, position }) => {
                self.cursor = position;
                Ok(ProcessEvent::Missed { bytes, position })
            }
            Ok(Reply::Exited(exit)) => {
                self.end(&exit);
                Ok(ProcessEvent::Exited(exit))
            }
            Ok(_) => Err(self.guest.unexpected("a message that does not belong to a process")),
            Err(CallError::Failed(failure)) => Err(EngineError::Refused(failure)),
            Err(error) => Err(self.guest.failed(error)),
        }
    }

    /// Moves the cursor behind these bytes, and answers where they stand.
    fn pass(&mut self, bytes: &Bytes) -> u64 {
        if self.part == Part::Starter {
            self.guest.observer.saw_output(bytes);
        }
        let position = self.cursor;
        self.cursor = position.saturating_add(bytes.len() as u64);
        position
    }

    fn end(&mut self, exit: &Exit) {
        self.line = Line::Over;
        self.ended.store(true, Ordering::Release);
        if self.part == Part::Starter {
            self.guest.observer.ended(self.process, exit);
        }
    }

    async fn note_break(&mut self, error: CallError) -> Result<(), EngineError> {
        let failures = match self.line {
            Line::Open { failures, .. } | Line::Broken { failures, .. } => failures + 1,
            Line::Over => return Ok(()),
        };
        // A stream of noise is not a connection that broke: the next one would be the same.
        if failures > ATTEMPTS || !matches!(error, CallError::Closed | CallError::Stream(_)) {
            return Err(self.guest.explain(error).await);
        }
        let rest = if failures == 1 { Duration::ZERO } else { REST * (1 << (failures - 2)) };
        self.line = Line::Broken { failures, retry_at: Instant::now() + rest };
        Ok(())
    }

    async fn attach_again(&mut self) -> Result<Option<ProcessEvent>, EngineError> {
        let Line::Broken { failures, retry_at } = self.line else { return Ok(None) };
        tokio::time::sleep_until(retry_at).await;
        let process = ProcessSelector::Id(self.process);
        match self.guest.attach(process, self.cursor, self.pace).await {
            Ok((started, call)) => {
                self.missed = gap(self.cursor, started.position);
                self.cursor = started.position;
                call.sender.forget();
                self.line = Line::Open { receiver: call.receiver, failures };
                Ok(None)
            }
            Err(EngineError::Agent { source, .. }) => self.note_break(source).await.map(|()| None),
            Err(error) => Err(error),
        }
    }
}

impl ProcessWriter {
    /// Writes to the process's standard input. Waits when the process does not read. Given up
    /// half-way, an unknown part of the bytes arrives.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), EngineError> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(CHUNK));
            if let Err(error) = self.sender.data(piece.clone()).await {
                self.dial_again(error).await?;
                let sent = self.sender.data(piece).await;
                sent.map_err(|error| self.guest.failed(error))?;
            }
        }
        Ok(())
    }

    /// Closes the process's standard input; a terminal is sent its end-of-file character.
    pub async fn close_stdin(&mut self) -> Result<(), EngineError> {
        if self.channel == Channel::Following && self.sender.end().await.is_ok() {
            return Ok(());
        }
        self.check_running()?;
        self.guest.input(ProcessSelector::Id(self.process), Bytes::new(), true).await
    }

    pub async fn resize(&mut self, size: TerminalSize) -> Result<(), EngineError> {
        if self.send_control(&Control::Resize(size)).await {
            return Ok(());
        }
        let process = ProcessSelector::Id(self.process);
        self.guest.tell(&Request::Resize { process, size }, ANSWER).await
    }

    /// Sends a signal to the process's group.
    pub async fn signal(&mut self, signal: i32) -> Result<(), EngineError> {
        if self.send_control(&Control::Signal { signal }).await {
            return Ok(());
        }
        let process = ProcessSelector::Id(self.process);
        self.guest.tell(&Request::Signal(SignalCall { process, signal, group: true }), ANSWER).await
    }

    async fn send_control(&mut self, control: &Control) -> bool {
        self.channel == Channel::Following && self.sender.message(control).await.is_ok()
    }

    async fn dial_again(&mut self, error: CallError) -> Result<(), EngineError> {
        self.check_running()?;
        if !matches!(error, CallError::Stream(_)) {
            return Err(self.guest.failed(error));
        }
        let process = ProcessSelector::Id(self.process);
        let call = self.guest.open(&Request::Input { process, keep_open: true }).await?;
        self.sender = call.sender;
        self.channel = Channel::InputOnly;
        Ok(())
    }

    fn check_running(&self) -> Result<(), EngineError> {
        if !self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        let message = format!("process {} has ended", self.process.0);
        Err(EngineError::Refused(Failure::new(FailureCode::Ended, message)))
    }
}

impl Guest {
    pub(super) async fn follow(
        &self,
        process: ProcessSelector,
        from: u64,
        pace: Reader,
    ) -> Result<ProcessHandle, EngineError> {
        let (started, call) = self.attach(process, from, pace).await?;
        let mut handle = ProcessHandle::new(call, started, pace, Part::Onlooker);
        handle.reader.missed = gap(from, started.position);
        Ok(handle)
    }

    async fn attach(
        &self,
        process: ProcessSelector,
        from: u64,
        reader: Reader,
    ) -> Result<(Started, Call), EngineError> {
        let request = Request::Attach(Attach { process: process.clone(), from, reader });
        match self.begin(&request, ANSWER).await.map_err(|error| about(&process, error))? {
            (Reply::Started(started), call) => Ok((started, call)),
            _ => Err(self.unexpected("no word of the process to follow")),
        }
    }
}

/// The output that a follower lost because it wanted to begin earlier than it could.
fn gap(wanted: u64, position: u64) -> Option<ProcessEvent> {
    (position > wanted).then(|| ProcessEvent::Missed { bytes: position - wanted, position })
}
