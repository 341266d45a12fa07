use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use serde::Serialize;
use warren_engine::{EngineError, FileWork, FileWriter};
use warren_wire::guest::{ByteString, FailureCode, FileOperation, WriteMode};

use super::incoming::BodyError;
use super::metadata::{self, Metadata};
use crate::envd::Visitor;
use crate::envd::path::{clean, name_of};
use crate::envd::refusal::Refusal;
use crate::envd::visitor::METADATA_PREFIX;

/// Permission bits of a new file.
const PERMISSIONS: u32 = 0o644;

/// Smaller pieces are gathered, so that a watcher sees a small file written at once.
const GATHERED: usize = 64 << 10;

/// A file that was stored, as clients are told.
#[derive(Debug, Serialize)]
pub(super) struct Stored {
    pub(super) path: String,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
}

/// Opens a file for its new content. What was in it is gone from then on.
pub(super) async fn open(
    visitor: &Visitor,
    work: &FileWork,
    path: ByteString,
) -> Result<FileWriter, EngineError> {
    let (mode, permissions) = (WriteMode::Truncate, Some(PERMISSIONS));
    let call = visitor.call(FileOperation::Write { path, mode, permissions, parents: true });
    work.write(call).await
}

/// Writes a file as it arrives, and notes with it what is to be noted.
pub(super) async fn store(
    visitor: &Visitor,
    work: &FileWork,
    path: ByteString,
    noted: &Metadata,
    pieces: &mut (impl Stream<Item = Result<Bytes, BodyError>> + Unpin),
) -> Result<Stored, Refusal> {
    let file = open(visitor, work, path.clone()).await.map_err(|error| visitor.refusal(error))?;
    let mut file = Gathering { file, gathered: BytesMut::new() };
    while let Some(piece) = pieces.next().await {
        file.write(piece?).await?;
    }
    file.finish().await?;
    describe(visitor, work, path, noted).await
}

/// Says what was stored, once it has exactly these notes.
pub(super) async fn describe(
    visitor: &Visitor,
    work: &FileWork,
    path: ByteString,
    noted: &Metadata,
) -> Result<Stored, Refusal> {
    let entry = visitor.stat(path.clone(), true).await?;
    let mut metadata = metadata::of(&entry);
    if metadata != *noted {
        let (prefix, attributes) = (METADATA_PREFIX.into(), metadata::attributes(noted));
        match visitor.change(work, FileOperation::SetAttributes { path, prefix, attributes }).await {
            Ok(()) => metadata = noted.clone(),
            // There is nowhere to note it.
            Err(EngineError::Refused(failure)) if failure.code == FailureCode::Unsupported => {}
            Err(error) => return Err(error.into()),
        }
    }
    let path = clean(&entry.path.to_text());
    Ok(Stored { name: name_of(&path).to_owned(), path, kind: "file", metadata })
}

/// A file whose small pieces are written together.
struct Gathering {
    file: FileWriter,
    gathered: BytesMut,
}

impl Gathering {
    async fn write(&mut self, piece: Bytes) -> Result<(), EngineError> {
        if self.gathered.is_empty() && piece.len() >= GATHERED {
            return self.file.write(piece).await;
        }
        self.gathered.extend_from_slice(&piece);
        if self.gathered.len() < GATHERED {
            return Ok(());
        }
        self.file.write(self.gathered.split().freeze()).await
    }

    async fn finish(mut self) -> Result<u64, EngineError> {
        self.file.write(self.gathered.freeze()).await?;
        self.file.finish().await
    }
}
