use bytes::Bytes;
use warren_wire::guest::{CallError, ProcessSelector, Reply, Request};

use super::calls::about;
use crate::EngineError;
use crate::guest::{Call, Guest};

/// A write to a process's standard input. Other writers have their turn before or after, never in
/// between.
#[derive(Debug)]
pub struct ProcessInput {
    call: Call,
    process: ProcessSelector,
}

impl ProcessInput {
    /// Sends bytes. Waits when the process does not read.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), EngineError> {
        // The agent speaks before the end only to refuse. What it says explains more than the write
        // that fails for it.
        let answer = tokio::select! {
            biased;
            answer = self.call.receiver.reply() => answer,
            sent = self.call.sender.data(bytes) => match sent {
                Ok(()) => return Ok(()),
                Err(_) => self.call.receiver.reply().await,
            },
        };
        let odd = CallError::Unexpected("an answer before the end of the input");
        Err(self.explain(answer.err().unwrap_or(odd)).await)
    }

    /// Waits until the process has been given everything.
    pub async fn finish(mut self) -> Result<(), EngineError> {
        // As above: an end that cannot be sent was answered before.
        self.call.sender.end().await.ok();
        match self.call.receiver.reply().await {
            Ok(Reply::Done) => Ok(()),
            Ok(_) => Err(self.call.guest.unexpected("something other than that it is done")),
            Err(error) => Err(self.explain(error).await),
        }
    }

    async fn explain(&self, error: CallError) -> EngineError {
        about(&self.process, self.call.guest.explain(error).await)
    }
}

impl Guest {
    pub(super) async fn open_input(
        &self,
        process: ProcessSelector,
        close: bool,
    ) -> Result<ProcessInput, EngineError> {
        let request = Request::Input { process: process.clone(), keep_open: !close };
        Ok(ProcessInput { call: self.open(&request).await?, process })
    }

    pub(super) async fn input(
        &self,
        process: ProcessSelector,
        bytes: Bytes,
        close: bool,
    ) -> Result<(), EngineError> {
        let mut input = self.open_input(process, close).await?;
        input.write(bytes).await?;
        input.finish().await
    }
}
