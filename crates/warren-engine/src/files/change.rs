use warren_wire::guest::{FileCall, FileEntry, FileOperation, Reply, Request};

use crate::EngineError;
use crate::guest::{ANSWER, Guest, WORK};

impl Guest {
    pub(crate) async fn change(&self, call: FileCall) -> Result<(), EngineError> {
        let patience = match call.operation {
            FileOperation::Remove { recursive: true, .. } => WORK,
            _ => ANSWER,
        };
        self.tell(&Request::File(call), patience).await
    }

    pub(crate) async fn stat(&self, call: FileCall) -> Result<FileEntry, EngineError> {
        match self.ask(&Request::File(call), ANSWER).await? {
            Reply::Entry(entry) => Ok(entry),
            _ => Err(self.unexpected("something other than a file's description")),
        }
    }
}
