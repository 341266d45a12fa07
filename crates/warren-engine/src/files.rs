//! Files inside sandboxes. Everything streams: no file, listing or upload is ever held as a whole.

mod listing;
mod transfer;
mod work;

use warren_core::Request;
use warren_wire::guest::{FileCall, FileEntry, FileOperation, Reply, Request as Call};

use crate::guest::{ANSWER, Guest, WORK};
use crate::ports::finished;
use crate::work_kind::WorkKind;
use crate::{EngineError, Sandbox};

pub use listing::{Listing, Matches, Watch};
pub use transfer::{FileReader, FileWriter};
pub use work::FileWork;

/// The files of a sandbox.
#[derive(Debug, Clone)]
pub struct Files {
    pub(crate) sandbox: Sandbox,
}

impl Sandbox {
    pub fn files(&self) -> Files {
        Files { sandbox: self.clone() }
    }
}

impl Files {
    /// A call without a result of its own: make, move, remove, change rights. It goes on to its end
    /// if the caller does not wait for it.
    pub async fn call(&self, call: FileCall) -> Result<(), EngineError> {
        let work = self.begin_change(&call).await?;
        finished(async move {
            work.change(call).await?;
            work.done();
            Ok(())
        })
        .await
    }

    pub async fn stat(&self, call: FileCall) -> Result<FileEntry, EngineError> {
        self.guest().await?.stat(call).await
    }

    pub async fn read(&self, call: FileCall) -> Result<FileReader, EngineError> {
        self.guest().await?.read(call).await
    }

    pub async fn write(&self, call: FileCall) -> Result<FileWriter, EngineError> {
        let work = self.begin_change(&call).await?;
        let mut writer = work.write(call).await?;
        writer.whole = Some(work);
        Ok(writer)
    }

    /// For `List` and `Glob`.
    pub async fn entries(&self, call: FileCall) -> Result<Listing, EngineError> {
        let place = self.sandbox.engine.place_for(self.sandbox.owner(), WorkKind::Listing).await?;
        let mut listing = self.guest().await?.entries(call).await?;
        listing.place = Some(place);
        Ok(listing)
    }

    /// All matches, as far as the query and the size of an answer allow.
    pub async fn grep(&self, call: FileCall) -> Result<Matches, EngineError> {
        let place = self.sandbox.engine.place_for(self.sandbox.owner(), WorkKind::Listing).await?;
        let found = self.guest().await?.grep(call).await?;
        Ok(Matches { place: Some(place), ..found })
    }

    pub async fn watch(&self, call: FileCall) -> Result<Watch, EngineError> {
        self.sandbox.onlooker(Request::ReadFiles).await?.watch(call).await
    }

    async fn guest(&self) -> Result<Guest, EngineError> {
        self.sandbox.guest(Request::ReadFiles).await
    }
}

impl Guest {
    pub(crate) async fn change(&self, call: FileCall) -> Result<(), EngineError> {
        let patience = match call.operation {
            FileOperation::Remove { recursive: true, .. } => WORK,
            _ => ANSWER,
        };
        self.tell(&Call::File(call), patience).await
    }

    pub(crate) async fn stat(&self, call: FileCall) -> Result<FileEntry, EngineError> {
        match self.ask(&Call::File(call), ANSWER).await? {
            Reply::Entry(entry) => Ok(entry),
            _ => Err(self.unexpected("something other than a file's description")),
        }
    }
}

#[cfg(test)]
mod journal_tests;
#[cfg(test)]
mod tests;
