use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::{Buf as _, Bytes};
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use tar::{Builder, EntryType, Header};
use tokio::runtime::Handle;
use warren_engine::{EngineError, FileReader, Files, WorkKind};
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_face::transfer::{Pace, export};
use warren_wire::api;
use warren_wire::guest::{ByteString, EntryKind, FailureCode, FileCall, FileEntry, FileOperation};

use super::named;
use crate::convert;
use crate::extract::{Json, Params, SandboxPath};
use crate::state::AppState;

/// Paths that one request may name.
const MOST_FILES: usize = 10_000;

/// Sends a directory as a tar file, while it is read.
pub(crate) async fn pack(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    params: Params,
) -> Result<Response, ApiError> {
    let user = convert::user(params.text("user"))?;
    let top = top(&sandbox.files(), named(&params, "path")?, user.clone()).await?;
    let packing = Packing { files: sandbox.files(), runtime: Handle::current(), top, user };
    send(&state, &caller, packing, None).await
}

/// As [`pack`], of the files that are named alone.
pub(crate) async fn pack_some(
    State(state): State<AppState>,
    caller: Caller,
    SandboxPath(sandbox): SandboxPath,
    Json(body): Json<api::PackFiles>,
) -> Result<Response, ApiError> {
    let user = convert::user(body.user.as_deref())?;
    if body.files.len() > MOST_FILES {
        return Err(ApiError::invalid("files", format!("`files` has up to {MOST_FILES} paths")));
    }
    let names: Vec<ByteString> = body.files.iter().map(|name| below(name)).collect::<Result<_, _>>()?;
    let top = top(&sandbox.files(), convert::path("path", &body.path)?, user.clone()).await?;
    let packing = Packing { files: sandbox.files(), runtime: Handle::current(), top, user };
    send(&state, &caller, packing, Some(names)).await
}

/// A name below the directory, and nowhere else.
fn below(name: &str) -> Result<ByteString, ApiError> {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !plain {
        return Err(ApiError::invalid("files", "each of `files` is a path below `path`, without `..`"));
    }
    convert::path("files", name)
}

/// The directory's absolute path.
async fn top(files: &Files, path: ByteString, user: Option<ByteString>) -> Result<ByteString, ApiError> {
    let operation = FileOperation::Stat { path, follow: true, detail: None };
    let entry = files.stat(FileCall { user, operation, as_root: None }).await?;
    if entry.kind != EntryKind::Directory {
        return Err(ApiError::new(Code::WrongKind, "it is not a directory"));
    }
    Ok(entry.path)
}

async fn send(
    state: &AppState,
    caller: &Caller,
    packing: Packing,
    names: Option<Vec<ByteString>>,
) -> Result<Response, ApiError> {
    let place = state.engine.as_(caller).place_for(WorkKind::Transfer).await?;
    let body = export(Pace::OfClient, move |to| async move {
        let packed = place.work(move || packing.all(names, to));
        packed.await.map_err(ApiError::internal)?.map_err(ApiError::from)
    });
    // What a sandbox wrote is never a page of ours.
    let headers = [(CONTENT_TYPE, "application/x-tar"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((headers, body.await?).into_response())
}

/// Why a directory is not packed, or not to its end.
#[derive(Debug, thiserror::Error)]
enum PackError {
    #[error("write the archive")]
    Archive(#[from] io::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<PackError> for ApiError {
    fn from(error: PackError) -> Self {
        match error {
            PackError::Engine(error) => error.into(),
            PackError::Archive(error) => Self::internal(error),
        }
    }
}

/// A directory that is packed, on a thread that may wait.
struct Packing {
    files: Files,
    runtime: Handle,
    top: ByteString,
    user: Option<ByteString>,
}

impl Packing {
    fn all(self, names: Option<Vec<ByteString>>, to: Box<dyn Write + Send>) -> Result<(), PackError> {
        let mut archive = Builder::new(to);
        match names {
            None => self.directory(&mut archive)?,
            Some(names) => names.iter().try_for_each(|name| self.named(&mut archive, name))?,
        }
        Ok(archive.into_inner()?.flush()?)
    }

    fn directory(&self, archive: &mut Builder<impl Write>) -> Result<(), PackError> {
        let list = FileOperation::List { path: self.top.clone(), depth: u32::MAX, detail: None };
        let mut listing = self.runtime.block_on(self.files.entries(self.call(list)))?;
        while let Some(entries) = self.runtime.block_on(listing.next())? {
            for entry in entries {
                self.entry(archive, &entry)?;
            }
        }
        Ok(())
    }

    /// A file that is gone is left out.
    fn named(&self, archive: &mut Builder<impl Write>, name: &ByteString) -> Result<(), PackError> {
        let path: ByteString = [self.top.as_bytes(), b"/", name.as_bytes()].concat().into();
        let stat = FileOperation::Stat { path, follow: false, detail: None };
        match self.runtime.block_on(self.files.stat(self.call(stat))) {
            Ok(entry) => self.entry(archive, &entry),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn entry(&self, archive: &mut Builder<impl Write>, entry: &FileEntry) -> Result<(), PackError> {
        let path = Path::new(OsStr::from_bytes(entry.path.as_bytes()));
        let Ok(name) = path.strip_prefix(OsStr::from_bytes(self.top.as_bytes())) else { return Ok(()) };
        if name.as_os_str().is_empty() {
            return Ok(());
        }
        let mut header = header(entry);
        match entry.kind {
            EntryKind::Directory => {
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, name, io::empty())?;
            }
            EntryKind::Symlink => {
                header.set_entry_type(EntryType::Symlink);
                let target = entry.target.as_ref().map_or(b"".as_slice(), ByteString::as_bytes);
                archive.append_link(&mut header, name, Path::new(OsStr::from_bytes(target)))?;
            }
            EntryKind::File => {
                let read = FileOperation::Read { path: entry.path.clone(), offset: 0, length: None };
                let reader = match self.runtime.block_on(self.files.read(self.call(read))) {
                    Ok(reader) => reader,
                    Err(error) if is_gone(&error) => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
                header.set_size(reader.entry.size);
                let left = reader.entry.size;
                let content = Content { runtime: &self.runtime, reader, piece: Bytes::new(), left };
                archive.append_data(&mut header, name, content)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn call(&self, operation: FileOperation) -> FileCall {
        FileCall { user: self.user.clone(), operation, as_root: None }
    }
}

/// It went away, or became something else, since it was listed.
fn is_gone(error: &EngineError) -> bool {
    let gone = [FailureCode::NotFound, FailureCode::WrongKind];
    matches!(error, EngineError::Refused(failure) if gone.contains(&failure.code))
}

fn header(entry: &FileEntry) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(entry.permissions & 0o7777);
    header.set_uid(entry.uid.into());
    header.set_gid(entry.gid.into());
    header.set_mtime(u64::try_from(entry.modified_ns / 1_000_000_000).unwrap_or(0));
    header.set_size(0);
    header
}

/// A file of the size that it had when it was opened: one that grows is cut, one that shrinks is an
/// error, since the archive has named its size.
struct Content<'a> {
    runtime: &'a Handle,
    reader: FileReader,
    piece: Bytes,
    left: u64,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Ok(0);
        }
        while self.piece.is_empty() {
            let next = self.runtime.block_on(self.reader.next()).map_err(io::Error::other)?;
            self.piece = next.ok_or_else(|| io::Error::other("a file became shorter while it was packed"))?;
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let count = self.piece.len().min(buffer.len()).min(most);
        self.piece.copy_to_slice(&mut buffer[..count]);
        self.left -= count as u64;
        Ok(count)
    }
}
