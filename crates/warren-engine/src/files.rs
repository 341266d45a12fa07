//! Files inside sandboxes. Everything streams: no file, listing or upload is ever held as a whole.

mod change;
mod listing;
mod transfer;

use std::sync::Arc;

use warren_core::{Owner, Request, SandboxId};
use warren_wire::guest::{FileCall, FileEntry, FileOperation, GrepMatch};

use crate::guest::Guest;
use crate::{Engine, EngineError};

pub use listing::{Listing, Watch};
pub use transfer::{FileReader, FileWriter};

impl Engine {
    /// A call without a result of its own: make, move, remove, change rights.
    pub async fn file_call(&self, owner: &Owner, id: &SandboxId, call: FileCall) -> Result<(), EngineError> {
        self.files(owner, id, &call).await?.change(call).await
    }

    pub async fn stat(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileEntry, EngineError> {
        self.files(owner, id, &call).await?.stat(call).await
    }

    pub async fn read_file(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileReader, EngineError> {
        self.files(owner, id, &call).await?.read(call).await
    }

    pub async fn write_file(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileWriter, EngineError> {
        self.files(owner, id, &call).await?.write(call).await
    }

    /// For `List` and `Glob`.
    pub async fn entries(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<Listing, EngineError> {
        self.files(owner, id, &call).await?.entries(call).await
    }

    /// All matches; the query bounds their number.
    pub async fn grep(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<Vec<GrepMatch>, EngineError> {
        self.files(owner, id, &call).await?.grep(call).await
    }

    pub async fn watch(&self, owner: &Owner, id: &SandboxId, call: FileCall) -> Result<Watch, EngineError> {
        self.onlooker(owner, id, Request::ReadFiles).await?.watch(call).await
    }

    async fn files(&self, owner: &Owner, id: &SandboxId, call: &FileCall) -> Result<Guest, EngineError> {
        let request = leave_for(&call.operation);
        let entry = self.enter(owner, id, request).await?;
        if request == Request::WriteFiles {
            self.set_apart(entry.door()).await;
            entry.mark_changed();
        }
        Ok(Guest::new(Arc::new(entry)))
    }
}

fn leave_for(operation: &FileOperation) -> Request {
    match operation {
        FileOperation::Stat { .. }
        | FileOperation::Read { .. }
        | FileOperation::List { .. }
        | FileOperation::Glob { .. }
        | FileOperation::Grep(_)
        | FileOperation::Watch { .. } => Request::ReadFiles,
        FileOperation::Write { .. }
        | FileOperation::MakeDirectory { .. }
        | FileOperation::Rename { .. }
        | FileOperation::Remove { .. }
        | FileOperation::SetPermissions { .. }
        | FileOperation::SetOwner { .. }
        | FileOperation::MakeSymlink { .. }
        | FileOperation::SetAttributes { .. } => Request::WriteFiles,
    }
}

#[cfg(test)]
mod tests;
