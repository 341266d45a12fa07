use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio_util::task::AbortOnDropHandle;
use warren_core::SandboxId;
use warren_engine::Visit;

use super::{CodeError, Event};

/// How long one line may be. Pictures are in them.
const MOST_LINE: usize = 32 << 20;

/// How long a service may say nothing. It says every few seconds that it is there.
const PATIENCE: Duration = Duration::from_secs(60);

/// The messages of the service about one execution. Dropping it hangs up, which interrupts the
/// execution.
#[derive(Debug)]
pub struct Lines {
    pub(super) sandbox: SandboxId,
    pub(super) body: Incoming,
    /// Read and not told yet.
    buffer: BytesMut,
    /// How far there is no end of a line in it.
    searched: usize,
    pub(super) _connection: AbortOnDropHandle<()>,
    /// The sandbox counts as used meanwhile.
    visit: Visit,
    ended: bool,
    /// The error that the code ended with.
    failure: Option<String>,
}

impl Lines {
    pub(super) fn new(
        sandbox: SandboxId,
        body: Incoming,
        connection: AbortOnDropHandle<()>,
        visit: Visit,
    ) -> Self {
        let (buffer, searched) = (BytesMut::new(), 0);
        let (_connection, ended, failure) = (connection, false, None);
        Self { sandbox, body, buffer, searched, _connection, visit, ended, failure }
    }

    /// The next event. After the end of the execution there is none.
    pub async fn next(&mut self) -> Result<Event, CodeError> {
        loop {
            while let Some(line) = self.line() {
                match serde_json::from_slice(&line) {
                    Ok(Event::Unknown) => {}
                    Ok(event) => {
                        self.note(&event);
                        return Ok(event);
                    }
                    Err(error) => return Err(self.garbled(Some(error.into()))),
                }
            }
            if self.buffer.len() > MOST_LINE {
                return Err(self.garbled(Some("a line is too long".into())));
            }
            self.read().await?;
        }
    }

    /// The journal is told how it ended.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Error(error) => self.failure = Some(format!("{}: {}", error.name, error.value)),
            Event::EndOfExecution { timed_out } => {
                self.ended = true;
                let failure = if *timed_out {
                    Some("it took longer than it was given")
                } else {
                    self.failure.as_deref()
                };
                self.visit.done(failure);
            }
            _ => {}
        }
    }

    fn line(&mut self) -> Option<BytesMut> {
        let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + at);
        self.buffer.advance(1);
        self.searched = 0;
        Some(line)
    }

    async fn read(&mut self) -> Result<(), CodeError> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await;
        let frame = frame.map_err(|_| CodeError::Silent { sandbox: self.sandbox.clone() })?;
        match frame {
            None => Err(self.garbled(Some("it ended in the middle".into()))),
            Some(Err(error)) => Err(self.garbled(Some(error.into()))),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
                Ok(())
            }
        }
    }

    fn garbled(&self, source: Option<Box<dyn std::error::Error + Send + Sync>>) -> CodeError {
        CodeError::Garbled { sandbox: self.sandbox.clone(), source }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.ended {
            self.visit.done(Some("it was broken off before its end"));
        }
    }
}
