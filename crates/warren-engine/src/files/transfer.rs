use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use warren_wire::guest::{CallError, FileCall, FileEntry, Reply, Request};

use super::work::{FileWork, Tally};
use crate::EngineError;
use crate::guest::{ANSWER, Call, Guest, Piece, WORK, within};

/// A file that is being read.
#[derive(Debug)]
pub struct FileReader {
    /// As it was when it was opened: it may have grown or shrunk since.
    pub entry: FileEntry,
    call: Call,
    over: bool,
}

/// A file that is being written. Dropped before [`FileWriter::finish`], a replaced file keeps its
/// previous content.
#[derive(Debug)]
pub struct FileWriter {
    call: Call,
    /// The count that it belongs to, if it is part of a larger change.
    pub(super) tally: Option<Arc<Tally>>,
    /// The change that it is, if it is not part of a larger one.
    pub(super) whole: Option<FileWork>,
}

impl FileReader {
    /// The next bytes; `None` at the end, and from then on. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        if self.over {
            return Ok(None);
        }
        match self.call.next(ANSWER).await? {
            Piece::Data(bytes) => Ok(Some(bytes)),
            Piece::End => {
                self.over = true;
                Ok(None)
            }
            Piece::Reply(_) => Err(self.call.guest.unexpected("a message where a file's bytes were due")),
        }
    }
}

impl FileWriter {
    /// Sends bytes of the file. Waits when the sandbox's disk is slower.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), EngineError> {
        let sent = self.send(bytes).await;
        self.noting(sent)
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), EngineError> {
        // The agent speaks before the end only to refuse: the disk is full.
        if let Some(outcome) = self.call.next_at_leisure().now_or_never() {
            return Err(self.refusal(outcome));
        }
        let sent = within(ANSWER, async { Ok(self.call.sender.data(bytes).await) }).await?;
        match sent {
            Ok(()) => Ok(()),
            Err(error) => Err(self.broken(error).await),
        }
    }

    /// Says that all is written, and waits until it is. Answers the number of bytes.
    pub async fn finish(mut self) -> Result<u64, EngineError> {
        let ended = self.end().await;
        let bytes = self.noting(ended)?;
        if let Some(tally) = &self.tally {
            tally.wrote(bytes);
        }
        if let Some(whole) = self.whole.take() {
            whole.done();
        }
        Ok(bytes)
    }

    fn noting<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        match &self.tally {
            Some(tally) => tally.noting(outcome),
            None => outcome,
        }
    }

    async fn end(&mut self) -> Result<u64, EngineError> {
        let ended = within(ANSWER, async { Ok(self.call.sender.end().await) }).await?;
        if let Err(error) = ended {
            return Err(self.broken(error).await);
        }
        match self.call.reply(WORK).await? {
            Reply::Written { bytes } => Ok(bytes),
            _ => Err(self.call.guest.unexpected("no word of what was written")),
        }
    }

    /// Why the agent takes no more: what it said last, or else that the connection broke.
    async fn broken(&mut self, error: CallError) -> EngineError {
        match self.call.next(ANSWER).await {
            Err(refused @ EngineError::Refused(_)) => refused,
            _ => self.call.guest.explain(error).await,
        }
    }

    fn refusal(&self, outcome: Result<Piece, EngineError>) -> EngineError {
        match outcome {
            Err(error) => error,
            Ok(_) => self.call.guest.unexpected("an answer before the file's end"),
        }
    }
}

impl Guest {
    pub(crate) async fn read(&self, call: FileCall) -> Result<FileReader, EngineError> {
        match self.begin(&Request::File(call), ANSWER).await? {
            (Reply::Entry(entry), call) => Ok(FileReader { entry, call, over: false }),
            _ => Err(self.unexpected("something other than a file's description")),
        }
    }

    pub(crate) async fn write(&self, call: FileCall) -> Result<FileWriter, EngineError> {
        match self.begin(&Request::File(call), ANSWER).await? {
            (Reply::Done, call) => Ok(FileWriter { call, tally: None, whole: None }),
            _ => Err(self.unexpected("something other than that the file is open")),
        }
    }
}
