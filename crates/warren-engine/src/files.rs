//! Files inside sandboxes. Everything streams: no file, listing or upload is ever held as a whole.

mod change;
mod listing;
mod transfer;
mod work;

use warren_core::{Owner, Request, SandboxId};
use warren_wire::guest::{FileCall, FileEntry};

use crate::blocking::finished;
use crate::guest::Guest;
use crate::labour::Trade;
use crate::{Engine, EngineError};

pub use listing::{Listing, Matches, Watch};
pub use transfer::{FileReader, FileWriter};
pub use work::FileWork;

impl Engine {
    /// A call without a result of its own: make, move, remove, change rights. It goes on to its end if the caller does not wait
    /// for it.
    pub async fn file_call(&self, owner: &Owner, id: &SandboxId, call: FileCall) -> Result<(), EngineError> {
        let work = self.begin_change(owner, id, &call).await?;
        finished(async move {
            work.change(call).await?;
            work.done();
            Ok(())
        })
        .await
    }

    pub async fn stat(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileEntry, EngineError> {
        self.files(owner, id).await?.stat(call).await
    }

    pub async fn read_file(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileReader, EngineError> {
        self.files(owner, id).await?.read(call).await
    }

    pub async fn write_file(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileWriter, EngineError> {
        let work = self.begin_change(owner, id, &call).await?;
        Ok(work.write(call).await?.alone(work))
    }

    /// For `List` and `Glob`.
    pub async fn entries(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<Listing, EngineError> {
        let place = self.place_for(owner, Trade::Telling).await?;
        Ok(self.files(owner, id).await?.entries(call).await?.at(place))
    }

    /// All matches, as far as the query and the size of an answer allow.
    pub async fn grep(&self, owner: &Owner, id: &SandboxId, call: FileCall) -> Result<Matches, EngineError> {
        let place = self.place_for(owner, Trade::Telling).await?;
        let found = self.files(owner, id).await?.grep(call).await?;
        Ok(Matches { place: Some(place), ..found })
    }

    pub async fn watch(&self, owner: &Owner, id: &SandboxId, call: FileCall) -> Result<Watch, EngineError> {
        self.onlooker(owner, id, Request::ReadFiles).await?.watch(call).await
    }

    async fn files(&self, owner: &Owner, id: &SandboxId) -> Result<Guest, EngineError> {
        self.guest(owner, id, Request::ReadFiles).await
    }
}

#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod tests;
