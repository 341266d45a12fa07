use bytes::Bytes;
use warren_core::{Owner, SandboxId};
use warren_wire::guest::{FileCall, FileEntry, GrepMatch, WatchEvent};

use crate::{Engine, EngineError};

/// A file that is being read.
#[derive(Debug)]
pub struct FileReader {
    pub entry: FileEntry,
}

/// A file that is being written. Dropped before [`FileWriter::finish`], a replaced file keeps its previous content.
#[derive(Debug)]
pub struct FileWriter {}

/// Entries that arrive in parts, however many there are.
#[derive(Debug)]
pub struct Listing {}

/// Changes below a directory, as they happen. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {}

impl FileReader {
    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        unimplemented!()
    }
}

impl FileWriter {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Says that all is written, and waits until it is. Answers the number of bytes.
    pub async fn finish(self) -> Result<u64, EngineError> {
        unimplemented!()
    }
}

impl Listing {
    pub async fn next(&mut self) -> Result<Option<Vec<FileEntry>>, EngineError> {
        unimplemented!()
    }
}

impl Watch {
    pub async fn next(&mut self) -> Result<Option<Vec<WatchEvent>>, EngineError> {
        unimplemented!()
    }
}

impl Engine {
    /// A call without a result of its own: make, move, remove, change rights.
    pub async fn file_call(&self, owner: &Owner, id: &SandboxId, call: FileCall) -> Result<(), EngineError> {
        unimplemented!()
    }

    pub async fn stat(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileEntry, EngineError> {
        unimplemented!()
    }

    pub async fn read_file(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileReader, EngineError> {
        unimplemented!()
    }

    pub async fn write_file(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<FileWriter, EngineError> {
        unimplemented!()
    }

    /// For `List` and `Glob`.
    pub async fn entries(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<Listing, EngineError> {
        unimplemented!()
    }

    /// All matches; the query bounds their number.
    pub async fn grep(
        &self,
        owner: &Owner,
        id: &SandboxId,
        call: FileCall,
    ) -> Result<Vec<GrepMatch>, EngineError> {
        unimplemented!()
    }

    pub async fn watch(&self, owner: &Owner, id: &SandboxId, call: FileCall) -> Result<Watch, EngineError> {
        unimplemented!()
    }
}
