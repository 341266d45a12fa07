use warren_core::FileDeed;
use warren_engine::{EngineError, FileWork};
use warren_wire::guest::{ByteString, EntryKind, FailureCode, FileOperation};

use super::entry::{info, leads_nowhere};
use super::{fault, place};
use crate::envd::Visitor;
use crate::envd::path::parent_of;
use crate::envd::rpc::RpcError;
use crate::envd::visitor::detail;
use crate::filesystem::{
    EntryInfo, ListDirRequest, ListDirResponse, MakeDirRequest, MakeDirResponse, MoveRequest, MoveResponse,
    RemoveRequest, RemoveResponse, StatRequest, StatResponse,
};
use crate::rpc::Code;

/// Permission bits of a new directory.
const PERMISSIONS: u32 = 0o755;

/// Entries of one answer.
const MOST_ENTRIES: usize = 100_000;
/// Bytes of their paths.
const MOST_BYTES: usize = 8 << 20;

pub(super) async fn stat(visitor: &Visitor, request: StatRequest) -> Result<StatResponse, RpcError> {
    let path = place(visitor, &request.path)?;
    Ok(StatResponse { entry: Some(found(visitor, path).await?) })
}

/// Makes a directory and what it lies in. One that is there already is told from one that was made,
/// whoever else makes it.
pub(super) async fn make_dir(
    visitor: &Visitor,
    request: MakeDirRequest,
) -> Result<MakeDirResponse, RpcError> {
    let path = place(visitor, &request.path)?;
    let work = visitor.begin(FileDeed::MakeDirectory, &path, None).await;
    let work = work.map_err(|error| fault(visitor, error))?;
    let mut made = make(visitor, &work, &path, false).await;
    if made.as_ref().is_err_and(|error| is(error, FailureCode::NotFound)) {
        make(visitor, &work, &parent_of(&path.to_text()).into(), true)
            .await
            .map_err(|error| fault(visitor, error))?;
        made = make(visitor, &work, &path, false).await;
    }
    if made.is_ok() {
        work.done();
    } else {
        drop(work);
    }
    match made {
        Ok(()) => Ok(MakeDirResponse { entry: Some(found(visitor, path).await?) }),
        Err(error) if is(&error, FailureCode::AlreadyExists) => Err(taken(visitor, path).await),
        Err(error) => Err(fault(visitor, error)),
    }
}

/// Moves what is there, and makes the directories that it moves to.
pub(super) async fn rename(visitor: &Visitor, request: MoveRequest) -> Result<MoveResponse, RpcError> {
    let (from, to) = (place(visitor, &request.source)?, place(visitor, &request.destination)?);
    found(visitor, from.clone()).await?;
    let moved = async {
        let work = visitor.begin(FileDeed::Rename, &from, Some(&to)).await?;
        make(visitor, &work, &parent_of(&to.to_text()).into(), true).await?;
        visitor.change(&work, FileOperation::Rename { from, to: to.clone() }).await?;
        work.done();
        Ok(())
    };
    moved.await.map_err(|error| fault(visitor, error))?;
    Ok(MoveResponse { entry: Some(found(visitor, to).await?) })
}

/// Removes a file, or a directory with everything in it. A path that does not exist is no error.
pub(super) async fn remove(visitor: &Visitor, request: RemoveRequest) -> Result<RemoveResponse, RpcError> {
    let path = place(visitor, &request.path)?;
    let work = visitor.begin(FileDeed::Remove, &path, None).await.map_err(|error| fault(visitor, error))?;
    let removed = visitor.change(&work, FileOperation::Remove { path, recursive: true }).await;
    match removed.map_err(|error| fault(visitor, error)) {
        Ok(()) | Err(RpcError::Told { code: Code::NotFound, .. }) => {
            work.done();
            Ok(RemoveResponse {})
        }
        Err(error) => Err(error),
    }
}

/// Lists a directory, as deep as is wanted. Links that lead nowhere are left out.
pub(super) async fn list_dir(
    visitor: &Visitor,
    request: ListDirRequest,
) -> Result<ListDirResponse, RpcError> {
    let path = place(visitor, &request.path)?;
    let operation = FileOperation::List { path, depth: request.depth.max(1), detail: Some(detail()) };
    let call = visitor.call(operation);
    let listing = visitor.sandbox.files().entries(call).await;
    let mut listing = listing.map_err(|error| fault(visitor, error))?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while let Some(part) = listing.next().await? {
        bytes += part.iter().map(|entry| entry.path.as_bytes().len()).sum::<usize>();
        entries.extend(part.into_iter().filter(|entry| !leads_nowhere(entry)).map(info));
        if entries.len() > MOST_ENTRIES || bytes > MOST_BYTES {
            let message = format!(
                "there are more than {MOST_ENTRIES} entries, or too long ones: list fewer levels at once"
            );
            return Err(RpcError::new(Code::ResourceExhausted, message));
        }
    }
    Ok(ListDirResponse { entries })
}

async fn found(visitor: &Visitor, path: ByteString) -> Result<EntryInfo, RpcError> {
    let entry = visitor.stat(path, false).await.map_err(|error| fault(visitor, error))?;
    Ok(info(entry))
}

async fn make(
    visitor: &Visitor,
    work: &FileWork,
    path: &ByteString,
    parents: bool,
) -> Result<(), EngineError> {
    let (path, permissions) = (path.clone(), Some(PERMISSIONS));
    visitor.change(work, FileOperation::MakeDirectory { path, permissions, parents }).await
}

/// The error for a new directory whose place is taken.
async fn taken(visitor: &Visitor, path: ByteString) -> RpcError {
    let name = path.to_text().into_owned();
    match visitor.stat(path, true).await {
        Ok(entry) if entry.kind != EntryKind::Directory => {
            RpcError::invalid(format!("path already exists but it is not a directory: {name}"))
        }
        Ok(_) => RpcError::new(Code::AlreadyExists, format!("directory already exists: {name}")),
        Err(error) => fault(visitor, error),
    }
}

/// True if the sandbox's kernel refused for this reason.
fn is(error: &EngineError, code: FailureCode) -> bool {
    matches!(error, EngineError::Refused(failure) if failure.code == code && failure.errno.is_some())
}
