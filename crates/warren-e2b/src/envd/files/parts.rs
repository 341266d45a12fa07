use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use multer::{Field, Multipart};
use warren_core::FileDeed;
use warren_wire::guest::ByteString;

use super::incoming::{BodyError, Pieces};
use super::metadata::Metadata;
use super::store::{self, Stored};
use crate::envd::Visitor;
use crate::envd::path::Named;
use crate::envd::refusal::Refusal;

/// Files of one request.
const MOST_FILES: usize = 10_000;

/// Bytes that may be read before the next part, or the next bytes of one, come out of them.
const MOST_UNSEEN: usize = 8 << 20;

/// The only parts that are files.
const FILE: &str = "file";

/// A body with several parts.
pub(super) struct Form {
    pub(super) pieces: Pieces,
    pub(super) boundary: String,
}

/// Counts what was read and has not come out again, so that nobody makes the reader keep a head
/// that does not end.
#[derive(Debug, Clone, Default)]
struct Unseen(Arc<AtomicUsize>);

impl Unseen {
    fn read(&self, piece: &Bytes) -> Result<(), BodyError> {
        let before = self.0.fetch_add(piece.len(), Ordering::Relaxed);
        if before > MOST_UNSEEN { Err(BodyError::LongHead(MOST_UNSEEN)) } else { Ok(()) }
    }

    fn seen(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Stores every file of a form: at `given` if the request named a path, else where each says for
/// itself.
pub(super) async fn store(
    visitor: &Visitor,
    given: Option<ByteString>,
    noted: &Metadata,
    form: Form,
) -> Result<Vec<Stored>, Refusal> {
    let unseen = Unseen::default();
    let counted = unseen.clone();
    let pieces = form.pieces.map(move |piece| piece.and_then(|piece| counted.read(&piece).map(|()| piece)));
    let mut parts = Multipart::new(pieces, form.boundary);
    let (mut stored, mut paths) = (Vec::new(), BTreeSet::new());
    let mut work = None;
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        unseen.seen();
        if part.name() != Some(FILE) {
            pass_over(part, &unseen).await?;
            continue;
        }
        let path = target(visitor, given.as_ref(), part.file_name())?;
        if stored.len() == MOST_FILES {
            return Err(Refusal::bad_request(format!("one request brings up to {MOST_FILES} files")));
        }
        if !paths.insert(path.clone()) {
            return Err(twice(&path.to_text()));
        }
        let work = match &mut work {
            Some(work) => work,
            None => work.insert(visitor.begin(FileDeed::Write, &path, None).await?),
        };
        let one = store::store(visitor, work, path, noted, &mut contents(part, unseen.clone())).await?;
        if stored.iter().any(|other: &Stored| other.path == one.path) {
            return Err(twice(&one.path));
        }
        stored.push(one);
    }
    if let Some(work) = work {
        work.done();
    }
    Ok(stored)
}

fn target(visitor: &Visitor, given: Option<&ByteString>, name: Option<&str>) -> Result<ByteString, Refusal> {
    match (given, name.filter(|name| !name.is_empty())) {
        (Some(given), _) => Ok(given.clone()),
        (None, Some(name)) => Ok(visitor.place(Named::read(name)?)),
        (None, None) => {
            Err(Refusal::bad_request("a file has no name: name it in its part, or by `path` in the query"))
        }
    }
}

fn twice(path: &str) -> Refusal {
    Refusal::bad_request(format!("the request brings {path} twice"))
}

fn contents(part: Field<'_>, unseen: Unseen) -> impl Stream<Item = Result<Bytes, BodyError>> + Unpin {
    part.map(move |piece| {
        unseen.seen();
        piece.map_err(cause)
    })
}

async fn pass_over(mut part: Field<'_>, unseen: &Unseen) -> Result<(), Refusal> {
    while part.chunk().await.map_err(broken)?.is_some() {
        unseen.seen();
    }
    Ok(())
}

fn broken(error: multer::Error) -> Refusal {
    cause(error).into()
}

/// The body's own failure, if the reader of parts only passes it on.
fn cause(error: multer::Error) -> BodyError {
    match error {
        multer::Error::StreamReadFailed(cause) => match cause.downcast::<BodyError>() {
            Ok(cause) => *cause,
            Err(cause) => BodyError::Broken(axum::Error::new(cause)),
        },
        error => BodyError::Form(error),
    }
}
