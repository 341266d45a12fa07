use std::collections::BTreeSet;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use warren_core::FileDeed;
use warren_engine::FileWork;
use warren_face::body::{flowing, read_body};
use warren_wire::guest::{ByteString, EntryKind, FileEntry, FileOperation};

use super::metadata::Metadata;
use super::store::{describe, open};
use crate::envd::Visitor;
use crate::envd::door::user_of;
use crate::envd::path::Named;
use crate::envd::refusal::Refusal;

/// Files that are put together at once.
const MOST_SOURCES: usize = 10_000;

const MOST_BODY: usize = 4 << 20;

/// Which files become one.
#[derive(Debug, Deserialize)]
struct Compose {
    source_paths: Vec<String>,
    destination: String,
    #[serde(default)]
    username: Option<String>,
}

/// Puts files together, one after the other, and takes them away.
pub(in crate::envd) async fn compose(mut visitor: Visitor, request: Request) -> Result<Response, Refusal> {
    let timeout = visitor.state.config.http.read_timeout;
    let body = read_body(flowing(request.into_body(), timeout), MOST_BODY).await?;
    let order: Compose = serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad_request(format!("the body cannot be used: {error}")))?;
    if let Some(user) = user_of(order.username.as_deref().unwrap_or_default())? {
        visitor.user = Some(user);
    }
    let target = named(&visitor, "destination", &order.destination)?;
    let sources = order.source_paths.iter().map(|path| named(&visitor, "source_paths", path));
    let sources: Vec<ByteString> = sources.collect::<Result<_, _>>()?;
    check(&visitor, &sources, &target).await?;
    let work = visitor.begin(FileDeed::Write, &target, None).await?;
    put_together(&visitor, &work, &sources, target.clone()).await?;
    for path in BTreeSet::from_iter(sources) {
        visitor.change(&work, FileOperation::Remove { path, recursive: false }).await?;
    }
    let described = describe(&visitor, &work, target, &Metadata::new()).await?;
    work.done();
    Ok(Json(described).into_response())
}

fn named(visitor: &Visitor, field: &str, path: &str) -> Result<ByteString, Refusal> {
    match Named::read(path)? {
        Named::Nowhere => Err(Refusal::bad_request(format!("`{field}` has an empty path"))),
        named => Ok(visitor.place(named)),
    }
}

/// Nothing is begun that is known not to end well: every source is a file, and none of them is what
/// they become.
async fn check(visitor: &Visitor, sources: &[ByteString], target: &ByteString) -> Result<(), Refusal> {
    if sources.is_empty() || sources.len() > MOST_SOURCES {
        return Err(Refusal::bad_request(format!("`source_paths` has 1 to {MOST_SOURCES} paths")));
    }
    let refused = |error| visitor.refusal(error);
    let existing = match visitor.stat(target.clone(), true).await {
        Ok(entry) => Some(mark(&entry)),
        Err(error) => match Refusal::from(error) {
            Refusal::Told { status: http::StatusCode::NOT_FOUND, .. } => None,
            refusal => return Err(refusal),
        },
    };
    for source in sources {
        let entry = visitor.stat(source.clone(), true).await.map_err(refused)?;
        if entry.kind != EntryKind::File {
            return Err(Refusal::bad_request(format!("{} is not a file", source.to_text())));
        }
        if source == target || existing == Some(mark(&entry)) {
            let path = source.to_text();
            return Err(Refusal::bad_request(format!("{path} is the destination and a source")));
        }
    }
    Ok(())
}

/// The identity of a file, the same under all its names. Inode numbers alone repeat on different
/// file systems.
fn mark(entry: &FileEntry) -> (u64, u64, i64) {
    (entry.inode, entry.size, entry.modified_ns)
}

async fn put_together(
    visitor: &Visitor,
    work: &FileWork,
    sources: &[ByteString],
    target: ByteString,
) -> Result<(), Refusal> {
    let mut file = open(visitor, work, target).await.map_err(|error| visitor.refusal(error))?;
    for path in sources {
        let call = visitor.call(FileOperation::Read { path: path.clone(), offset: 0, length: None });
        let mut source = visitor.sandbox.files().read(call).await?;
        while let Some(bytes) = source.next().await? {
            file.write(bytes).await?;
        }
    }
    file.finish().await?;
    Ok(())
}
